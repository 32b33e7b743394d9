#include "tenancy/request_rate.hpp"

#include <algorithm>
#include <cmath>

namespace hive::tenancy {

namespace {

constexpr double minute_ns = 60.0 * static_cast<double>(ns_per_s);
constexpr double largest = 9e18;  // what a count still holds

uint64_t until(double tokens, double a_minute) {
  return tokens <= 0 ? 0 : static_cast<uint64_t>(std::ceil(std::min(tokens / a_minute * minute_ns, largest)));
}

}  // namespace

uint64_t request_rate::burst(uint64_t a_minute) const {
  if (burst_seconds_ == 0 || burst_seconds_ >= 60) return a_minute;
  // Split so that no limit, however large, overflows.
  return std::max<uint64_t>(1, a_minute / 60 * burst_seconds_ + a_minute % 60 * burst_seconds_ / 60);
}

request_rate::answer request_rate::take(std::string_view name, uint64_t a_minute) {
  const auto most = static_cast<double>(burst(a_minute));
  const auto rate = static_cast<double>(a_minute);
  const uint64_t now = clock_.now();
  const std::lock_guard guard(mutex_);
  auto found = buckets_.find(name);
  if (found == buckets_.end()) found = buckets_.emplace(std::string(name), token_bucket{most, rate, most, now}).first;
  token_bucket &b = found->second;
  b.fill(now);
  b.a_minute = rate;
  b.most = most;  // what is above a smaller one goes when the bucket fills next
  answer out;
  out.allowed = b.has(1);
  if (out.allowed) b.tokens = std::max(0.0, b.tokens - 1);
  else out.retry_ns = until(1 - b.tokens, rate);
  out.remaining = static_cast<uint64_t>(std::min({b.tokens + token_bucket::slack, most, largest}));
  out.full_ns = until(most - b.tokens, rate);
  return out;
}

size_t request_rate::sweep() {
  const std::lock_guard guard(mutex_);
  return std::erase_if(buckets_, [now = clock_.now()](const auto &each) { return each.second.full(now); });
}

size_t request_rate::size() const {
  const std::lock_guard guard(mutex_);
  return buckets_.size();
}

}  // namespace hive::tenancy
