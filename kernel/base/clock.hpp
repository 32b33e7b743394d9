// Clocks. Durations and deadlines run on the monotonic clock; the wall clock is for records that outlive the process.
#pragma once

#include <cstdint>
#include <ctime>

namespace hive {

inline constexpr uint64_t ns_per_us = 1'000;
inline constexpr uint64_t ns_per_ms = 1'000'000;
inline constexpr uint64_t ns_per_s = 1'000'000'000;
inline constexpr uint64_t ns_per_hour = 3600 * ns_per_s;
inline constexpr uint64_t ns_per_day = 24 * ns_per_hour;
inline constexpr uint64_t never_ns = UINT64_MAX;

inline uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * ns_per_s + static_cast<uint64_t>(t.tv_nsec);
}

// A limit of which 0 means off, as something that can be added to a time and never comes: a hundred years.
constexpr uint64_t or_never(uint64_t limit_ns) { return limit_ns == 0 ? 36'500 * ns_per_day : limit_ns; }

inline uint64_t unix_ms() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000 + static_cast<uint64_t>(t.tv_nsec) / ns_per_ms;
}

// Time as a component sees it; a test hands in one that it moves itself.
class clock_source {
 public:
  virtual ~clock_source() = default;
  virtual uint64_t now() const = 0;           // monotonic ns
  virtual uint64_t wall_ms() const = 0;       // unix ms
};

class system_clock_source final : public clock_source {
 public:
  uint64_t now() const override { return now_ns(); }
  uint64_t wall_ms() const override { return unix_ms(); }
};

inline const clock_source &system_clock() {
  static const system_clock_source clock;
  return clock;
}

class manual_clock final : public clock_source {
 public:
  explicit manual_clock(uint64_t start_ns = ns_per_s) : now_(start_ns) {}
  uint64_t now() const override { return now_; }
  uint64_t wall_ms() const override { return wall_base_ms_ + now_ / ns_per_ms; }
  void advance(uint64_t ns) { now_ += ns; }
  void step_wall(int64_t ms) { wall_base_ms_ = static_cast<uint64_t>(static_cast<int64_t>(wall_base_ms_) + ms); }

 private:
  uint64_t now_;
  uint64_t wall_base_ms_ = 1'700'000'000'000;
};

}  // namespace hive
