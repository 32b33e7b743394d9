// Whoever guesses keys is made to wait: so many failed authentications a minute an address, over clients' and admin keys and over all
// workers; beyond that its requests are refused before their credential is looked at, a right one too, so that nothing can be
// learned from the answer. Loopback is not counted: behind a proxy of this machine that nobody named (--trusted-proxies)
// everybody is one address.
//
// Any thread. While nobody is over the limit a request costs one atomic read; failures take a lock. The table is bounded: of too
// many addresses those are forgotten that have the least to wait for.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "http/peer_limit.hpp"

namespace hive::gateway {

class auth_throttle {
 public:
  explicit auth_throttle(uint64_t failures_a_minute);  // 0 = off
  // An IPv4 address or an IPv6 /64; text that is no address is never held back.
  void failed(std::string_view address, uint64_t now_ns);
  // Whole seconds until this address may try again; 0 = now.
  uint64_t wait_s(std::string_view address, uint64_t now_ns) const;

  bool nobody_waits(uint64_t now_ns) const { return now_ns >= all_free_ns_.load(std::memory_order_relaxed); }

  static constexpr size_t most_addresses = 4096;

 private:
  // Generic cell rate: each failure moves `due` one period on, from now or from where it was. A failure too many is one with
  // `due` further ahead than a minute less a period.
  struct entry {
    http::peer_name who{};
    uint64_t due_ns = 0;
  };
  static constexpr size_t ways = 8;
  static std::optional<http::peer_name> named(std::string_view address);  // empty: not counted
  size_t set_of(const http::peer_name &) const;

  const uint64_t period_ns_;
  std::atomic<uint64_t> all_free_ns_{0};  // from then on nobody has to wait
  mutable std::mutex mutex_;              // guards entries_
  std::vector<entry> entries_;
};

}  // namespace hive::gateway
