#include "link/channel.hpp"

#include <cstring>
#include <utility>

namespace hive::link {

void outbox::append(const record_head &head, std::string_view meta, std::string_view payload) {
  if (shut_) return;
  ++counters_.records;
  const size_t size = encoded_bytes(meta.size(), payload.size());
  if (used_ + size > max_frame_bytes) flush();
  if (shut_) return;
  if (!frame_) frame_ = pool_.take();
  if (payload.size() >= direct_bytes) {
    encode_head(frame_.get() + used_, head, meta.size(), payload.size());
    used_ += record_header_bytes;
    if (!meta.empty()) std::memcpy(frame_.get() + used_, meta.data(), meta.size());
    used_ += meta.size();
    static constexpr uint8_t zeros[8] = {};
    const size_t len = meta.size() + payload.size();
    const hive_bytes parts[3] = {{frame_.get(), used_},
                                 {reinterpret_cast<const uint8_t *>(payload.data()), payload.size()},
                                 {zeros, padded(len) - len}};
    hand_over(parts, parts[2].len == 0 ? 2 : 3);
    return;
  }
  used_ += encode_record(frame_.get() + used_, head, meta, payload);
  if (used_ >= flush_frame_bytes) flush();
  else loop_.at_turn_end(*this);
}

void outbox::flush() {
  if (used_ == 0) return;
  const hive_bytes part{frame_.get(), used_};
  hand_over(&part, 1);
}

void outbox::hand_over(const hive_bytes *parts, size_t count) {
  const hive_status code = shut_ ? HIVE_GONE : pump_.send(peer_, parts, count);
  if (code == HIVE_OK) {
    ++counters_.frames;
    for (size_t i = 0; i < count; ++i) counters_.bytes += parts[i].len;
  }
  used_ = 0;
  pool_.give(std::move(frame_));
  frame_ = nullptr;
  if (shut_) return;
  if (code == HIVE_OK) {
    on_flushed();
    return;
  }
  shut_ = true;
  on_send_failed(code);
}

void channel::append_charged(const record_head &head, std::string_view meta, std::string_view payload) {
  send_credit_.charge(link_charge(meta.size() + payload.size()));
  append(head, meta, payload);
}

bool channel::took(const record &r) {
  const uint32_t charge = link_charge(r.meta.size() + r.payload.size());
  const bool allowed = receive_credit_.took(charge);
  taken_since_pong_ += charge;
  if (const uint32_t step = receive_credit_.give_back(charge)) append({.what = kind::credit, .credit = step}, {}, {});
  return allowed;
}

void channel::on_link_credit(uint32_t bytes) {
  send_credit_.add(bytes);
  serve_line();
}

void channel::serve_line() {
  if (serving_) return;
  serving_ = true;
  while (send_credit_.open() && !line_.empty()) {
    sender &s = *static_cast<sender::place *>(line_.next)->owner;
    s.leave_line();
    if (!s.wants_turn()) continue;
    s.take_turn();
    if (s.wants_turn()) stand_in_line(s);
  }
  serving_ = false;
}

void channel::start_pings(uint64_t period_ns) {
  ping_ns_ = period_ns;
  missed_ = 0;
  loop_.arm_in(*this, ping_ns_);
}

void channel::on_timer() {
  if (missed_ >= limits_.missed_limit) {
    on_silent();
    return;
  }
  ping_now();
  loop_.arm_in(*this, ping_ns_);
}

void channel::ping_now() {
  ++missed_;
  ping_sent_ns_[++ping_seq_ % ping_sent_ns_.size()] = now_ns();
  append({.what = kind::ping, .seq = ping_seq_}, {}, {});
}

void channel::on_pong(uint32_t seq) {
  missed_ = 0;
  // On a line that is slower than the period the answer belongs to an earlier PING; that is when the window must shrink.
  if (seq == 0 || ping_seq_ - seq >= ping_sent_ns_.size()) return;
  if (const uint64_t sent = std::exchange(ping_sent_ns_[seq % ping_sent_ns_.size()], 0)) adapt_window(now_ns() - sent);
}

void channel::adapt_window(uint64_t rtt_ns) {
  const uint32_t size = receive_credit_.size();
  // An idle link is always fast: it grows only when the traffic since the last pong has used it.
  const bool used = taken_since_pong_ >= size;
  taken_since_pong_ = 0;
  if (rtt_ns > limits_.slow_ns) receive_credit_.resize(std::max(size / 2, std::min(size, limits_.window_min)));
  else if (rtt_ns < limits_.fast_ns && used) receive_credit_.resize(std::min(size * 2, std::max(size, limits_.window_max)));
}

}  // namespace hive::link
