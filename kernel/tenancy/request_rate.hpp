// Requests a minute (docs/quotas.md): a token bucket of each tenant, or of each tenant and model, as Go's x/time/rate keeps
// them: rate limit / 60 a second, full at first, one token a request. The limit comes with every call: a bucket first fills at its old
// rate, then takes the new one, so that a reload or another agent acts at once; a smaller one clips what is stored when it next fills.
// Monotonic clock. Any thread; one mutex, held briefly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "tenancy/token_bucket.hpp"

namespace hive::tenancy {

class request_rate {
 public:
  // `burst_seconds`: how many seconds' requests may come at once; 0, and 60 and more, is a whole minute's.
  explicit request_rate(const clock_source &clock, uint64_t burst_seconds = 0) : clock_(clock), burst_seconds_(burst_seconds) {}

  struct answer {
    bool allowed = false;
    uint64_t remaining = 0;    // whole requests that could follow now
    uint64_t retry_ns = 0;     // until there is one; 0 when allowed
    uint64_t full_ns = 0;      // until all of them are there again
  };
  // Requires: a_minute > 0. A denial takes nothing.
  answer take(std::string_view bucket, uint64_t a_minute);
  uint64_t burst(uint64_t a_minute) const;

  // Forgets the full ones: a bucket that is not there is full. Returns how many.
  size_t sweep();
  size_t size() const;

 private:
  const clock_source &clock_;
  const uint64_t burst_seconds_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, token_bucket, text_hash, std::equal_to<>> buckets_;
};

}  // namespace hive::tenancy
