#include "agent/proxy.hpp"

#include <algorithm>
#include <utility>

#include "agent/content_watch.hpp"
#include "base/text.hpp"
#include "http/answer_facts.hpp"
#include "http/token.hpp"

namespace hive::agent {

namespace {
constexpr uint64_t deadline_grace_ns = 2 * ns_per_s;

// Anywhere in the value of Content-Type, in any case.
bool names_events(std::string_view type) {
  constexpr std::string_view events = "text/event-stream";
  for (size_t at = 0; at + events.size() <= type.size(); ++at)
    if (iequals(type.substr(at, events.size()), events)) return true;
  return false;
}

// Whether the text of a 200 is worth asking the adapter about. Some engines always write "error": null.
bool may_tell_of_error(std::string_view json) {
  constexpr std::string_view word = "\"error\"", blank = " \t\r\n";
  for (size_t at = json.find(word); at != std::string_view::npos; at = json.find(word, at)) {
    at += word.size();
    const size_t colon = json.find_first_not_of(blank, at);
    if (colon == std::string_view::npos || json[colon] != ':') return true;
    const size_t value = json.find_first_not_of(blank, colon + 1);
    if (value == std::string_view::npos || !json.substr(value).starts_with("null")) return true;
  }
  return false;
}

bool is_compressed(std::span<const http::field> fields) {
  const http::field *encoding = http::find_field(fields, "content-encoding");
  return encoding != nullptr && !iequals(encoding->value, "identity");
}
}  // namespace

bool slot_count::take() {
  uint32_t now = in_flight.load(std::memory_order_relaxed);
  while (now < capacity)
    if (in_flight.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel)) return true;
  return false;
}

// A refused stream: nobody listens, nothing is held.
class refused_request final : public link::agent_stream_events {
  void on_body(std::string_view, bool) override {}
  void on_writable() override {}
  void on_cancelled(link::cause) override {}
};

// One request at the engine. Destroyed by the link once the stream is over; that closes the engine's connection if the
// answer is not complete, and frees the slot.
class proxied_request final : public link::agent_stream_events, private http::call_events, private loop_timer {
 public:
  proxied_request(proxy &owner, link::agent_stream &stream, const link::incoming_request &request,
                  std::atomic<uint32_t> &in_flight_of_router, bool release_at_head, std::function<void()> slot_freed)
      : owner_(owner),
        stream_(stream),
        buffered_head_(request.buffered_head),
        knows_events_(config::is_built_in_engine_path(request.target)),
        of_router_(in_flight_of_router),
        release_at_head_(release_at_head),
        slot_freed_(std::move(slot_freed)) {
    http::call_request call;
    call.method = request.method;
    call.target = request.target;
    call.fields = request.fields;
    call.content_length = request.body_length;
    // The router keeps the request's deadline and cancels; it alone knows the one of a stream that has begun. Ours is only
    // for a router that does not, and must not come first: that would blame the engine.
    const uint64_t limit = now_ns() + owner.options_.http_timeout_ns;
    const uint64_t late = request.deadline_ns < never_ns - deadline_grace_ns ? request.deadline_ns + deadline_grace_ns : never_ns;
    call.first_byte_deadline_ns = std::min(late, limit);
    call.deadline_ns = request.streaming ? never_ns : call.first_byte_deadline_ns;
    call.read_idle_ns = owner.options_.http_timeout_ns;
    call_ = owner.client_.start(std::move(call), *this);
    stream_.accept();
    of_router_.fetch_add(1, std::memory_order_relaxed);
  }

  ~proxied_request() override {
    call_.reset();
    free_slot();
  }

  void on_body(std::string_view bytes, bool) override {
    if (call_ && !bytes.empty()) call_->body(bytes);
  }

  void on_writable() override {
    paused_ = false;
    if (watch_) watch_->forgive(now_ns());
    if (call_) call_->resume();
  }

  void on_cancelled(link::cause) override {
    call_.reset();
    free_slot();
  }

 private:
  enum class mode { none, relay, hold, error };

  // Before the last record leaves: the router may give the slot away, also on another link, as soon as it has read that.
  void free_slot() {
    if (freed_) return;
    freed_ = true;
    of_router_.fetch_sub(1, std::memory_order_relaxed);
    owner_.slots_.give_back();
    slot_freed_();
  }

  void on_body_written(size_t n) override { stream_.body_consumed(n); }

  void on_head(const http::response_head &head) override {
    owner_.slots_.last_engine_byte_ns.store(now_ns(), std::memory_order_relaxed);
    status_ = head.status;
    const http::field *type = http::find_field(head.fields, "content-type");
    const bool events = type != nullptr && names_events(type->value);
    const bool json = type != nullptr && http::is_json(type->value);
    const bool characters = owner_.codec_.usage_in_characters();
    // An engine's job that was taken in is not to be begun again at another one. On the built-in routes only a 200 is an answer.
    const bool answered = head.status == 200 || (!knows_events_ && head.status > 200 && head.status < 300);
    if (answered && (events || !(buffered_head_ || json))) {
      mode_ = mode::relay;
      if (events && release_at_head_) free_slot();
      if (events && knows_events_ && !is_compressed(head.fields)) {
        watch_.emplace(owner_.options_.http_timeout_ns, now_ns());
        owner_.loop_.arm(*this, watch_->due_ns());
      }
      if (!characters && !head.until_close) return stream_.head(head, events);
      std::vector<http::field> fields(head.fields.begin(), head.fields.end());
      if (characters) fields.push_back({":usage", "characters"});
      if (head.until_close) fields.push_back({":body", "until_close"});
      return stream_.head({head.status, fields}, events);
    }
    mode_ = answered ? mode::hold : mode::error;
    hold_limit_ = buffered_head_ ? owner_.options_.buffered_answer_bytes : owner_.options_.error_body_bytes;
    fields_.reserve(head.fields.size() + 2);
    for (const http::field &f : head.fields) fields_.emplace_back(f.name, f.value);
    if (mode_ == mode::hold && characters) fields_.emplace_back(":usage", "characters");
    if (mode_ == mode::hold && head.until_close) fields_.emplace_back(":body", "until_close");
    if (mode_ == mode::error && !head.date.empty()) fields_.emplace_back("date", head.date);
  }

  void on_data(std::string_view bytes) override {
    const uint64_t now = now_ns();
    owner_.slots_.last_engine_byte_ns.store(now, std::memory_order_relaxed);
    switch (mode_) {
      case mode::relay:
        if (watch_) watch_->feed(bytes, now);
        return forward(bytes);
      case mode::hold:
        held_.append(bytes);
        if (held_.size() > hold_limit_) release_held();
        return;
      case mode::error:
        cut_ = held_.size() + bytes.size() > owner_.options_.error_body_bytes;
        held_.append(bytes.substr(0, owner_.options_.error_body_bytes - held_.size()));
        if (!cut_) return;
        call_.reset();  // what follows would change no judgement
        return judge(asked_adapter());
      case mode::none: return;
    }
  }

  void on_end() override {
    call_.reset();
    switch (mode_) {
      case mode::relay: return finish({});
      case mode::hold: {
        if (held_.size() <= owner_.options_.error_body_bytes && may_tell_of_error(held_))
          if (const answer_class found = asked_adapter(); found.verdict != HIVE_ANSWER_OK) return judge(found);
        const http::token_usage found = http::usage_of_answer(held_);
        const link::usage usage{found.prompt, found.completion, found.cached, found.present};
        release_held();
        return finish(usage);
      }
      case mode::error: return judge(asked_adapter());
      case mode::none: return;
    }
  }

  void on_failed(const http::call_failure &failure) override {
    call_.reset();
    free_slot();
    const bool reached = failure.bytes_sent;
    const link::cause why = failure.timed_out && reached                   ? link::cause::engine_timeout
                            : failure.phase == http::call_phase::connecting || !reached ? link::cause::engine_unreachable
                                                                                        : link::cause::engine_cut;
    stream_.reset(why, failure.message, reached);
  }

  // The stream may have been without content for too long.
  void on_timer() override {
    if (!call_) return;
    const uint64_t now = now_ns();
    if (paused_) watch_->forgive(now);
    if (now < watch_->due_ns()) return owner_.loop_.arm(*this, watch_->due_ns());
    on_failed({http::call_phase::answering, true, true,
               "the stream had no content for " + format_duration(owner_.options_.http_timeout_ns)});
  }

  void forward(std::string_view bytes) {
    if (stream_.data(bytes) || !call_) return;
    paused_ = true;
    call_->pause();
  }

  std::vector<http::field> kept_fields() const {
    std::vector<http::field> fields;
    fields.reserve(fields_.size() + 3);
    for (const auto &[name, value] : fields_) fields.push_back({name, value});
    return fields;
  }

  void release_held() {
    stream_.head({status_, kept_fields()}, false);
    mode_ = mode::relay;
    const std::string held = std::move(held_);
    held_.clear();
    if (!held.empty()) forward(held);
  }

  // Whose fault the answer was, if anybody's. A success is asked about for its body's sake alone.
  answer_class asked_adapter() const {
    const std::vector<http::field> fields = kept_fields();
    const std::string_view body = is_compressed(fields) ? std::string_view() : std::string_view(held_);
    return owner_.codec_.classify(static_cast<uint32_t>(mode_ == mode::hold ? 200 : status_), fields, body);
  }

  // The engine refused, with a status or within a 200.
  void judge(const answer_class &found) {
    free_slot();
    if (found.verdict == HIVE_ANSWER_OVERLOADED || found.verdict == HIVE_ANSWER_STARTING) {
      const bool starting = found.verdict == HIVE_ANSWER_STARTING;
      return stream_.refuse(starting ? link::cause::starting : link::cause::overloaded, found.message, found.retry_after_ms);
    }
    std::vector<http::field> fields = kept_fields();
    fields.push_back({":class", class_name(found.verdict)});
    if (!found.message.empty()) fields.push_back({":message", found.message});
    if (cut_) fields.push_back({":body", "cut"});
    stream_.head({status_, fields}, false);
    if (!held_.empty() && !cut_) stream_.data(held_);
    stream_.end({});
  }

  void finish(const link::usage &usage) {
    free_slot();
    stream_.end(usage);
  }

  proxy &owner_;
  link::agent_stream &stream_;
  const bool buffered_head_;
  const bool knows_events_;  // of the routes that an operator allows nobody knows what their events and their statuses mean
  std::atomic<uint32_t> &of_router_;
  const bool release_at_head_;
  bool freed_ = false;
  const std::function<void()> slot_freed_;
  std::unique_ptr<http::call> call_;
  mode mode_ = mode::none;
  bool paused_ = false;
  std::optional<content_watch> watch_;  // of a stream whose events are known
  int status_ = 0;
  size_t hold_limit_ = 0;
  std::vector<std::pair<std::string, std::string>> fields_;
  std::string held_;
  bool cut_ = false;  // held_ is the beginning of an error body too long to be passed on
};

proxy::proxy(loop &l, const engine_codec &codec, http::origin origin, slot_count &slots, const proxy_options &options)
    : loop_(l), codec_(codec), slots_(slots), options_(options), client_(l, std::move(origin), [&] {
        http::client_options o;
        o.max_kept = slots.capacity;
        o.max_answer_bytes = options.max_answer_bytes;
        o.requests_per_connection = codec.description().requests_per_connection;
        if (codec.description().idle_limit_ms != 0) o.idle_limit_ns = codec.description().idle_limit_ms * ns_per_ms;
        return o;
      }()) {}

proxy::~proxy() = default;

std::unique_ptr<link::agent_stream_events> proxy::open(const link::incoming_request &request, link::agent_stream &stream,
                                                       std::atomic<uint32_t> &in_flight_of_router, bool release_at_head,
                                                       std::function<void()> slot_freed) {
  const auto refuse = [&](link::cause why, std::string_view message) {
    stream.refuse(why, message, 0);
    return std::make_unique<refused_request>();
  };
  if (draining_) return refuse(link::cause::draining, "the agent is draining");
  // Whatever a router asks for: all else of the engine stays out of reach (docs/security.md), also by a second line in the first.
  if (!http::is_token(request.method) || !http::is_target(request.target))
    return refuse(link::cause::unknown_model, "the router's request has no method and target that could be written to an engine");
  if (!config::engine_path_allowed(request.target, options_.extra_routes))
    return refuse(link::cause::unknown_model, "the agent does not serve this path; --allow-route allows it there");
  if (!models_.contains(std::string(request.model))) return refuse(link::cause::unknown_model, "the engine does not serve this model");
  if (!slots_.take()) return refuse(link::cause::busy, "all slots are taken");
  try {
    return std::make_unique<proxied_request>(*this, stream, request, in_flight_of_router, release_at_head, std::move(slot_freed));
  } catch (...) {
    slots_.give_back();  // nothing that was not made gives it back
    throw;
  }
}

}  // namespace hive::agent
