// What both ends share of one connection: frames out, link credit both ways, pings and the window that follows their
// round trip. Belongs to the loop of its worker.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "link/credit.hpp"
#include "link/outbox.hpp"

namespace hive::link {

class channel;

// A stream's sending half, as far as turns and credit go. Waits in its channel's line when the link's window is closed.
class sender {
 public:
  virtual ~sender() = default;
  send_window credit;
  // Requires: wants_turn(). Sends at most one charged record.
  virtual void take_turn() = 0;
  // Has something that its own window lets it send now.
  virtual bool wants_turn() const = 0;
  bool in_line() const { return place_.linked(); }
  void leave_line() { place_.unlink(); }

 protected:
  sender() { place_.owner = this; }

 private:
  friend class channel;
  struct place : detail::hook {
    sender *owner = nullptr;
  } place_;
};

struct channel_limits {
  uint32_t window_min = 256 * 1024;
  uint32_t window_max = 8 * 1024 * 1024;
  uint64_t ping_ns = ns_per_s;
  uint32_t missed_limit = 3;
  uint64_t fast_ns = 100 * ns_per_ms;   // below: the window may double
  uint64_t slow_ns = 300 * ns_per_ms;   // above: it halves
};

class channel : public outbox, private loop_timer {
 public:
  channel(loop &l, transport_pump &pump, frame_pool &pool, outbox_counters &counters, hive_peer peer, const channel_limits &limits)
      : outbox(l, pump, pool, counters, peer), loop_(l), limits_(limits) {}

  void start_windows(uint32_t bytes) {
    send_credit_.start(bytes);
    receive_credit_.start(bytes);
  }
  const send_window &send_credit() const { return send_credit_; }
  const receive_window &receive_credit() const { return receive_credit_; }

  // A record of a kind that uses link credit. Requires: may_send(), or the sender has been given its turn.
  void append_charged(const record_head &head, std::string_view meta, std::string_view payload);
  bool may_send() const { return send_credit_.open() && line_.empty(); }
  void stand_in_line(sender &s) {
    if (!s.in_line()) line_.push_back(s.place_);
  }
  // A charged record came off the transport: its credit goes home at once. False: the other side had none left.
  bool took(const record &r);
  void on_link_credit(uint32_t bytes);

  // One PING per period from now on; on_silent after three that nobody answered.
  void start_pings(uint64_t period_ns);
  void stop_pings() { disarm(); }
  void ping_now();
  void on_pong(uint32_t seq);

 protected:
  virtual void on_silent() = 0;

 private:
  void on_timer() override;
  void serve_line();
  void adapt_window(uint64_t rtt_ns);

  loop &loop_;
  const channel_limits limits_;
  send_window send_credit_;
  receive_window receive_credit_;
  detail::hook_list line_;
  uint64_t ping_ns_ = 0;
  uint32_t ping_seq_ = 0;
  std::array<uint64_t, 4> ping_sent_ns_{};  // of the last ones, by number; 0 = answered
  uint32_t missed_ = 0;
  uint64_t taken_since_pong_ = 0;
  bool serving_ = false;
};

}  // namespace hive::link
