// The prefix blocks of a request, for components that ask for them (docs/abi/prefix-blocks.md). Pure, any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "gateway/request_scan.hpp"

namespace hive::gateway {

inline constexpr size_t prefix_block_bytes = 512;
inline constexpr size_t max_prefix_blocks = 4096;   // 2 MiB of prompt, 32 KiB of hashes; what is behind is not looked at

// Writes over `out`. Each block is the XXH3-64 of its bytes, seeded with the hash before it (the first with 0): equal hashes mean
// equal prompts up to there. The bytes are the raw JSON of the scan's prompt parts, one after the other; a last block that is not
// full is left out.
void prefix_blocks_of(std::string_view body, const request_scan &scan, std::vector<uint64_t> &out);

}  // namespace hive::gateway
