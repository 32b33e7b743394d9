// Token buckets of keys' per-minute limits (docs/admission.md): rate limit / 60 a second, as many at once as the limit,
// full at first. The limit comes with every call: a bucket first fills at its old rate, then takes the new one, so that a reload acts
// at once. Any thread; one mutex, held briefly.
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

class minute_buckets {
 public:
  explicit minute_buckets(const clock_source &clock) : clock_(clock) {}

  // A limit of 0 is none: nothing is denied, kept or charged.
  bool exhausted(std::string_view bucket, uint64_t limit);            // less than one token is left
  bool take(std::string_view bucket, uint64_t limit, uint64_t tokens);  // all or nothing
  // For what has been used already: at most `limit` of it, below zero if need be.
  void charge(std::string_view bucket, uint64_t limit, uint64_t tokens);
  void give_back(std::string_view bucket, uint64_t limit, uint64_t tokens);
  // Whole seconds until so many tokens are there, or as many as there can be; at least 1. For whoever was denied them.
  uint64_t wait_s(std::string_view bucket, uint64_t limit, uint64_t tokens);

  // Forgets the full ones: a bucket that is not there is full. Returns how many.
  size_t sweep();
  size_t size() const;

 private:
  token_bucket &at(std::string_view name, uint64_t limit);   // requires mutex_

  const clock_source &clock_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, token_bucket, text_hash, std::equal_to<>> buckets_;
};

}  // namespace hive::tenancy
