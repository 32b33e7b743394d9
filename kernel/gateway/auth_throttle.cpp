#include "gateway/auth_throttle.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/host_text.hpp"

namespace hive::gateway {

namespace {
constexpr uint64_t minute_ns = 60 * ns_per_s;
}

auth_throttle::auth_throttle(uint64_t failures_a_minute)
    : period_ns_(failures_a_minute == 0 ? 0 : minute_ns / failures_a_minute), entries_(failures_a_minute == 0 ? 0 : most_addresses) {}

std::optional<http::peer_name> auth_throttle::named(std::string_view address) {
  if (is_loopback(address)) return {};
  return http::peer_name_of(address);
}

size_t auth_throttle::set_of(const http::peer_name &who) const {
  return http::peer_name_hash()(who) % (most_addresses / ways) * ways;
}

void auth_throttle::failed(std::string_view address, uint64_t now_ns) {
  if (period_ns_ == 0) return;
  const auto who = named(address);
  if (!who) return;
  const std::lock_guard guard(mutex_);
  entry *const first = &entries_[set_of(*who)];
  entry *at = std::find_if(first, first + ways, [&](const entry &e) { return e.due_ns != 0 && e.who == *who; });
  if (at == first + ways) {
    at = std::min_element(first, first + ways, [](const entry &a, const entry &b) { return a.due_ns < b.due_ns; });
    *at = {*who, 0};
  }
  at->due_ns = std::max(at->due_ns, now_ns) + period_ns_;
  if (at->due_ns + period_ns_ <= now_ns + minute_ns) return;  // a clock that counts from the machine's start may be below a minute
  const uint64_t free_ns = at->due_ns + period_ns_ - minute_ns;
  if (free_ns > all_free_ns_.load(std::memory_order_relaxed)) all_free_ns_.store(free_ns, std::memory_order_relaxed);
}

uint64_t auth_throttle::wait_s(std::string_view address, uint64_t now_ns) const {
  if (nobody_waits(now_ns)) return 0;
  const auto who = named(address);
  if (!who) return 0;
  const std::lock_guard guard(mutex_);
  const entry *const first = &entries_[set_of(*who)];
  for (const entry *e = first; e != first + ways; ++e) {
    if (e->due_ns == 0 || e->who != who) continue;
    const uint64_t free_ns = e->due_ns + period_ns_ - minute_ns;
    return e->due_ns + period_ns_ > now_ns + minute_ns ? (free_ns - now_ns + ns_per_s - 1) / ns_per_s : 0;
  }
  return 0;
}

}  // namespace hive::gateway
