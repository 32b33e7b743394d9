// Collects the records of one loop turn to one peer into one frame, which leaves at the end of the turn or at 32 KiB.
// Shared by both ends of a link; belongs to the loop.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/loop.hpp"
#include "link/counters.hpp"
#include "link/record.hpp"
#include "link/transport_pump.hpp"

namespace hive::link {

// Frame buffers, so that an idle peer holds none. One a loop.
class frame_pool {
 public:
  using buffer = std::unique_ptr<uint8_t[]>;
  buffer take() {
    if (free_.empty()) return buffer(new uint8_t[max_frame_bytes]);
    buffer b = std::move(free_.back());
    free_.pop_back();
    return b;
  }
  void give(buffer b) {
    if (free_.size() < kept) free_.push_back(std::move(b));
  }

 private:
  static constexpr size_t kept = 32;
  std::vector<buffer> free_;
};

class outbox : private turn_task {
 public:
  outbox(loop &l, transport_pump &pump, frame_pool &pool, outbox_counters &counters, hive_peer peer)
      : loop_(l), pump_(pump), pool_(pool), counters_(counters), peer_(peer) {}
  ~outbox() {
    if (frame_) pool_.give(std::move(frame_));
  }

  hive_peer peer() const { return peer_; }
  // Requires: meta and payload within the limits of record.hpp. A large payload leaves at once, uncopied by us.
  void append(const record_head &head, std::string_view meta, std::string_view payload);
  void flush();
  void shut() { shut_ = true; }  // what is appended from now on is dropped
  bool is_shut() const { return shut_; }

 protected:
  // A frame has been handed over. Never re-entrant into append's caller's stream: only notes times.
  virtual void on_flushed() = 0;
  // FULL or GONE: the peer is lost. Must only note it; the link fails at the end of the turn.
  virtual void on_send_failed(hive_status code) = 0;

 private:
  static constexpr size_t direct_bytes = 16 * 1024;
  void on_turn_end() override { flush(); }
  void hand_over(const hive_bytes *parts, size_t count);

  loop &loop_;
  transport_pump &pump_;
  frame_pool &pool_;
  outbox_counters &counters_;
  const hive_peer peer_;
  frame_pool::buffer frame_;
  size_t used_ = 0;
  bool shut_ = false;
};

}  // namespace hive::link
