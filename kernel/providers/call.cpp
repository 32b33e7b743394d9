#include "providers/call.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "observe/log.hpp"
#include "providers/json_read.hpp"
#include "providers/refusal.hpp"

namespace hive::providers {

namespace {

constexpr std::string_view event_stream = "text/event-stream";
constexpr std::string_view whole_json = "application/json";

// The answer of the same API, as it came but for one member, once it is known to be one.
result<std::string> with_processed_by(std::string_view text, api spoken, std::string_view who, std::string_view key) {
  const auto read = read_object(text, "the answer");
  if (!read) return read.why();
  const bool chat = spoken == api::chat || spoken == api::completions;
  const json::array *list = chat ? array_in(*read, "choices") : spoken == api::messages ? array_in(*read, "content") : nullptr;
  if (chat && (list == nullptr || list->empty())) return fail(errc::invalid, "the answer holds no choices");
  if (spoken == api::messages && list == nullptr) return fail(errc::invalid, "the answer holds no content");
  const size_t brace = text.find('{');
  std::string out(text.substr(0, brace + 1));
  out += "\"processed_by\":";
  append_json_string(out, who);
  if (!read->empty()) out += ',';
  out += text.substr(brace + 1);
  if (member(*read, "error") != nullptr) hide_key(out, key);  // a response that failed
  return out;
}

}  // namespace

template <class F>
bool running_call::tell(F &&f) {
  bool destroyed = false;
  destroyed_ = &destroyed;
  f();
  if (!destroyed) destroyed_ = nullptr;
  return !destroyed;
}

running_call::running_call(const provider &from, const call_order &order, bool tools, bool include_usage, const call_limits &limits,
                           call_metrics &metrics, link::stream_events &events)
    : from_(from),
      asked_(order.asked),
      spoken_(spoken_by(from.kind, order.asked)),
      model_(order.model),
      label_(from.label()),
      request_id_(order.request_id),
      tools_(tools),
      include_usage_(include_usage),
      limits_(limits),
      metrics_(metrics),
      events_(events),
      started_ns_(now_ns()),
      claim_(order.memory) {}

running_call::~running_call() {
  if (destroyed_ != nullptr) *destroyed_ = true;
}

void running_call::start(http::client &client, std::string body, const call_order &order) {
  http::call_request request;
  request.target = path_of(spoken_);
  request.content_length = body.size();
  request.deadline_ns = started_ns_ + limits_.time_ns;
  const std::string bearer = "Bearer " + from_.key;
  std::vector<http::field> &fields = request.fields;
  fields = {{"content-type", whole_json}, {"accept-encoding", "identity"}, {"user-agent", "hivenet-router"}};
  if (from_.kind == vendor::openai) {
    fields.push_back({"authorization", bearer});
  } else {
    fields.push_back({"x-api-key", from_.key});
    const http::field *version = translated() ? nullptr : http::find_field(order.client_fields, "anthropic-version");
    fields.push_back({"anthropic-version", version != nullptr ? version->value : std::string_view("2023-06-01")});
    const http::field *beta = translated() ? nullptr : http::find_field(order.client_fields, "anthropic-beta");
    if (beta != nullptr) fields.push_back({"anthropic-beta", beta->value});
  }
  claim_.set(body.size());
  call_ = client.start(std::move(request), *this);
  call_->body(body);
}

void running_call::consumed(size_t bytes) {
  owed_ -= std::min(owed_, bytes);
  if (!paused_ || owed_ > limits_.window_bytes / 2 || !call_) return;
  paused_ = false;
  call_->resume();
}

void running_call::cancel(link::cause) { call_.reset(); }

answer_context running_call::context() const {
  answer_context c;
  c.model = model_;
  c.processed_by = label_;
  c.created_s = unix_ms() / 1000;
  c.tools = tools_;
  c.include_usage = include_usage_;
  return c;
}

void running_call::hold(std::string_view bytes) {
  held_.append(bytes);
  claim_.set(held_.capacity());
}

void running_call::on_head(const http::response_head &head) {
  status_ = head.status;
  metrics_.on_provider_call(from_.engine(), status_, now_ns() - started_ns_);
  claim_.set(0);  // the request is not needed any more
  if (const auto *f = http::find_field(head.fields, "content-type")) content_type_ = f->value;
  if (const auto *f = http::find_field(head.fields, "retry-after")) retry_after_ = f->value;
  if (const auto *f = http::find_field(head.fields, "content-encoding")) encoded_ = !f->value.empty() && !iequals(f->value, "identity");
  if (status_ != 200) {
    kind_ = kind::refusal;
    return;
  }
  if (encoded_) return fail_with(link::cause::protocol, named("answered in an encoding that was not asked for"), content_type_);
  if (!iequals(std::string_view(content_type_).substr(0, event_stream.size()), event_stream)) {
    kind_ = kind::whole;
    return;
  }
  kind_ = kind::stream;
  if (translated()) translator_ = asked_ == api::chat ? stream_to_chat(context()) : stream_to_messages(context());
  else passed_.emplace(spoken_, from_.key, limits_.window_bytes);
  // A translated stream knows its end; of another one the relay must know that only the connection's end is to come.
  const bool open_end = head.until_close && !translated();
  const http::field fields[] = {{"Content-Type", translated() ? event_stream : std::string_view(content_type_)}, {":body", "until_close"}};
  tell_head(200, {fields, open_end ? 2u : 1u}, true);
}

bool running_call::tell_head(int status, std::span<const http::field> fields, bool streaming) {
  link::stream_head told;
  told.status = status;
  told.fields = fields;
  told.streaming = streaming;
  told.rtt_ms = static_cast<double>(now_ns() - started_ns_) / static_cast<double>(ns_per_ms);
  return tell([&] { events_.on_head(told); });
}

bool running_call::pass(std::string_view bytes) {
  if (bytes.empty()) return true;
  owed_ += bytes.size();
  if (!tell([&] { events_.on_data(bytes); })) return false;
  if (owed_ > limits_.window_bytes && call_ && !paused_) {
    paused_ = true;
    call_->pause();
  }
  return true;
}

void running_call::on_data(std::string_view bytes) {
  switch (kind_) {
    case kind::stream:
      if (translated()) return pass_events(bytes);
      return pass_as_it_is(bytes);
    case kind::whole:
      if (held_.size() + bytes.size() > limits_.answer_bytes)
        return fail_with(link::cause::protocol, named("answered more than the router holds"), content_type_);
      return hold(bytes);
    case kind::refusal:
      return hold(bytes.substr(0, limits_.error_bytes - std::min(limits_.error_bytes, held_.size())));
    case kind::none: return;
  }
}

void running_call::pass_as_it_is(std::string_view bytes) {
  std::string out;
  passed_->feed(bytes, out);
  claim_.set(passed_->held());
  pass(out);
}

void running_call::pass_events(std::string_view bytes) {
  std::string out;
  const status read = reader_.feed(bytes, [&](std::string_view data) { return translator_->event(data, out); });
  if (!pass(out) || read) return;
  fail_with(link::cause::engine_cut, named("broke off its answer"), read.text());
}

void running_call::on_end() {
  switch (kind_) {
    case kind::stream: return finish_stream();
    case kind::whole: return finish_whole();
    case kind::refusal: return finish_refusal();
    case kind::none: return fail_with(link::cause::protocol, named("gave no answer"), {});
  }
}

void running_call::finish_stream() {
  link::usage used;
  if (translated()) {
    std::string out;
    status read = reader_.end([&](std::string_view data) { return translator_->event(data, out); });
    if (read && !translator_->over()) read = fail(errc::corrupt, "the stream ended before its end");
    if (!pass(out)) return;
    if (!read) return fail_with(link::cause::engine_cut, named("broke off its answer"), read.text());
    const token_counts &n = translator_->usage();
    used = {n.prompt(), n.output, n.cache_read, n.known};
  } else {
    std::string out;
    passed_->end(out);
    if (!pass(out)) return;
    if (!passed_->answered()) return fail_with(link::cause::protocol, named("gave no answer"), content_type_);
    if (!passed_->ended()) return fail_with(link::cause::engine_cut, named("broke off its answer"), "the stream ended before its end");
  }
  events_.on_end(used);
}

// Nothing of it was passed on yet: an answer that is none is a failure like any other (an empty one, too).
void running_call::finish_whole() {
  link::usage used;
  std::string text;
  status fine;
  if (translated()) {
    auto made = asked_ == api::chat ? chat_answer(held_, context()) : messages_answer(held_, context());
    if (made) {
      text = std::move(made->text);
      used = {made->usage.prompt(), made->usage.output, made->usage.cache_read, made->usage.known};
    } else {
      fine = made.why();
    }
  } else if (auto made = with_processed_by(held_, spoken_, label_, from_.key)) {
    text = *std::move(made);
  } else {
    fine = made.why();
  }
  held_ = std::string();
  if (!fine) return fail_with(link::cause::protocol, named("gave no answer that can be used: ") + fine.message(), {});
  claim_.set(text.capacity());
  const http::field type{"Content-Type", whole_json};
  if (!tell_head(200, {&type, 1}, false)) return;
  if (!pass(text)) return;
  events_.on_end(used);
}

void running_call::finish_refusal() {
  const refusal why = judge_refusal(from_.engine(), status_, held_, retry_after_);
  if (!why.client) {
    const bool busy = status_ == 429 || status_ == 503 || status_ == 529;
    return fail_with(busy ? link::cause::overloaded : link::cause::agent_failed, why.message, held_, why.retry_after_s * 1000);
  }
  warn(why.message, held_);
  const http::field fields[] = {{":class", why.context ? "context" : "client"}, {":message", why.message}, {":body", "cut"}};
  if (tell_head(status_, fields, false)) events_.on_end({});
}

void running_call::on_failed(const http::call_failure &failure) {
  if (status_ == 0) metrics_.on_provider_call(from_.engine(), 0, now_ns() - started_ns_);
  if (failure.timed_out) return fail_with(link::cause::engine_timeout, named("did not answer in time"), failure.message);
  if (failure.phase == http::call_phase::connecting) return fail_with(link::cause::engine_unreachable, named("cannot be reached"), failure.message);
  fail_with(link::cause::engine_cut, named("broke off its answer"), failure.message);
}

void running_call::fail_with(link::cause why, std::string words, std::string_view details, uint64_t retry_after_ms) {
  warn(words, details);
  call_.reset();
  link::stream_failure failure;
  failure.retry_after_ms = retry_after_ms;
  failure.why = why;
  failure.message = std::move(words);
  failure.reached_engine = true;
  events_.on_failed(failure);
}

void running_call::warn(std::string_view what, std::string_view details) const {
  observe::log("provider").warn("{} request_id={} model={}{}{}", for_log(what, from_.key), for_log(request_id_, {}), for_log(model_, {}),
                                details.empty() ? "" : " details=", for_log(details, from_.key));
}

}  // namespace hive::providers
