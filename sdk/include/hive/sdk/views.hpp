// The request and the pool as a strategy or a gate sees them. Cheap views over the C structs: pass by reference, never
// keep one past the call.
#pragma once

#include <vector>

#include "hive/sdk/core.hpp"

namespace hive::sdk {

class request {
 public:
  explicit request(const hive_request *r) noexcept : r_(r) {}
  const hive_request &raw() const noexcept { return *r_; }

  bool stream() const noexcept { return (r_->flags & HIVE_REQUEST_STREAM) != 0; }
  std::string_view model() const noexcept { return view(r_->model); }
  std::string_view tenant() const noexcept { return view(r_->tenant); }
  std::string_view session() const noexcept { return view(r_->session); }  // empty when the client named none
  uint64_t tie_seed() const noexcept { return r_->tie_seed; }
  uint64_t now_ns() const noexcept { return r_->now_ns; }
  uint64_t prompt_tokens(uint64_t unknown) const noexcept { return known(r_->prompt_tokens, unknown); }  // estimates
  uint64_t output_tokens(uint64_t unknown) const noexcept { return known(r_->output_tokens, unknown); }
  // Only with `needs = HIVE_NEEDS_PREFIX_BLOCKS` or `HIVE_NEEDS_HEADERS`.
  std::span<const uint64_t> prefix_blocks() const noexcept { return {r_->prefix_blocks, r_->prefix_block_count}; }
  std::span<const hive_header> headers() const noexcept { return {r_->headers, r_->header_count}; }

 private:
  static uint64_t known(uint64_t n, uint64_t unknown) noexcept { return n == HIVE_TOKENS_UNKNOWN ? unknown : n; }

  const hive_request *r_;
};

// One column of a pool. A signal that nobody publishes reads as missing.
class signal {
 public:
  explicit signal(const double *values) noexcept : values_(values) {}
  double operator[](uint32_t index) const noexcept { return values_ == nullptr ? missing : values_[index]; }
  const double *data() const noexcept { return values_; }  // null = nobody publishes it

 private:
  const double *values_;
};

class pool {
 public:
  explicit pool(const hive_pool *p) noexcept : p_(p) {}
  const hive_pool &raw() const noexcept { return *p_; }

  uint32_t count() const noexcept { return p_->count; }  // slots, the empty ones included
  std::span<const uint32_t> candidates() const noexcept { return {p_->candidates, p_->candidate_count}; }
  bool eligible(uint32_t index) const noexcept { return p_->eligible != nullptr && p_->eligible[index] != 0; }
  sdk::signal signal(hive_column id) const noexcept { return sdk::signal(hive_column_at(p_, id)); }
  const hive_agent &agent(uint32_t index) const noexcept { return *hive_agent_at(p_, index); }
  uint64_t epoch() const noexcept { return p_->epoch; }

 private:
  const hive_pool *p_;
};

// A scrambled 64-bit value (splitmix64's finaliser): chance that a test can repeat.
constexpr uint64_t mix(uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// A value below n (n > 0) from a mixed 64-bit value, without the modulo's bias towards small ones.
constexpr uint32_t bounded(uint64_t mixed, uint32_t n) noexcept {
  return static_cast<uint32_t>((mixed >> 32) * n >> 32);
}

// State by slot, made anew when another agent takes the slot. Call `sync` from on_pool; `at` is O(1) and never
// allocates after it. [pool]
template <class T>
class per_agent {
 public:
  void sync(const pool &p) {
    if (p.count() > slots_.size()) slots_.resize(p.count());
    for (uint32_t i = 0; i < p.count(); ++i) {
      const uint64_t key = p.agent(i).agent_key;
      if (slots_[i].key != key) slots_[i] = slot{key, T{}};
    }
    for (size_t i = p.count(); i < slots_.size(); ++i) slots_[i] = slot{};
  }
  T &at(uint32_t index) { return slots_[index].value; }
  const T &at(uint32_t index) const { return slots_[index].value; }
  bool has(uint32_t index) const { return index < slots_.size() && slots_[index].key != 0; }
  uint64_t key(uint32_t index) const { return slots_[index].key; }
  uint32_t count() const { return static_cast<uint32_t>(slots_.size()); }

 private:
  struct slot {
    uint64_t key = 0;
    T value{};
  };
  std::vector<slot> slots_;
};

}  // namespace hive::sdk
