#include "fleet/recent_outcomes.hpp"

namespace hive::fleet {

void recent_outcomes::add(bool success, uint64_t now_ns) {
  const uint64_t number = now_ns / bucket_ns + 1;
  const std::lock_guard lock(mutex_);
  bucket &b = ring_[number % buckets];
  if (b.number > number) return;  // the clock read of a thread that slept for a whole window
  if (b.number < number) b = {number, 0, 0};
  ++(success ? b.ok : b.failed);
}

std::optional<double> recent_outcomes::rate(uint64_t now_ns) const {
  const uint64_t newest = now_ns / bucket_ns + 1;
  uint64_t ok = 0, all = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const bucket &b : ring_) {
      if (b.number == 0 || b.number + buckets <= newest) continue;
      ok += b.ok;
      all += static_cast<uint64_t>(b.ok) + b.failed;
    }
  }
  if (all == 0) return std::nullopt;
  return static_cast<double>(ok) / static_cast<double>(all);
}

void recent_outcomes::reset() {
  const std::lock_guard lock(mutex_);
  ring_ = {};
}

}  // namespace hive::fleet
