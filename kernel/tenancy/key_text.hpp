// The text of a new client key and what is shown of it (docs/keys.md). Pure, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hive::tenancy {

// "sk-hivenet-" and the base58 of 32 random bytes. Keys of any other form are as good: only the hash is kept.
std::string key_text(std::span<const uint8_t, 32> random);
// "sk-..." and the last 4 characters.
std::string preview_of(std::string_view key);

}  // namespace hive::tenancy
