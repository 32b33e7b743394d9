// Handles of series that are looked up at every request and of which there are few: found without a lock, added under the owner's,
// never removed. A full list takes no more; its owner then resolves the handle each time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace hive::admin {

template <class T, size_t most>
class series_list {
 public:
  // Any thread. Null: not there, or not yet.
  template <class Same>
  const T *find(Same same) const {
    const size_t n = count_.load(std::memory_order_acquire);
    for (size_t i = 0; i < n; ++i)
      if (same(all_[i])) return &all_[i];
    return nullptr;
  }

  // One thread at a time.
  void add(const T &one) {
    const size_t n = count_.load(std::memory_order_relaxed);
    if (n == most) return;
    all_[n] = one;
    count_.store(n + 1, std::memory_order_release);
  }

 private:
  std::array<T, most> all_{};
  std::atomic<size_t> count_{0};
};

}  // namespace hive::admin
