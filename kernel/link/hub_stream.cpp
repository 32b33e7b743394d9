// Streams, router side. Whoever calls the owner's events here has put its own state in order before: the owner may
// destroy its handle inside any of them.
#include <algorithm>
#include <exception>

#include "http/answer_facts.hpp"
#include "http/token.hpp"
#include "link/hub_impl.hpp"
#include "link/notice.hpp"

namespace hive::link {

hub_stream::hub_stream(router_hub::impl &hub, hub_link &link, uint64_t id, const open_request &request, std::string meta,
                       stream_events &events, std::unique_ptr<held> keep)
    : hub_(hub), link_(link), id_(id), streaming_(request.streaming), open_meta_(std::move(meta)), body_(request.body),
      events_(&events), held_(std::move(keep)) {
  credit.start(link.body_window);
  receive_.start(hub.options.stream_window);
  if (held_) ++hub.counters.slots_held;
}

hub_stream::~hub_stream() {
  if (handle) handle->stream = nullptr;
}

template <class F>
void hub_stream::tell(stream_events *owner, F &&f) {
  if (owner == nullptr) return;
  try {
    f(*owner);
  } catch (const std::exception &e) {
    owner_threw(*owner, e.what());
  } catch (...) {
    owner_threw(*owner, "no std::exception");
  }
}

void hub_stream::owner_threw(stream_events &owner, const char *what) {
  note(level::error, std::string("exception while an answer of an agent was handled, its request ends: ") + what);
  if (handle) std::exchange(handle, nullptr)->stream = nullptr;
  abandon(cause::superseded);
  try {
    owner.on_thrown();
  } catch (const std::exception &e) {
    note(level::error, std::string("exception while a request was ended after an exception: ") + e.what());
  }
}

bool hub_stream::wants_turn() const {
  if (phase_ == phase::unsent) return true;
  return (phase_ == phase::opening || phase_ == phase::running) && body_ && body_sent_ < body_->size() && credit.open();
}

void hub_stream::take_turn() {
  if (phase_ == phase::unsent) send_open();
  else send_body();
}

void hub_stream::begin() { push_body(); }

void hub_stream::push_body() {
  if (in_line()) return;
  while (wants_turn() && link_.may_send()) take_turn();
  if (wants_turn()) link_.stand_in_line(*this);
}

void hub_stream::send_open() {
  phase_ = phase::opening;
  const std::string_view body = body_ ? std::string_view(*body_) : std::string_view();
  const std::string_view part = body.substr(0, max_payload_bytes);
  body_sent_ = part.size();
  credit.charge(stream_charge(part.size()));
  record_head h{.what = kind::open, .stream = id_, .credit = receive_.size(), .seq = seq_out_++};
  if (streaming_) h.flags |= flag_streaming;
  if (body_sent_ == body.size()) h.flags |= flag_end;
  link_.opens.push_back(id_);
  link_.append_charged(h, open_meta_, part);
  open_meta_ = {};
  if ((h.flags & flag_end) != 0) body_.reset();
}

void hub_stream::send_body() {
  const std::string_view part = std::string_view(*body_).substr(body_sent_, max_payload_bytes);
  body_sent_ += part.size();
  credit.charge(stream_charge(part.size()));
  record_head h{.what = kind::body, .stream = id_, .seq = seq_out_++};
  if (body_sent_ == body_->size()) h.flags |= flag_end;
  link_.append_charged(h, {}, part);
  if ((h.flags & flag_end) != 0) body_.reset();
}

void hub_stream::open_handed_over(uint64_t now) {
  opened_ns_ = now;
  if (phase_ == phase::opening) hub_.loop_.arm(*this, now + hub_.options.open_limit_ns);
}

void hub_stream::on_timer() {
  const uint64_t now = now_ns();
  switch (phase_) {
    case phase::opening: {
      const uint64_t limit = hub_.options.open_limit_ns;
      // A slow line still delivers: then the answer may be on its way behind other streams' bytes.
      if (now < opened_ns_ + 3 * limit && link_.last_stream_record_ns + limit > now) {
        hub_.loop_.arm(*this, std::min(link_.last_stream_record_ns + limit, opened_ns_ + 3 * limit));
        return;
      }
      return give_up(kind::cancel, cause::open_timeout, "the agent did not answer OPEN in time", true);
    }
    case phase::running:
      if (events_ != nullptr && events_->client_is_timed()) return speak_for_the_client();
      return give_up(kind::cancel, cause::client_slow, "the client took no bytes for the stream write timeout", true);
    case phase::closing:
      return hub_.protocol_fault(link_, "a stream was left closing for too long: no answer to CANCEL");
    case phase::unsent:
    case phase::over: return;
  }
}

// The agent times us. What little is owed goes now; a CREDIT of nothing says that the stream is wanted.
void hub_stream::speak_for_the_client() {
  const uint32_t step = receive_.give_all();
  link_.append({.what = kind::credit, .stream = id_, .credit = step, .seq = seq_out_++}, {}, {});
  if (receive_.view() <= 0) hub_.loop_.arm_in(*this, hub_.options.write_timeout_ns);
}

void hub_stream::consumed(size_t bytes) {
  const auto n = static_cast<uint32_t>(std::min(bytes, unconsumed_));
  unconsumed_ -= n;
  if (phase_ == phase::opening || phase_ == phase::running) give_back(n);
}

void hub_stream::give_back(uint32_t bytes) {
  const uint32_t step = receive_.give_back(bytes);
  if (step == 0) return;
  link_.append({.what = kind::credit, .stream = id_, .credit = step, .seq = seq_out_++}, {}, {});
  if (phase_ != phase::running || !armed()) return;
  if (receive_.view() > 0) disarm();
  else hub_.loop_.arm_in(*this, hub_.options.write_timeout_ns);
}

void hub_stream::abandon(cause why) {
  events_ = nullptr;
  switch (phase_) {
    case phase::unsent: return leave_tables();  // the agent never heard of it
    case phase::opening:
    case phase::running: return start_closing(kind::cancel, why);
    case phase::closing:
    case phase::over: return;
  }
}

void hub_stream::start_closing(kind tell, cause why) {
  phase_ = phase::closing;
  leave_line();
  body_.reset();
  ++hub_.counters.streams_closing;
  link_.append({.what = tell, .stream = id_, .seq = seq_out_++, .aux = static_cast<uint32_t>(why)}, {}, {});
  hub_.loop_.arm_in(*this, hub_.options.closing_limit_ns);
}

stream_failure hub_stream::failure(cause why, std::string message, bool reached_engine) const {
  stream_failure f{.why = why, .message = std::move(message), .reached_engine = reached_engine};
  if (opened_ns_ != 0) f.rtt_ms = static_cast<double>(now_ns() - opened_ns_) / ns_per_ms;
  return f;
}

void hub_stream::report(stream_failure f) {
  if (handle) std::exchange(handle, nullptr)->stream = nullptr;
  tell(std::exchange(events_, nullptr), [&](stream_events &e) { e.on_failed(f); });
}

void hub_stream::give_up(kind tell, cause why, std::string message, bool reached_engine) {
  stream_failure f = failure(why, std::move(message), reached_engine);
  start_closing(tell, why);
  report(std::move(f));
}

void hub_stream::let_go() {
  if (!held_) return;
  --hub_.counters.slots_held;
  held_.reset();
}

void hub_stream::leave_tables() {
  if (phase_ == phase::closing) --hub_.counters.streams_closing;
  phase_ = phase::over;
  leave_line();
  disarm();
  body_.reset();
  --hub_.counters.streams_open;
  hub_.bury(link_, id_);
  let_go();
}

void hub_stream::link_is_lost(cause why, std::string_view reason) {
  // The link has taken us out of its table already.
  if (phase_ == phase::over) return;
  if (phase_ == phase::closing) --hub_.counters.streams_closing;
  stream_failure f = failure(why, std::string(reason), phase_ != phase::unsent);
  phase_ = phase::over;
  leave_line();
  disarm();
  body_.reset();
  --hub_.counters.streams_open;
  let_go();
  report(std::move(f));
}

void hub_stream::forget() {
  phase_ = phase::over;
  leave_line();
  events_ = nullptr;
  if (handle) std::exchange(handle, nullptr)->stream = nullptr;
}

void hub_stream::on_record(const record &r) {
  if (r.seq != seq_in_++ && phase_ != phase::closing) {
    ++hub_.counters.protocol_errors;
    return give_up(kind::reset, cause::protocol, "records of the stream are missing", true);
  }
  switch (r.what) {
    case kind::accept:
      if (phase_ == phase::opening) {
        phase_ = phase::running;
        disarm();
      }
      return;
    case kind::head: on_head(r); break;
    case kind::data: on_data(r); break;
    case kind::credit:
      credit.add(r.credit);
      return push_body();
    case kind::refuse: return on_refuse(r);
    case kind::reset: return on_reset(r);
    default:
      ++hub_.counters.protocol_errors;
      if (phase_ != phase::closing) give_up(kind::reset, cause::protocol, "a record an agent may not send", true);
      return;
  }
  if ((r.flags & flag_end) != 0 && phase_ != phase::over) finish(r);
}

void hub_stream::on_head(const record &r) {
  if (phase_ == phase::closing) return;
  if (head_seen_) return give_up(kind::reset, cause::protocol, "a second HEAD", true);
  head_seen_ = true;
  phase_ = phase::running;
  disarm();
  auto &fields = hub_.field_scratch;
  fields.clear();
  meta_reader reader(r.meta);
  std::string_view key, value;
  // A name is whatever the agent writes: what is none is nobody's field, and would be a line of its own in the client's answer.
  while (reader.next(key, value))
    if (key.starts_with(':') || http::is_token(key)) fields.push_back({key, value});
  if (reader.bad() || r.aux < 100 || r.aux > 999) return give_up(kind::reset, cause::protocol, "a malformed HEAD", true);
  stream_head h{.status = static_cast<int>(r.aux), .fields = fields, .streaming = (r.flags & flag_streaming) != 0};
  h.rtt_ms = static_cast<double>(hub_.frame_ns - std::min(hub_.frame_ns, opened_ns_)) / ns_per_ms;
  if (h.streaming && hub_.options.slot_release_at_head) let_go();  // the agent counts the same way
  tell(events_, [&](stream_events &e) { e.on_head(h); });
}

void hub_stream::on_data(const record &r) {
  if (phase_ == phase::closing) return;
  if (!head_seen_) return give_up(kind::reset, cause::protocol, "DATA before HEAD", true);
  const uint32_t charge = stream_charge(r.payload.size());
  if (!receive_.took(charge)) return give_up(kind::reset, cause::protocol, "DATA beyond the stream's credit", true);
  unconsumed_ += r.payload.size();
  if ((r.flags & flag_end) == 0) {
    if (receive_.view() <= 0 && !armed()) hub_.loop_.arm_in(*this, hub_.options.write_timeout_ns);
    // What a short record was charged beyond its bytes buffers nothing here.
    if (charge > r.payload.size()) give_back(charge - static_cast<uint32_t>(r.payload.size()));
  }
  if (!r.payload.empty()) tell(events_, [&](stream_events &e) { e.on_data(r.payload); });
}

void hub_stream::finish(const record &r) {
  usage u;
  if (r.what == kind::data) {
    meta_reader reader(r.meta);
    std::string_view key, value;
    const auto count = [&value] { return std::min(number_or(value, 0), http::most_tokens); };
    while (reader.next(key, value)) {
      if (key == "prompt-tokens") u.prompt_tokens = count();
      else if (key == "output-tokens") u.output_tokens = count();
      else if (key == "cached-tokens") u.cached_tokens = count();
      else continue;
      u.known = true;
    }
  }
  if (phase_ != phase::closing && !head_seen_) return on_reset({{.what = kind::reset, .aux = static_cast<uint32_t>(cause::protocol)}, {}, {}});
  const bool late = phase_ == phase::closing;
  if (late && held_) held_->late_usage(u);
  leave_tables();
  if (handle) std::exchange(handle, nullptr)->stream = nullptr;
  tell(std::exchange(events_, nullptr), [&](stream_events &e) { e.on_end(u); });
}

void hub_stream::on_refuse(const record &r) {
  stream_failure f = failure(cause_from(r.aux), {}, false);
  pong_info load;
  meta_reader reader(r.meta);
  std::string_view key, value;
  while (reader.next(key, value)) {
    if (key == "message") f.message = value;
    else if (key == "retry-after-ms") f.retry_after_ms = number_or(value, 0);
    else if (key == "in-flight-total") load.in_flight_total = static_cast<uint32_t>(number_or(value, 0));
    else if (key == "in-flight-yours") load.in_flight_yours = static_cast<uint32_t>(number_or(value, 0));
    else if (key == "capacity") load.capacity = static_cast<uint32_t>(number_or(value, 0));
  }
  // The busy mark before the slot: a waiting request that the slot wakes must not choose this agent again.
  if (f.why == cause::busy) hub_.directory_.refused_busy(link_.peer_id, load);
  leave_tables();
  report(std::move(f));
}

void hub_stream::on_reset(const record &r) {
  stream_failure f = failure(cause_from(r.aux), {}, (r.flags & flag_retryable) == 0);
  meta_reader reader(r.meta);
  std::string_view key, value;
  while (reader.next(key, value)) {
    if (key == "message") f.message = value;
    else if (key == "retry-after-ms") f.retry_after_ms = number_or(value, 0);
  }
  leave_tables();
  report(std::move(f));
}

void router_hub::impl::on_stream_record(hub_link &l, const record &r) {
  l.last_stream_record_ns = frame_ns;
  if (is_charged(r.what) && !l.took(r)) return protocol_fault(l, "records beyond the link's credit");
  if (r.stream == 0) {
    if (r.what == kind::credit) l.on_link_credit(r.credit);
    return;
  }
  const auto it = epoch_of(r.stream) == l.epoch ? l.streams.find(r.stream) : l.streams.end();
  if (it == l.streams.end()) {
    ++counters.late_records;
    return;
  }
  it->second->on_record(r);
}

void router_hub::impl::bury(hub_link &l, uint64_t stream) {
  const auto it = l.streams.find(stream);
  if (it == l.streams.end()) return;
  buried_streams_.push_back(std::move(it->second));
  l.streams.erase(it);
  loop_.at_turn_end(*this);
}

}  // namespace hive::link
