// Streams, agent side: the engine's bytes go straight into the link's frame while both windows are open; what a read
// brought beyond that waits in the stream, and the handler is told to stop reading.
#include <algorithm>
#include <exception>

#include "link/agent_impl.hpp"
#include "link/notice.hpp"

namespace hive::link {

namespace {
constexpr size_t usual_entries = 32;  // of an OPEN: ours and the header fields
}  // namespace

incoming_stream::incoming_stream(agent_router_link::impl &bundle, agent_channel &link, uint64_t id, uint32_t answer_window)
    : bundle_(bundle), link_(link), id_(id) {
  credit.start(answer_window);
  receive_.start(link.body_window);
}

void incoming_stream::begin(const record &open) {
  ++seq_in_;
  if (bundle_.draining) return refuse(cause::draining, "the agent is draining", 0);
  incoming_request request;
  std::vector<http::field> fields;
  meta_reader reader(open.meta);
  fields.reserve(std::min<size_t>(reader.left(), usual_entries));
  std::string_view key, value;
  while (reader.next(key, value)) {
    if (!key.starts_with(':')) fields.push_back({key, value});
    else if (key == ":method") request.method = value;
    else if (key == ":path") request.target = value;
    else if (key == ":request-id") request.request_id = value;
    else if (key == ":model") request.model = value;
    else if (key == ":route") request.route = value;
    else if (key == ":length") request.body_length = number_or(value, 0);
    else if (key == ":deadline-ms") request.deadline_ns = now_ns() + number_or(value, 0) * ns_per_ms;
    else if (key == ":buffered") request.buffered_head = true;
  }
  if (reader.bad() || open.credit == 0) return reset(cause::protocol, "a malformed OPEN", false, 0);
  request.fields = std::move(fields);
  request.streaming = (open.flags & flag_streaming) != 0;
  auto listener = bundle_.handler.on_open(request, *this);
  listener_ = std::move(listener);
  if (settled_) return;
  if (!listener_) return reset(cause::agent_failed, "nobody took the request", false, 0);
  on_body(open);
}

void incoming_stream::on_body(const record &r) {
  const bool last = (r.flags & flag_end) != 0;
  const uint32_t charge = stream_charge(r.payload.size());
  if (!receive_.took(charge) || body_complete_) {
    auto *who = settled_ ? nullptr : listener_.get();
    reset(cause::protocol, "request body beyond its credit or its end", true, 0);
    return tell_cancelled(who, cause::protocol);
  }
  body_complete_ = last;
  unconsumed_ += r.payload.size();
  const auto beyond = charge - static_cast<uint32_t>(r.payload.size());
  if (!last && beyond > 0)
    if (const uint32_t step = receive_.give_back(beyond)) link_.append({.what = kind::credit, .stream = id_, .credit = step, .seq = seq_out_++}, {}, {});
  if (!settled_ && listener_ && (last || !r.payload.empty())) listener_->on_body(r.payload, last);
}

void incoming_stream::body_consumed(size_t bytes) {
  const auto n = static_cast<uint32_t>(std::min(bytes, unconsumed_));
  unconsumed_ -= n;
  if (over_ || settled_ || body_complete_) return;
  if (const uint32_t step = receive_.give_back(n)) link_.append({.what = kind::credit, .stream = id_, .credit = step, .seq = seq_out_++}, {}, {});
}

void incoming_stream::accept() {
  if (settled_ || headed_) return;
  bundle_.loop_.arm_in(*this, bundle_.options.accept_delay_ns);
}

void incoming_stream::on_timer() {
  if (over_) return;
  if (!headed_ && !settled_) {
    link_.append({.what = kind::accept, .stream = id_, .seq = seq_out_++}, {}, {});
    return;
  }
  // No credit for the stream write timeout: the router judges first, so it has lost sight of this stream.
  auto *who = settled_ ? nullptr : listener_.get();
  if (!settled_) settle();
  send_last(kind::reset, cause::client_slow, 0, "no credit for the agent's stream write timeout", 0);
  tell_cancelled(who, cause::client_slow);
}

void incoming_stream::head(const http::response_head &h, bool streaming) {
  if (settled_ || headed_) return;
  meta_writer m;
  for (const auto &f : h.fields) m.add(f.name, f.value);
  if (!m.ok()) return reset(cause::agent_failed, "the engine's header fields exceed the link's 32 KiB", true, 0);
  headed_ = true;
  disarm();
  pending_head_record_ = {.what = kind::head, .flags = static_cast<uint16_t>(streaming ? flag_streaming : 0), .stream = id_,
                          .aux = static_cast<uint32_t>(h.status)};
  pending_head_ = m.take();
  push();
}

void incoming_stream::send_data(std::string_view part) {
  credit.charge(stream_charge(part.size()));
  record_head h{.what = kind::data, .stream = id_, .seq = seq_out_++};
  if (std::exchange(first_data_, false)) h.flags |= flag_first;
  link_.append_charged(h, {}, part);
}

bool incoming_stream::data(std::string_view bytes) {
  if (settled_ || !headed_) return false;
  want_writable_ = false;
  if (!pending() && pending_head_.empty() && !in_line()) {
    while (!bytes.empty() && credit.open() && link_.may_send()) {
      const std::string_view part = bytes.substr(0, max_payload_bytes);
      bytes.remove_prefix(part.size());
      send_data(part);
    }
  }
  if (!bytes.empty()) pending_.append(bytes);
  push();
  watch_stall();
  const bool writable = !pending() && credit.open();
  want_writable_ = !writable;
  return writable;
}

void incoming_stream::watch_stall() {
  if (over_ || credit.open()) return;
  if (!armed()) bundle_.loop_.arm_in(*this, bundle_.options.stream_write_timeout_ns);
}

bool incoming_stream::wants_turn() const {
  if (over_) return false;
  if (!pending_head_.empty()) return true;
  return pending() ? credit.open() : end_pending_;
}

void incoming_stream::take_turn() {
  if (!pending_head_.empty()) {
    pending_head_record_.seq = seq_out_++;
    link_.append_charged(pending_head_record_, pending_head_, {});
    pending_head_.clear();
  } else if (pending()) {
    const std::string_view part = std::string_view(pending_).substr(pending_at_, max_payload_bytes);
    send_data(part);
    pending_at_ += part.size();
    if (!pending()) {
      pending_.clear();
      pending_at_ = 0;
    }
  } else {
    record_head h{.what = kind::data, .flags = flag_end, .stream = id_, .seq = seq_out_++};
    meta_writer m;
    if (usage_.known) {
      m.add("prompt-tokens", usage_.prompt_tokens);
      m.add("output-tokens", usage_.output_tokens);
      if (usage_.cached_tokens) m.add("cached-tokens", *usage_.cached_tokens);
    }
    link_.append_charged(h, m.take(), {});
    return leave_table();
  }
  tell_writable();
}

void incoming_stream::push() {
  if (in_line()) return;
  while (wants_turn() && link_.may_send()) take_turn();
  if (wants_turn()) link_.stand_in_line(*this);
}

void incoming_stream::tell_writable() {
  if (settled_ || pending() || !credit.open() || !listener_) return;
  if (std::exchange(want_writable_, false)) listener_->on_writable();
}

void incoming_stream::end(const usage &u) {
  if (settled_) return;
  if (!headed_) return reset(cause::agent_failed, "the answer ended before its head", true, 0);
  settle();
  usage_ = u;
  end_pending_ = true;
  push();
}

void incoming_stream::refuse(cause why, std::string_view message, uint64_t retry_after_ms) {
  if (settled_) return;
  settle();
  if (why == cause::busy) link_.refused_busy = true;
  send_last(kind::refuse, why, 0, message, retry_after_ms);
}

void incoming_stream::reset(cause why, std::string_view message, bool reached_engine, uint64_t retry_after_ms) {
  if (settled_) return;
  settle();
  send_last(kind::reset, why, reached_engine ? 0 : flag_retryable, message, retry_after_ms);
}

void incoming_stream::send_last(kind what, cause why, uint16_t flags, std::string_view message, uint64_t retry_after_ms) {
  meta_writer m;
  m.add("message", message.substr(0, 1024));
  if (retry_after_ms > 0) m.add("retry-after-ms", retry_after_ms);
  if (what == kind::refuse) {
    const pong_info load = bundle_.load_now();
    m.add("in-flight-total", load.in_flight_total);
    m.add("in-flight-yours", load.in_flight_yours);
    m.add("capacity", load.capacity);
  }
  link_.append({.what = what, .flags = flags, .stream = id_, .seq = seq_out_++, .aux = static_cast<uint32_t>(why)}, m.take(), {});
  leave_table();
}

void incoming_stream::settle() {
  settled_ = true;
  want_writable_ = false;
}

void incoming_stream::leave_table() {
  if (over_) return;
  over_ = true;
  leave_line();
  disarm();
  bundle_.bury(link_, id_);
}

void incoming_stream::cancelled(cause why, bool tell_router) {
  if (over_) return;
  auto *who = settled_ ? nullptr : listener_.get();
  if (!settled_) settle();
  if (tell_router) {
    send_last(kind::reset, why, 0, "cancelled", 0);
  } else {
    leave_table();
  }
  tell_cancelled(who, why);
}

// Whoever cancels has more to do than this stream.
void incoming_stream::tell_cancelled(agent_stream_events *who, cause why) {
  if (who == nullptr) return;
  try {
    who->on_cancelled(why);
  } catch (const std::exception &e) {
    note(level::error, std::string("exception while a request was cancelled: ") + e.what());
  }
}

void incoming_stream::listener_threw(const char *what) {
  note(level::error, std::string("exception while a request was handled, which ends: ") + what);
  if (over_) return;
  settle();
  send_last(kind::reset, cause::agent_failed, 0, "an exception in the agent", 0);
}

void incoming_stream::on_record(const record &r) {
  if (r.seq != seq_in_++) {
    auto *who = settled_ ? nullptr : listener_.get();
    if (!settled_) settle();
    send_last(kind::reset, cause::protocol, 0, "records of the stream are missing", 0);
    return tell_cancelled(who, cause::protocol);
  }
  switch (r.what) {
    case kind::body: return on_body(r);
    case kind::credit:
      credit.add(r.credit);
      if (headed_) disarm();  // it was heard of: watch_stall begins anew
      push();
      tell_writable();
      watch_stall();
      return;
    case kind::cancel:
    case kind::reset: return cancelled(cause_from(r.aux), true);
    default: return;
  }
}

void agent_router_link::impl::on_stream_record(agent_channel &c, const record &r) {
  if (is_charged(r.what) && !c.took(r)) return drop(c, "protocol fault: records beyond the link's credit");
  if (r.stream == 0) {
    if (r.what == kind::credit) c.on_link_credit(r.credit);
    return;
  }
  const bool mine = epoch_of(r.stream) == c.epoch;
  const auto it = mine ? c.streams.find(r.stream) : c.streams.end();
  const bool opens = r.what == kind::open && mine && it == c.streams.end();
  if (!opens && it == c.streams.end()) return;
  incoming_stream &s = opens ? *c.streams.emplace(r.stream, std::make_unique<incoming_stream>(*this, c, r.stream, r.credit)).first->second
                             : *it->second;
  // What a request brings up must not end the others of its link.
  try {
    if (opens) s.begin(r);
    else s.on_record(r);
  } catch (const std::exception &e) {
    s.listener_threw(e.what());
  }
}

void agent_router_link::impl::bury(agent_channel &c, uint64_t stream) {
  const auto it = c.streams.find(stream);
  if (it == c.streams.end()) return;
  buried_streams_.push_back(std::move(it->second));
  c.streams.erase(it);
  loop_.at_turn_end(*this);
}

}  // namespace hive::link
