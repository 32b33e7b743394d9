// How a record lies in LMDB. Value: version u8 (1 = plain, 2 = long key), expiry u64 little endian (unix ms, 0 = never),
// for version 2 the key's length u16 and the key, then the value. Key: itself up to 511 bytes, LMDB's bound; a longer one
// becomes its first 495 bytes and the XXH3-128 of the whole. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hive::storage_lmdb {

inline constexpr std::size_t longest_plain_key = 511;
// Records whose stored keys share this many bytes may be out of the order of their full keys.
inline constexpr std::size_t long_key_head = longest_plain_key - 16;

std::string stored_key(std::string_view key);

struct record {
  std::string_view key;    // the full one
  std::string_view value;
  std::uint64_t expires_unix_ms;
};

// The bytes in front of the value.
std::string record_head(std::string_view key, std::uint64_t expires_unix_ms);
// Views into `value`, and into `stored` for a plain key. Nothing when it is no record of ours.
std::optional<record> read_record(std::string_view stored, std::string_view value);

}  // namespace hive::storage_lmdb
