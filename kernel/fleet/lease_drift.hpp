// Whether slots of agents are taken that no request holds, or the other way round: the sweep behind lease_drift. The two
// sides are read one after the other while workers go on, so one difference means nothing; one that stays is a bug.
// Sampled by one thread, read by any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace hive::fleet {

class lease_drift {
 public:
  static constexpr size_t samples = 3;   // in a row

  // `taken`: as the agents count. `held`: by streams and requests.
  void sample(int64_t taken, int64_t held) {
    seen_[next_++ % samples] = taken - held;
    int64_t least = seen_[0];
    for (const int64_t d : seen_) {
      if ((d > 0) != (least > 0) || d == 0) least = 0;
      if (least == 0) break;
      if (std::abs(d) < std::abs(least)) least = d;
    }
    value_.store(least, std::memory_order_relaxed);
  }
  // Slots too many (above 0) or too few; 0 unless all of the last samples agree on the sign, then the smallest.
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::array<int64_t, samples> seen_{};
  size_t next_ = 0;
  std::atomic<int64_t> value_{0};
};

}  // namespace hive::fleet
