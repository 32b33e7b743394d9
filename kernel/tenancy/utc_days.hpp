// UTC days for budgets that last one. The wall clock says which day it is, the monotonic clock how time goes on: a wall clock that
// jumps (by hand, by a bad time server, after a suspend) neither refills a budget nor keeps it empty. A jump is believed once it has
// held for an hour; what is smaller than two seconds between two calls is followed at once. Call it every second or so; not thread-safe.
#pragma once

#include <cstdint>

#include "base/clock.hpp"

namespace hive::tenancy {

class utc_days {
 public:
  static constexpr uint64_t day_ms = 86'400'000;
  static constexpr uint64_t believed_after_ns = 3600 * ns_per_s;
  static constexpr int64_t followed_ms = 2000;

  explicit utc_days(const clock_source &clock) : clock_(clock), offset_ms_(offset()) {}

  uint64_t now_ms() {
    follow();
    const int64_t now = offset_ms_ + monotonic_ms();
    return now > 0 ? static_cast<uint64_t>(now) : 0;
  }
  uint64_t today() { return now_ms() / day_ms; }
  uint64_t left_ms() { return day_ms - now_ms() % day_ms; }  // to midnight; never 0

 private:
  int64_t monotonic_ms() const { return static_cast<int64_t>(clock_.now() / ns_per_ms); }
  int64_t offset() const { return static_cast<int64_t>(clock_.wall_ms()) - monotonic_ms(); }
  static bool near(int64_t a, int64_t b) { return a - b < followed_ms && b - a < followed_ms; }

  void follow() {
    const int64_t told = offset();
    if (near(told, offset_ms_)) {
      offset_ms_ = told;
      jumped_ = false;
    } else if (!jumped_ || !near(told, jumped_to_ms_)) {
      jumped_ = true;
      jumped_to_ms_ = told;
      jumped_at_ns_ = clock_.now();
    } else if (clock_.now() - jumped_at_ns_ >= believed_after_ns) {
      offset_ms_ = told;
      jumped_ = false;
    }
  }

  const clock_source &clock_;
  int64_t offset_ms_;              // wall - monotonic, as believed
  bool jumped_ = false;
  int64_t jumped_to_ms_ = 0;
  uint64_t jumped_at_ns_ = 0;
};

}  // namespace hive::tenancy
