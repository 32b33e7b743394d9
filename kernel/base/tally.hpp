// A number that one thread changes and any thread reads: plain adds for the writer, no torn or racing reads for the others.
#pragma once

#include <atomic>
#include <cstdint>

namespace hive {

class tally {
 public:
  // ---- the writer's thread ----
  tally &operator++() { return *this += 1; }
  tally &operator--() { return *this -= 1; }
  tally &operator+=(uint64_t n) { return set(get() + n); }
  tally &operator-=(uint64_t n) { return set(get() - n); }

  // ---- any thread ----
  operator uint64_t() const { return get(); }

 private:
  uint64_t get() const { return value_.load(std::memory_order_relaxed); }
  tally &set(uint64_t n) {
    value_.store(n, std::memory_order_relaxed);
    return *this;
  }
  std::atomic<uint64_t> value_{0};
};

}  // namespace hive
