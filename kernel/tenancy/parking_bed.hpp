// What the tests of admission share: a loop that is run until something is so.
#pragma once

#include <chrono>

#include "base/clock.hpp"
#include "base/loop.hpp"

namespace hive::tenancy::testing {

// Runs `home` until done() or `limit_ns` has passed.
template <class F>
bool run_until(loop &home, F done, uint64_t limit_ns = 10 * ns_per_s) {
  const uint64_t end = now_ns() + limit_ns;
  while (!done() && now_ns() < end) home.io().run_one_for(std::chrono::milliseconds(5));
  return done();
}

// Lets everything run that is ready.
inline void settle(loop &home) {
  home.io().restart();
  while (home.io().poll() > 0) {
  }
}

}  // namespace hive::tenancy::testing
