#include "gateway/prefix_blocks.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace hive::gateway {

void prefix_blocks_of(std::string_view body, const request_scan &scan, std::vector<uint64_t> &out) {
  out.clear();
  size_t total = 0;
  for (const byte_range &at : scan.prompt_at) total += at.length;
  out.reserve(std::min(max_prefix_blocks, total / prefix_block_bytes));

  uint64_t chain = 0;
  std::array<char, prefix_block_bytes> block;   // of one that lies in two parts
  size_t held = 0;
  const auto add = [&](const char *bytes) {
    chain = XXH3_64bits_withSeed(bytes, prefix_block_bytes, chain);
    out.push_back(chain);
  };
  for (const byte_range &at : scan.prompt_at) {
    std::string_view part = body.substr(std::min(at.offset, body.size()), at.length);
    while (!part.empty() && out.size() < max_prefix_blocks) {
      if (held == 0 && part.size() >= prefix_block_bytes) {
        add(part.data());
        part.remove_prefix(prefix_block_bytes);
        continue;
      }
      const size_t n = std::min(part.size(), prefix_block_bytes - held);
      std::memcpy(block.data() + held, part.data(), n);
      held += n;
      part.remove_prefix(n);
      if (held < prefix_block_bytes) continue;
      add(block.data());
      held = 0;
    }
  }
}

}  // namespace hive::gateway
