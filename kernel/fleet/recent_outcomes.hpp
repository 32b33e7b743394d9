// Attempts of the last five minutes, so that an agent's success rate can forget (a lifetime rate hides an
// outage behind old successes, and keeps out for ever an agent that was repaired long ago).
//
//   rate(t) = sum(ok) / sum(ok + failed) over the ten buckets of 30 s that are not older than 5 minutes at t
//
// A plain sliding window in steps of one bucket: it spans 4.5 to 5 minutes. It was preferred to a decaying mean because a
// mean of no new samples keeps its value: an agent that is kept out by it is measured no more and would stay out. Here the value is
// missing once the window is empty.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/clock.hpp"

namespace hive::fleet {

// Any thread. Times are monotonic and may come slightly out of order between threads.
class recent_outcomes {
 public:
  static constexpr uint64_t bucket_ns = 30 * ns_per_s;
  static constexpr uint64_t buckets = 10;

  void add(bool success, uint64_t now_ns);
  std::optional<double> rate(uint64_t now_ns) const;  // empty = no attempt in the window
  void reset();

 private:
  struct bucket {
    uint64_t number = 0;  // its time / bucket_ns + 1; 0 = never used
    uint32_t ok = 0;
    uint32_t failed = 0;
  };
  mutable std::mutex mutex_;
  std::array<bucket, buckets> ring_{};
};

}  // namespace hive::fleet
