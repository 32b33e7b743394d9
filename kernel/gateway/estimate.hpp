// Token counts where an engine tells none (HTTP sheet section 12.2): a quarter of the bytes of each text, and 4 a text.
// Pure, any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "gateway/request_scan.hpp"

namespace hive::gateway {

inline uint64_t simple_prompt_tokens(const request_scan &scan) { return scan.text_quarters + 4 * scan.text_entries; }
inline uint64_t simple_output_tokens(uint64_t text_bytes) { return text_bytes == 0 ? 0 : text_bytes / 4 + 4; }

// Bytes of the text in a complete JSON answer of a chat, messages, completions or responses route; 0 when there is none.
uint64_t answer_text_bytes(std::string_view json);

}  // namespace hive::gateway
