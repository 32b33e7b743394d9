// How a test waits for what another thread does. Any thread.
#pragma once

#include <thread>

#include "base/clock.hpp"

namespace hive {

// Whether the condition comes true within `ms`; it is looked at as often as the other threads leave time to, and at least once.
template <class Condition>
[[nodiscard]] bool within_limit(Condition condition, uint64_t ms = 10'000) {
  for (const uint64_t end = now_ns() + ms * ns_per_ms; !condition(); std::this_thread::yield())
    if (now_ns() > end) return false;
  return true;
}

}  // namespace hive
