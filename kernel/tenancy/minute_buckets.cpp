#include "tenancy/minute_buckets.hpp"

#include <algorithm>
#include <cmath>

namespace hive::tenancy {

token_bucket &minute_buckets::at(std::string_view name, uint64_t limit) {
  const uint64_t now = clock_.now();
  const auto most = static_cast<double>(limit);
  auto found = buckets_.find(name);
  if (found == buckets_.end()) found = buckets_.emplace(std::string(name), token_bucket{most, most, most, now}).first;
  token_bucket &b = found->second;
  b.fill(now);
  b.a_minute = b.most = most;
  b.tokens = std::min(b.tokens, most);
  return b;
}

bool minute_buckets::exhausted(std::string_view name, uint64_t limit) {
  if (limit == 0) return false;
  const std::lock_guard guard(mutex_);
  return !at(name, limit).has(1);
}

bool minute_buckets::take(std::string_view name, uint64_t limit, uint64_t tokens) {
  if (limit == 0) return true;
  const std::lock_guard guard(mutex_);
  token_bucket &b = at(name, limit);
  const auto asked = static_cast<double>(tokens);
  if (!b.has(asked)) return false;
  b.tokens = std::max(0.0, b.tokens - asked);
  return true;
}

void minute_buckets::charge(std::string_view name, uint64_t limit, uint64_t tokens) {
  if (limit == 0) return;
  const std::lock_guard guard(mutex_);
  at(name, limit).tokens -= static_cast<double>(std::min(tokens, limit));
}

void minute_buckets::give_back(std::string_view name, uint64_t limit, uint64_t tokens) {
  if (limit == 0) return;
  const std::lock_guard guard(mutex_);
  token_bucket &b = at(name, limit);
  b.tokens = std::min(b.most, b.tokens + static_cast<double>(tokens));
}

uint64_t minute_buckets::wait_s(std::string_view name, uint64_t limit, uint64_t tokens) {
  if (limit == 0) return 1;
  const std::lock_guard guard(mutex_);
  const double missing = static_cast<double>(std::min(tokens, limit)) - token_bucket::slack - at(name, limit).tokens;
  return static_cast<uint64_t>(std::clamp(std::ceil(missing * 60 / static_cast<double>(limit)), 1.0, 86'400.0));
}

size_t minute_buckets::sweep() {
  const std::lock_guard guard(mutex_);
  return std::erase_if(buckets_, [now = clock_.now()](const auto &each) { return each.second.full(now); });
}

size_t minute_buckets::size() const {
  const std::lock_guard guard(mutex_);
  return buckets_.size();
}

}  // namespace hive::tenancy
