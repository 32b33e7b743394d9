// For tests and benchmarks that count allocations. Replaces operator new of the whole program, the libraries that it loads included:
// for one source of a program of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace hive {

inline std::atomic<uint64_t> allocations{0};  // so far

}  // namespace hive

// Not inlined: the compiler would see malloc under new and warn of delete.
[[gnu::noinline]] void *operator new(size_t n) {
  hive::allocations.fetch_add(1, std::memory_order_relaxed);
  if (void *p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void *p, size_t) noexcept { std::free(p); }
