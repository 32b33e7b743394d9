// SHA-256 and HMAC/HKDF over it (RFC 2104, RFC 5869), thin names over libsodium. Pure, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hive {

using digest32 = std::array<uint8_t, 32>;

digest32 sha256(std::string_view bytes);
std::string sha256_hex(std::string_view bytes);
digest32 hmac_sha256(std::string_view key, std::string_view bytes);
// Overwrites a text that held a secret and empties it; no optimizer takes that away.
void wipe(std::string &secret);
digest32 hkdf_sha256(std::string_view ikm, std::string_view salt, std::string_view info);  // 32 bytes of output

// Of digests of secrets and of keys made from them: takes the same time wherever they differ, which == does not.
bool equal_secret(const digest32 &a, const digest32 &b);

inline std::string_view as_text(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}
inline std::span<const uint8_t> as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

}  // namespace hive
