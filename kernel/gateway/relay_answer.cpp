// The answer half of a relay: what comes back from the agent, to the client or to the next attempt.
#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "gateway/answer_shape.hpp"
#include "gateway/answer_usage.hpp"
#include "gateway/field_rules.hpp"
#include "gateway/relay.hpp"

namespace hive::gateway {

namespace {

using routing::attempt_result;

// Where an answer too large to be held whole may tell its usage: this many bytes at either end.
constexpr size_t usage_window = 4096;

link::usage usage_of(const http::token_usage &found) { return {found.prompt, found.completion, found.cached, found.present}; }

constexpr std::string_view closed_inside = "the engine closed the connection inside its answer";

}  // namespace

void relay::collect_engine_headers(std::span<const http::field> fields) {
  engine_fields_.reserve(fields.size());
  for (const http::field &f : fields) {
    if (f.name == ":class") engine_class_ = f.value;
    else if (f.name == ":message") engine_message_ = f.value;
    else if (f.name == ":usage") usage_in_characters_ = f.value == "characters";
    else if (f.name == ":body") {
      until_close_ = f.value == "until_close";
      error_cut_ = f.value == "cut";
    } else if (f.name.substr(0, 1) != ":" && goes_to_client(f.name)) {
      if (iequals(f.name, "content-encoding") && !f.value.empty() && !iequals(f.value, "identity")) encoded_ = true;
      engine_fields_.emplace_back(f.name, f.value);
    }
  }
}

void relay::on_head(const link::stream_head &head) {
  agent_has_it();
  sampled_ = true;
  session_->sample(head.rtt_ms);
  engine_status_ = head.status;
  collect_engine_headers(head.fields);
  // What an operator's own routes mean by another 2xx is theirs; with no verdict of the agent's it is their answer.
  const bool answered = head.status == 200 || (route_.forms && head.status > 200 && head.status < 300);
  if (!answered || !engine_class_.empty()) {
    mode_ = mode::error;
    return;
  }
  if (!head.streaming) {
    mode_ = mode::buffer;
    return;
  }
  mode_ = mode::stream;
  scanner_.emplace();
  if (usage_asked_ && !encoded_) filter_.emplace();
  context_.forwards.release(*this);
  set_stage(&context_.stages.streaming);
  if (context_.options.stream_timeout_ns != 0) {
    deadline_ns_ = now_ns() + context_.options.stream_timeout_ns;
    context_.home.arm(*this, deadline_ns_);
  }
}

void relay::on_data(std::string_view bytes) {
  switch (mode_) {
    case mode::stream: return stream_data(bytes);
    case mode::buffer: return buffer_data(bytes);
    case mode::error:
      if (held_.size() + bytes.size() > context_.options.error_body_bytes) error_cut_ = true;
      if (!error_cut_) hold(bytes);
      stream_->consumed(bytes.size());
      return;
    case mode::none: return;
  }
}

void relay::stream_data(std::string_view bytes) {
  if (encoded_) {
    // Content cannot be told from anything else in it: the first byte commits.
    encoded_bytes_ += bytes.size();
    if (committed_) return exchange_.write(bytes);
    hold(bytes);
    return commit();
  }
  scanner_->feed(bytes);
  if (way_in_) tell_progress();
  if (filter_) {
    size_t kept_back = 0;
    bytes = filter_->pass(bytes, kept_back);
    if (kept_back > 0) stream_->consumed(kept_back);
    at_event_end_ = filter_->between_events();
  } else {
    at_event_end_ = bytes.ends_with("\n\n") || bytes.ends_with("\r\n\r\n") || bytes.ends_with("\r\r");
  }
  if (committed_) {
    if (keepalive_.armed()) last_sent_ns_ = now_ns();
    exchange_.write(bytes);
    return;
  }
  hold(bytes);
  const http::stream_facts &facts = scanner_->facts();
  if (facts.error && !facts.content) return retry(attempt_result::retryable, stream_error(facts), "engine_error");
  if (facts.content || held_.size() > context_.options.held_stream_bytes) commit();
}

void relay::buffer_data(std::string_view bytes) {
  if (encoded_) encoded_bytes_ += bytes.size();
  if (committed_) {
    tail_.append(bytes.substr(bytes.size() - std::min(bytes.size(), usage_window)));
    if (tail_.size() > 4 * usage_window) tail_.erase(0, tail_.size() - usage_window);
    exchange_.write(bytes);
    return;
  }
  hold(bytes);
  stream_->consumed(bytes.size());
  const auto &limits = context_.options;
  if (held_.size() > (short_of_memory() ? limits.short_stream_bytes : limits.buffered_answer_bytes)) commit();
}

std::string_view relay::engine_field(std::string_view name) const {
  for (const auto &[given, value] : engine_fields_)
    if (iequals(given, name)) return value;
  return {};
}

std::vector<http::field> relay::answer_fields(bool streaming) {
  std::vector<http::field> fields;
  fields.reserve(engine_fields_.size() + 8);
  for (const auto &[name, value] : engine_fields_) {
    if (streaming && iequals(name, "cache-control")) continue;
    fields.push_back({name, value});
  }
  fields.push_back({"X-Request-ID", request_id_});
  expose_routing(fields);
  if (quota_) exchange_.add_fields(quota_->header_lines());
  if (streaming) {
    fields.push_back({"Cache-Control", "no-cache, no-transform"});
    fields.push_back({"X-Accel-Buffering", "no"});
  }
  return fields;
}

// From here on the client has seen this attempt: no other agent can take over.
void relay::commit() {
  committed_ = true;
  first_byte_ns_ = now_ns();
  if (mode_ == mode::stream) session_->first_content();
  const auto fields = answer_fields(mode_ == mode::stream);
  exchange_.begin({engine_status_, fields});
  const size_t already_returned = mode_ == mode::buffer ? held_.size() : 0;
  if (mode_ == mode::buffer) {
    const std::string_view held = held_;
    take_usage(usage_of(usage_of_part(held.substr(0, usage_window))));
    tail_ = held.substr(held.size() - std::min(held.size(), usage_window));
  }
  if (mode_ == mode::stream && context_.options.sse_keepalive_ns != 0 && !encoded_) {
    last_sent_ns_ = first_byte_ns_;
    context_.home.arm(keepalive_, last_sent_ns_ + context_.options.sse_keepalive_ns);
  }
  exchange_.write(held_);
  buffered_credit_ = already_returned;
  let_go();
  body_.reset();  // nobody will be asked again
}

// A comment line alone: with an empty line behind it two official SDKs dispatch an empty event. Only between events, and only to
// a client that has taken what was sent before.
void relay::keep_alive() {
  if (recorded_ || !stream_) return;
  const uint64_t now = now_ns();
  const uint64_t due = last_sent_ns_ + context_.options.sse_keepalive_ns;
  if (now < due) return context_.home.arm(keepalive_, due);
  if (at_event_end_ && exchange_.unwritten() == 0) exchange_.write(":\n");
  last_sent_ns_ = now;
  context_.home.arm(keepalive_, now + context_.options.sse_keepalive_ns);
}

void relay::on_written(size_t bytes) {
  // What was buffered before the commit has had its credit back already.
  const size_t skip = std::min(bytes, buffered_credit_);
  buffered_credit_ -= skip;
  owed_ += bytes - skip;
  give_credit();
}

void relay::on_end(const link::usage &from_agent) {
  stream_.reset();
  take_usage(from_agent);
  switch (mode_) {
    case mode::stream:
      return finish_stream();
    case mode::buffer: return finish_buffered();
    case mode::error: return judge_engine_error();
    case mode::none: {
      agent_has_it();
      link::stream_failure failure;
      failure.why = link::cause::protocol;
      failure.message = "the agent ended the stream without an answer";
      return on_failed(failure);
    }
  }
}

void relay::finish_stream() {
  scanner_->end();
  const http::stream_facts &facts = scanner_->facts();
  take_usage(usage_of(facts.usage));
  if (facts.error && !committed_) return retry(attempt_result::retryable, stream_error(facts), "engine_error");
  // An engine's death looks like the end of such a body. On the routes whose events we know a whole answer says that it is one.
  const bool told = facts.finished || facts.done || facts.error || facts.unread;
  if (until_close_ && !told && !route_.forms) return on_cut(closed_inside);
  if (filter_) {
    size_t kept_back = 0;
    const std::string_view last = filter_->rest(kept_back);
    if (!committed_) held_ += last;
    else exchange_.write(last);
  }
  if (!committed_) commit();
  end_attempt(facts.error ? attempt_result::broken : attempt_result::completed);
  record(facts.error ? ended::engine_error : ended::completed, engine_status_, facts.error ? "backend_error" : "");
  exchange_.end();
}

void relay::on_cut(std::string_view words) {
  link::stream_failure failure;
  failure.why = link::cause::engine_cut;
  failure.message = words;
  on_failed(failure);
}

// What is wrong with an answer that has ended well; nothing, as far as is known. The answers of the built-in routes are JSON objects,
// and every byte is looked at only where nothing but the connection's end has said that the last one was there.
std::string_view relay::flaw_of_answer() const {
  if (encoded_ || route_.forms || !http::is_json(engine_field("content-type"))) return {};
  if (until_close_) return (committed_ ? trim(tail_).ends_with('}') : is_one_object(held_)) ? std::string_view() : closed_inside;
  if (committed_ || route_.capability != "llm" || looks_like_object(held_)) return {};
  return "the engine's answer is no JSON object";
}

void relay::finish_buffered() {
  if (const std::string_view flaw = flaw_of_answer(); !flaw.empty()) return on_cut(flaw);
  if (committed_) {
    take_usage(usage_of(usage_of_part(tail_)));
    end_attempt(attempt_result::completed);
    record(ended::completed, engine_status_, "");
    return exchange_.end();
  }
  // An agent that held the answer back has read it already, with the same eyes.
  if (!usage_.known) take_usage(usage_of(http::usage_of_answer(held_)));
  end_attempt(attempt_result::completed);
  if (!answer_in_budget()) return;
  first_byte_ns_ = now_ns();
  record(ended::completed, engine_status_, "");
  const auto fields = answer_fields(false);
  const std::string body = std::move(held_);
  exchange_.respond({engine_status_, fields}, body);
}

std::string_view relay::refusal_code() const {
  return engine_class_ == "context" ? "context_length_exceeded" : engine_class_ == "unknown_model" ? "model_not_found" : "invalid_parameter";
}

// A complete answer that is none of the route's. The agent's engine adapter has judged it (":class").
void relay::judge_engine_error() {
  const std::string &c = engine_class_;
  const bool honest = engine_status_ >= 400 && engine_status_ < 500;
  if (c == "client" || c == "context" || c == "unknown_model") {
    end_attempt(attempt_result::terminal);
    if (honest && !error_cut_) return pass_on(engine_status_, std::move(held_));
    // Some engines answer 500 to a client's mistake: the client gets a status that tells the truth.
    api_error error = make_error(refusal_code(), engine_message_, "backend");
    if (honest) error.status = engine_status_;
    if (error.status == 429) error.retry_after_s = 1;
    return refuse(ended::rejected_by_engine, error);
  }
  std::string message = engine_message_.empty() ? "the engine answered " + std::to_string(engine_status_) : engine_message_;
  retry(attempt_result::retryable, make_error("backend_error", std::move(message), "backend"), "engine_error");
}

void relay::on_failed(const link::stream_failure &failure) {
  const bool opened = stream_ != nullptr;
  stream_.reset();
  if (!attempt_open_) return;
  take_lease();
  using link::cause;
  const std::string_view label = to_string(failure.why);
  std::string words = failure.message.empty() ? std::string(label) : failure.message;
  const uint64_t wait_s = std::clamp<uint64_t>((failure.retry_after_ms + 999) / 1000, 1, 60);
  // A refusal is no measure of the agent's latency, a failure after OPEN was sent is.
  const bool refusal = failure.why <= cause::open_timeout;
  if (opened && !refusal) agent_has_it();
  if (!refusal && !sampled_ && failure.rtt_ms > 0) session_->sample(failure.rtt_ms);
  exclude_ = failure.why != cause::busy;

  if (committed_) {
    const bool lost = failure.why == cause::link_lost || failure.why == cause::shutdown;
    const bool slow = failure.why == cause::client_slow;
    end_attempt(slow ? attempt_result::cancelled : attempt_result::broken);
    return break_off(slow ? ended::client_slow : lost ? ended::agent_lost : ended::engine_error,
                     make_error(lost ? "agent_disconnected" : "backend_error", std::move(words), lost ? "router" : "backend"));
  }
  switch (failure.why) {
    case cause::busy:
    case cause::draining:
    case cause::unknown_model:
      return retry(attempt_result::refused, make_error("no_capacity", std::move(words), "router", wait_s), label);
    case cause::open_timeout:
      return retry(attempt_result::refused, make_error("agent_disconnected", std::move(words), "router", 1), label);
    case cause::overloaded:
    case cause::starting:
      return retry(attempt_result::overloaded, make_error("backend_unavailable", std::move(words), "backend", wait_s), label);
    case cause::engine_unreachable:
      return retry(attempt_result::retryable, make_error("backend_unavailable", std::move(words), "backend", 1), label);
    case cause::link_lost:
    case cause::shutdown:  // the agent's drain ran out of time
      return retry(attempt_result::link_lost, make_error("agent_disconnected", std::move(words), "router", 1), label);
    default:
      return retry(attempt_result::retryable, make_error("backend_error", std::move(words), "backend"), label);
  }
}

void relay::break_off(ended how, const api_error &error) {
  record(how, engine_status_, error.code);
  if (mode_ == mode::stream && !encoded_) {
    if (!at_event_end_) exchange_.write("\n\n");
    exchange_.write(error_event(error, route_.speaks, request_id_));
  }
  exchange_.abort();
}

void relay::pass_on(int status, std::string body) {
  record(ended::rejected_by_engine, status, refusal_code());
  auto fields = answer_fields(false);
  // Clients repeat a 429 by themselves; every one says when.
  if (status == 429 && engine_field("retry-after").empty()) fields.push_back({"Retry-After", "1"});
  exchange_.respond({status, fields}, body);
}

}  // namespace hive::gateway
