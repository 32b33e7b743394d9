#include "record.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace hive::storage_lmdb {

namespace {

constexpr char plain = 1;
constexpr char long_key = 2;
constexpr std::size_t plain_head = 9;

}  // namespace

std::string stored_key(std::string_view key) {
  if (key.size() <= longest_plain_key) return std::string(key);
  XXH128_canonical_t hash;
  XXH128_canonicalFromHash(&hash, XXH3_128bits(key.data(), key.size()));
  std::string out(key.substr(0, long_key_head));
  out.append(reinterpret_cast<const char *>(hash.digest), sizeof hash.digest);
  return out;
}

std::string record_head(std::string_view key, std::uint64_t expires_unix_ms) {
  const bool is_long = key.size() > longest_plain_key;
  std::string out(1, is_long ? long_key : plain);
  for (int i = 0; i < 8; ++i) out += static_cast<char>(expires_unix_ms >> (8 * i) & 0xff);
  if (is_long) {
    out += static_cast<char>(key.size() & 0xff);
    out += static_cast<char>(key.size() >> 8 & 0xff);
    out += key;
  }
  return out;
}

std::optional<record> read_record(std::string_view stored, std::string_view value) {
  if (value.size() < plain_head || (value[0] != plain && value[0] != long_key)) return std::nullopt;
  record out{stored, value.substr(plain_head), 0};
  for (int i = 8; i >= 1; --i)
    out.expires_unix_ms = out.expires_unix_ms << 8 | static_cast<unsigned char>(value[static_cast<std::size_t>(i)]);
  if (value[0] == plain) return out;
  if (out.value.size() < 2) return std::nullopt;
  const auto length = static_cast<std::size_t>(static_cast<unsigned char>(out.value[0]) | static_cast<unsigned char>(out.value[1]) << 8);
  if (out.value.size() < 2 + length) return std::nullopt;
  out.key = out.value.substr(2, length);
  out.value.remove_prefix(2 + length);
  return out;
}

}  // namespace hive::storage_lmdb
