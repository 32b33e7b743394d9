#include "gateway/relay.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.hpp"
#include "hive/abi/views.h"

namespace hive::gateway {

namespace {

using routing::attempt_result;

// Client fields that never reach an agent: credentials, what belongs to one connection, and what the router sets itself.
constexpr std::array<std::string_view, 22> request_fields_kept_back = {
    "authorization", "x-api-key",  "cookie",           "connection",        "keep-alive",      "proxy-connection",
    "transfer-encoding", "te",     "trailer",          "upgrade",           "host",            "content-length",
    "expect",        "accept-encoding", "x-request-id", "proxy-authorization", "proxy-authenticate", "forwarded",
    "x-forwarded-for", "x-real-ip", "x-forwarded-host", "http2-settings"};

// Engine fields that the router answers for itself or that belong to its connection.
constexpr std::array<std::string_view, 12> answer_fields_kept_back = {
    "connection", "keep-alive", "proxy-connection", "transfer-encoding", "te",   "trailer",
    "upgrade",    "content-length", "server",       "date",              "x-request-id", "proxy-authenticate"};

bool listed(std::string_view name, std::span<const std::string_view> list) {
  return std::any_of(list.begin(), list.end(), [&](std::string_view n) { return iequals(n, name); });
}

bool starts_with_folded(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && iequals(text.substr(0, prefix.size()), prefix);
}

link::usage usage_of(const http::token_usage &found) { return {found.prompt, found.completion, 0, found.present}; }

// Before anything was learned of a model: 1 / 3.2 tokens a byte, at least 4 a message (HTTP sheet section 12.1).
uint64_t estimated_prompt_tokens(const request_scan &scan) {
  return std::max<uint64_t>((scan.text_bytes * 5 + 15) / 16, 4 * scan.messages);
}

// A field named in the client's Connection header belongs to that connection too.
bool named_in_connection(std::string_view name, std::span<const http::field> fields) {
  const http::field *connection = http::find_field(fields, "connection");
  if (connection == nullptr) return false;
  for (const std::string &token : split_trimmed(connection->value, ','))
    if (iequals(token, name)) return true;
  return false;
}

}  // namespace

relay::relay(worker_context &context, http::exchange &exchange, const route &r, std::string request_id)
    : forward_waiter(context.home),
      context_(context),
      exchange_(exchange),
      route_(r),
      request_id_(std::move(request_id)),
      method_(exchange.head().method),
      client_(exchange.client_address()),
      started_ns_(exchange.arrived_ns()),
      started_unix_ms_(unix_ms()),
      deadline_ns_(started_ns_ + context.options.request_timeout_ns) {
  context_.records.on_started(method_, route_.label);
}

relay::~relay() {
  if (!recorded_) record(ended::shutdown, 499, "shutting_down");
  set_stage(nullptr);
}

void relay::set_stage(std::atomic<int64_t> *stage) {
  if (stage_ != nullptr) stage_->fetch_sub(1, std::memory_order_relaxed);
  stage_ = stage;
  if (stage_ != nullptr) stage_->fetch_add(1, std::memory_order_relaxed);
}

void relay::start() {
  set_stage(&context_.stages.reading_body);
  context_.home.arm(*this, deadline_ns_);
  exchange_.read_body(context_.options.max_body_bytes == 0 ? UINT64_MAX : context_.options.max_body_bytes);
}

void relay::on_body_failed(http::body_error why) {
  switch (why) {
    case http::body_error::too_large: {
      api_error error = make_error("request_invalid", "request body too large: the limit is " +
                                                          std::to_string(context_.options.max_body_bytes) + " bytes");
      error.status = 413;
      return refuse(ended::rejected_request, error);
    }
    case http::body_error::malformed:
      return refuse(ended::rejected_request, make_error("request_invalid", "the request body's framing is malformed"));
    case http::body_error::timed_out: {
      api_error error = make_error("request_invalid", "the request body did not arrive in time");
      error.status = 408;
      return refuse(ended::rejected_request, error);
    }
  }
}

void relay::on_body(http::body_ptr body) {
  body_ = std::move(body);
  if (const auto error = context_.scanner->scan(*body_, scan_))
    return refuse(ended::rejected_request, make_error("request_invalid", error->message));
  set_stage(&context_.stages.selecting);
  switch (context_.forwards.acquire(*this, false)) {
    case forward_line::answer::granted: return look_for_agent();
    case forward_line::answer::waiting: return;
    case forward_line::answer::full: return on_forward_refused();
  }
}

void relay::on_forward_refused() {
  refuse(ended::rejected_queue, make_error("queue_full", "the router's request queue is full", "router", 1));
}

void relay::on_forward_slot() {
  if (lease_) return dispatch();
  look_for_agent();
}

void relay::look_for_agent() {
  set_stage(&context_.stages.selecting);
  if (!session_) {
    routing::request_facts facts;
    facts.request_id = request_id_;
    facts.model = scan_.model;
    facts.capability = route_.capability;
    facts.route = route_.label;
    facts.tenant = "default";
    facts.streaming = scan_.stream;
    facts.deadline_ns = deadline_ns_;
    facts.prompt_tokens = estimated_prompt_tokens(scan_);
    facts.output_tokens = scan_.declared_output().value_or(HIVE_TOKENS_UNKNOWN);
    facts.body_bytes = body_->size();
    session_ = context_.router.open(context_.home, facts, *this);
  }
  session_->next();
}

// Parked in the pool's capacity queue: the forward slot goes to somebody who can use it.
void relay::on_parked() {
  context_.forwards.release(*this);
}

void relay::on_lease(fleet::lease lease, std::string_view step) {
  lease_ = std::move(lease);
  step_ = step;
  agent_ = lease_.who()->peer_id();
  attempt_open_ = true;
  if (!holds_slot() && context_.forwards.acquire(*this, true) != forward_line::answer::granted) return;
  dispatch();
}

void relay::dispatch() {
  struct slot_keeper final : link::held {
    explicit slot_keeper(fleet::lease l) : lease(std::move(l)) {}
    fleet::lease lease;
  };

  set_stage(&context_.stages.forwarding);
  mode_ = mode::none;
  held_.clear();
  engine_fields_.clear();
  engine_class_.clear();
  engine_message_.clear();
  sampled_ = false;
  dispatched_ns_ = now_ns();

  std::vector<http::field> fields;
  const auto client_fields = exchange_.head().fields;
  fields.reserve(client_fields.size() + 3);
  bool typed = false;
  for (const http::field &f : client_fields) {
    if (listed(f.name, request_fields_kept_back) || named_in_connection(f.name, client_fields)) continue;
    typed = typed || iequals(f.name, "content-type");
    fields.push_back(f);
  }
  if (!typed) fields.push_back({"content-type", "application/json"});
  fields.push_back({"x-request-id", request_id_});
  fields.push_back({"accept-encoding", "identity"});

  link::open_request open;
  std::string target(route_.path);
  if (!exchange_.head().query.empty()) {
    target += '?';
    target += exchange_.head().query;
  }
  open.target = target;
  open.request_id = request_id_;
  open.model = scan_.model;
  open.route = route_.label;
  open.streaming = scan_.stream;
  open.buffered_head = route_.buffered_head && !scan_.stream;
  open.deadline_ns = deadline_ns_;
  open.fields = fields;
  open.body = body_;

  link::stream_failure why;
  const std::string peer = agent_;
  stream_ = context_.hub->open(peer, open, *this, std::make_unique<slot_keeper>(std::move(lease_)), why);
  if (!stream_) on_failed(why);
}

void relay::collect_engine_headers(std::span<const http::field> fields) {
  for (const http::field &f : fields) {
    if (f.name == ":class") engine_class_ = f.value;
    else if (f.name == ":message") engine_message_ = f.value;
    else if (f.name.substr(0, 1) == ":" || listed(f.name, answer_fields_kept_back) ||
             starts_with_folded(f.name, "access-control-") || starts_with_folded(f.name, "x-ratelimit-"))
      continue;
    else engine_fields_.emplace_back(f.name, f.value);
  }
}

void relay::on_head(const link::stream_head &head) {
  sampled_ = true;
  session_->sample(head.rtt_ms);
  engine_status_ = head.status;
  collect_engine_headers(head.fields);
  if (head.status != 200 || !engine_class_.empty()) {
    mode_ = mode::error;
    return;
  }
  if (!head.streaming) {
    mode_ = mode::buffer;
    return;
  }
  mode_ = mode::stream;
  scanner_.emplace();
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
      if (held_.size() < context_.options.error_body_bytes)
        held_.append(bytes.substr(0, context_.options.error_body_bytes - held_.size()));
      stream_->consumed(bytes.size());
      return;
    case mode::none: return;
  }
}

void relay::stream_data(std::string_view bytes) {
  scanner_->feed(bytes);
  at_event_end_ = bytes.ends_with("\n\n") || bytes.ends_with("\r\n\r\n") || bytes.ends_with("\r\r");
  if (committed_) {
    exchange_.write(bytes);
    return;
  }
  held_.append(bytes);
  const http::stream_facts &facts = scanner_->facts();
  if (facts.error && !facts.content) {
    std::string message = "the engine reported an error: " + facts.error_text;
    return retry(attempt_result::retryable, make_error("backend_error", std::move(message), "backend"), "engine_error");
  }
  if (facts.content || held_.size() > context_.options.held_stream_bytes) commit();
}

void relay::buffer_data(std::string_view bytes) {
  if (committed_) {
    exchange_.write(bytes);
    return;
  }
  held_.append(bytes);
  if (held_.size() > context_.options.buffered_answer_bytes) return commit();
  stream_->consumed(bytes.size());
}

std::vector<http::field> relay::answer_fields(bool streaming) const {
  std::vector<http::field> fields;
  fields.reserve(engine_fields_.size() + 4);
  bool accel = false;
  for (const auto &[name, value] : engine_fields_) {
    if (streaming && iequals(name, "cache-control")) continue;
    accel = accel || iequals(name, "x-accel-buffering");
    fields.push_back({name, value});
  }
  fields.push_back({"X-Request-ID", request_id_});
  if (streaming) {
    fields.push_back({"Cache-Control", "no-cache, no-transform"});
    if (!accel) fields.push_back({"X-Accel-Buffering", "no"});
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
  exchange_.write(held_);
  buffered_credit_ = already_returned;
  held_ = std::string();
}

void relay::on_written(size_t bytes) {
  // What was buffered before the commit has had its credit back already.
  const size_t skip = std::min(bytes, buffered_credit_);
  buffered_credit_ -= skip;
  if (stream_ && bytes > skip) stream_->consumed(bytes - skip);
}

void relay::on_end(const link::usage &from_agent) {
  stream_.reset();
  usage_ = from_agent;
  switch (mode_) {
    case mode::stream:
      return finish_stream();
    case mode::buffer: return finish_buffered();
    case mode::error: return judge_engine_error();
    case mode::none: {
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
  if (facts.usage.present) usage_ = usage_of(facts.usage);
  if (facts.error && !committed_)
    return retry(attempt_result::retryable, make_error("backend_error", "the engine reported an error: " + facts.error_text, "backend"),
                 "engine_error");
  if (!committed_) commit();
  end_attempt(facts.error ? attempt_result::broken : attempt_result::completed);
  record(facts.error ? ended::engine_error : ended::completed, 200, facts.error ? "backend_error" : "");
  exchange_.end();
}

void relay::finish_buffered() {
  if (committed_) {
    end_attempt(attempt_result::completed);
    record(ended::completed, engine_status_, "");
    return exchange_.end();
  }
  if (const auto found = http::usage_of_answer(held_); found.present) usage_ = usage_of(found);
  end_attempt(attempt_result::completed);
  first_byte_ns_ = now_ns();
  record(ended::completed, engine_status_, "");
  const auto fields = answer_fields(false);
  const std::string body = std::move(held_);
  exchange_.respond({engine_status_, fields}, body);
}

// A complete answer that is not a 200. The agent's engine adapter has judged it (":class").
void relay::judge_engine_error() {
  const std::string &c = engine_class_;
  const bool honest = engine_status_ >= 400 && engine_status_ < 500;
  if (c == "client" || c == "context" || c == "unknown_model") {
    end_attempt(attempt_result::terminal);
    if (honest) return pass_on(engine_status_, std::move(held_));
    // Some engines answer 500 to a client's mistake: the client gets a status that tells the truth.
    return refuse(ended::rejected_by_engine,
                  make_error(c == "context" ? "context_length_exceeded" : "invalid_parameter", engine_message_, "backend"));
  }
  std::string message = engine_message_.empty() ? "the engine answered " + std::to_string(engine_status_) : engine_message_;
  retry(attempt_result::retryable, make_error("backend_error", std::move(message), "backend"), "engine_error");
}

void relay::on_failed(const link::stream_failure &failure) {
  stream_.reset();
  if (!attempt_open_) return;
  lease_.reset();
  using link::cause;
  const std::string_view label = to_string(failure.why);
  std::string words = failure.message.empty() ? std::string(label) : failure.message;
  const uint64_t wait_s = std::clamp<uint64_t>((failure.retry_after_ms + 999) / 1000, 1, 60);
  // A refusal is no measure of the agent's latency, a failure after OPEN was sent is.
  const bool refusal = failure.why <= cause::open_timeout;
  if (!refusal && !sampled_ && failure.rtt_ms > 0) session_->sample(failure.rtt_ms);

  if (committed_) {
    const bool lost = failure.why == cause::link_lost;
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
      return retry(attempt_result::refused, make_error("backend_unavailable", std::move(words), "backend", wait_s), label);
    case cause::engine_unreachable:
      return retry(attempt_result::retryable, make_error("backend_unavailable", std::move(words), "backend", 1), label);
    case cause::link_lost:
      return retry(attempt_result::link_lost, make_error("agent_disconnected", std::move(words), "router", 1), label);
    default:
      return retry(attempt_result::retryable, make_error("backend_error", std::move(words), "backend"), label);
  }
}

void relay::retry(attempt_result result, api_error error, std::string_view cause) {
  stream_.reset();
  exclude_ = cause != link::to_string(link::cause::busy);
  context_.records.on_attempt_failed(agent_, scan_.model, cause);
  last_error_ = std::move(error);
  end_attempt(result);
  scanner_.reset();
  mode_ = mode::none;
  held_.clear();
  if (holds_slot()) return look_for_agent();
  // A stream gave its forward slot back at HEAD; the next attempt needs one again.
  set_stage(&context_.stages.selecting);
  switch (context_.forwards.acquire(*this, true)) {
    case forward_line::answer::granted: return look_for_agent();
    default: return;
  }
}

void relay::end_attempt(attempt_result result) {
  if (!attempt_open_) return;
  attempt_open_ = false;
  routing::attempt_report report;
  report.what = result;
  report.exclude = exclude_;
  report.prompt_tokens = usage_.prompt_tokens;
  report.output_tokens = usage_.output_tokens;
  session_->report(report);
}

void relay::on_exhausted(const routing::exhaustion &e) {
  // What really happened says more than "nobody is left".
  if (last_error_ && e.code != "request_timeout") {
    const bool lost = last_error_->code == "agent_disconnected";
    const bool full = last_error_->code == "no_capacity";
    return refuse(lost ? ended::agent_lost : full ? ended::rejected_capacity : ended::engine_error, *last_error_);
  }
  const api_error error = make_error(e.code, e.message, "router", e.retry_after_s);
  const ended how = e.code == "request_timeout" ? ended::deadline
                    : e.code == "no_capacity"   ? ended::rejected_capacity
                                                : ended::rejected_no_agent;
  refuse(how, error);
}

void relay::on_timer() {
  if (stream_ && !sampled_) session_->sample(static_cast<double>(now_ns() - dispatched_ns_) / static_cast<double>(ns_per_ms));
  if (stream_) stream_->cancel(link::cause::deadline);
  stream_.reset();
  lease_.reset();
  end_attempt(attempt_result::timed_out);
  const api_error error = make_error("request_timeout", "the request's deadline has passed");
  if (committed_) return break_off(ended::deadline, error);
  refuse(ended::deadline, error);
}

void relay::on_gone(http::gone why) {
  const bool slow = why == http::gone::client_slow;
  if (stream_) stream_->cancel(slow ? link::cause::client_slow : link::cause::client_gone);
  stream_.reset();
  lease_.reset();
  end_attempt(attempt_result::cancelled);
  record(why == http::gone::shutdown ? ended::shutdown : slow ? ended::client_slow : ended::client_gone,
         committed_ ? engine_status_ : 499, slow ? "client_slow" : "client_gone");
}

void relay::break_off(ended how, const api_error &error) {
  record(how, engine_status_, error.code);
  if (mode_ == mode::stream) {
    if (!at_event_end_) exchange_.write("\n\n");
    exchange_.write(error_event(error, route_.speaks, request_id_));
  }
  exchange_.abort();
}

void relay::refuse(ended how, const api_error &error) {
  record(how, error.status, error.code);
  session_.reset();
  context_.forwards.leave(*this);
  context_.forwards.release(*this);
  const std::string retry_after = std::to_string(error.retry_after_s);
  std::vector<http::field> fields = {{"Content-Type", "application/json; charset=utf-8"}, {"X-Request-ID", request_id_}};
  if (error.retry_after_s > 0) fields.push_back({"Retry-After", retry_after});
  const std::string body = error_body(error, route_.speaks, request_id_);
  exchange_.respond({error.status, fields}, body);
}

void relay::pass_on(int status, std::string body) {
  const std::string_view code = engine_class_ == "context"         ? "context_length_exceeded"
                                : engine_class_ == "unknown_model" ? "model_not_found"
                                                                   : "invalid_parameter";
  record(ended::rejected_by_engine, status, code);
  const auto fields = answer_fields(false);
  exchange_.respond({status, fields}, body);
}

void relay::record(ended how, int status, std::string_view code) {
  if (recorded_) return;
  recorded_ = true;
  disarm();
  request_record r;
  r.request_id = request_id_;
  r.method = method_;
  r.route = route_.label;
  r.inference = true;
  r.client = client_;
  r.tenant = "default";
  r.model = scan_.model;
  r.model_known = !agent_.empty() || context_.router.knows(scan_.model);
  r.agent = agent_;
  r.step = step_;
  r.error_code = code;
  r.status = status;
  r.how = how;
  r.streaming = mode_ == mode::stream;
  r.attempts = session_ ? session_->attempts() : 0;
  r.queue_ns = session_ ? session_->queue_ns() : 0;
  r.started_unix_ms = started_unix_ms_;
  const uint64_t now = now_ns();
  r.duration_ns = now - started_ns_;
  r.first_byte_ns = first_byte_ns_ == 0 ? 0 : first_byte_ns_ - started_ns_;
  r.usage = usage_;
  context_.records.on_finished(r);
}

}  // namespace hive::gateway
