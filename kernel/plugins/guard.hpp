// What stands around every call into a plugin: the name of who is on the stack (for the line a crash leaves), counts,
// time of one call in 64, and a circuit that stops calling what keeps failing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "base/clock.hpp"

namespace hive::plugins {

// Who is on this thread's stack. Read by the crash handler, hence fixed storage.
struct crash_marker {
  std::array<char, 96> component{};  // kind/id
  std::array<char, 128> instance{};
};
extern constinit thread_local const crash_marker *on_stack;

// On SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT and SIGSYS writes one line to stderr that names the component and instance on
// the stack of that thread, then lets the signal do what it did before. Call once, early.
void install_crash_handler();

// Opens after `failures` in a row, for `open_ns`; then one call is let through, and its result decides. Any thread.
class circuit {
 public:
  explicit circuit(uint32_t failures = 5, uint64_t open_ns = 30 * ns_per_s) : limit_(failures), open_ns_(open_ns) {}
  bool closed(uint64_t now_ns);   // may the instance be called
  bool open() const { return until_.load(std::memory_order_relaxed) != 0; }
  void good() {
    if (streak_.load(std::memory_order_relaxed) != 0) close();
  }
  void bad(uint64_t now_ns);

 private:
  void close();
  const uint32_t limit_;
  const uint64_t open_ns_;
  std::atomic<uint32_t> streak_{0};
  std::atomic<uint64_t> until_{0};  // 0 = closed
};

// Counts of one instance. Any thread.
class call_stats {
 public:
  using buckets = std::array<uint64_t, 48>;        // of the sampled calls; [k]: those of 2^(k-1) to 2^k - 1 ns
  struct totals {
    uint64_t calls = 0, failures = 0, wrong_answers = 0, sampled = 0, sampled_ns = 0;
    buckets took{};
    totals &operator+=(const totals &);
  };
  struct snapshot : totals {
    uint64_t p50_ns = 0, p99_ns = 0, max_ns = 0;  // of the sampled calls, upper edge of a power of two
    std::string last_error;
  };
  // The number of this call.
  uint64_t begin() { return calls_.fetch_add(1, std::memory_order_relaxed); }
  static bool timed(uint64_t call) { return (call & 63) == 0; }
  void took(uint64_t ns);
  void failed(std::string_view why, bool wrong);
  snapshot read() const;

 private:
  std::atomic<uint64_t> calls_{0}, failures_{0}, wrong_{0}, max_{0}, sum_{0};
  std::array<std::atomic<uint64_t>, std::tuple_size_v<buckets>> buckets_{};
  mutable std::mutex mutex_;                         // guards last_error_
  std::string last_error_;
};

}  // namespace hive::plugins
