// How fast a waiting line moves: the mean time between two slots that went to requests which waited. Plain value; guarded by whoever
// keeps it.
//
// A gap counts only while somebody waited through it; the slot of a lone waiter counts with the time it waited, which the gap is not
// shorter than. mean = 1/8 * gap + 7/8 * mean. Unknown before the third gap, and again when the last is older than a minute and than
// eight gaps: then nobody is refused for it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.hpp"

namespace hive::routing {

// Retry-After for whoever is told to come back after that time: whole seconds, 1 to 60; 0 ns = not known.
constexpr uint64_t retry_after_s(uint64_t ns) { return std::clamp<uint64_t>(ns / ns_per_s + (ns % ns_per_s != 0), 1, 60); }

class turnover {
 public:
  static constexpr uint32_t enough = 3;
  static constexpr uint64_t fresh_ns = 60 * ns_per_s;

  // A slot went to a request that had waited; `others` still wait.
  void granted(uint64_t now_ns, uint64_t waited_ns, bool others) {
    const uint64_t gap = unbroken_ ? now_ns - last_ns_ : waited_ns;
    mean_ns_ = gaps_ == 0 ? gap : mean_ns_ - mean_ns_ / 8 + gap / 8;
    gaps_ = std::min(gaps_ + 1, enough);
    last_ns_ = now_ns;
    unbroken_ = others;
  }
  void emptied() { unbroken_ = false; }

  uint64_t gap_ns(uint64_t now_ns) const {   // 0 = unknown
    if (gaps_ < enough || now_ns - last_ns_ > std::max(fresh_ns, 8 * mean_ns_)) return 0;
    return std::max<uint64_t>(1, mean_ns_);
  }

 private:
  uint64_t mean_ns_ = 0, last_ns_ = 0;
  uint32_t gaps_ = 0;
  bool unbroken_ = false;
};

}  // namespace hive::routing
