// The prompt blocks that the simulated engine still holds, as vLLM's prefix caching does: whole blocks of 16 tokens from the
// prompt's start, the least recently used out first. One loop, no lock.
#pragma once

#include <cstdint>
#include <list>
#include <string_view>
#include <unordered_map>

namespace hive::sim {

class prefix_cache {
 public:
  static constexpr uint64_t tokens_a_block = 16, bytes_a_token = 4;

  explicit prefix_cache(uint64_t tokens) : most_(tokens / tokens_a_block) {}
  // The tokens of the prompt's start that are held; holds the whole of it afterwards.
  uint64_t enter(std::string_view prompt);

 private:
  uint64_t most_;
  std::list<uint64_t> order_;   // chained hashes, the most recently used first
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> at_;
};

}  // namespace hive::sim
