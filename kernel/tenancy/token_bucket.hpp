// A bucket of tokens that fills with time: `a_minute` / 60 a second, never above `most`. Plain arithmetic, no lock; time is the
// monotonic clock's. Whoever changes a limit lets it fill at the old one first.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.hpp"

namespace hive::tenancy {

struct token_bucket {
  double tokens, a_minute, most;
  uint64_t at_ns;                  // filled until then

  // Tokens are sums of parts that no double holds exactly: whoever comes at the very nanosecond that it was told must not find 0.9999999.
  static constexpr double slack = 1e-6;
  bool has(double asked) const { return tokens >= asked - slack; }

  void fill(uint64_t now_ns) {
    if (now_ns <= at_ns) return;
    tokens = std::min(most, tokens + static_cast<double>(now_ns - at_ns) / (60.0 * static_cast<double>(ns_per_s)) * a_minute);
    at_ns = now_ns;
  }
  bool full(uint64_t now_ns) const {
    token_bucket then = *this;
    then.fill(now_ns);
    return then.has(most);
  }
};

}  // namespace hive::tenancy
