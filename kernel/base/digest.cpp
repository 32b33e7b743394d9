#include "base/digest.hpp"

#include <sodium.h>

#include "base/text.hpp"

namespace hive {

digest32 sha256(std::string_view bytes) {
  digest32 out;
  crypto_hash_sha256(out.data(), as_bytes(bytes).data(), bytes.size());
  return out;
}

std::string sha256_hex(std::string_view bytes) { return to_hex(sha256(bytes)); }

digest32 hmac_sha256(std::string_view key, std::string_view bytes) {
  crypto_auth_hmacsha256_state state;
  digest32 out;
  crypto_auth_hmacsha256_init(&state, as_bytes(key).data(), key.size());
  crypto_auth_hmacsha256_update(&state, as_bytes(bytes).data(), bytes.size());
  crypto_auth_hmacsha256_final(&state, out.data());
  return out;
}

void wipe(std::string &secret) {
  sodium_memzero(secret.data(), secret.size());
  secret.clear();
}

digest32 hkdf_sha256(std::string_view ikm, std::string_view salt, std::string_view info) {
  const digest32 prk = hmac_sha256(salt, ikm);
  std::string block(info);
  block += '\x01';
  return hmac_sha256(as_text(prk), block);
}

// A loop of our own the compiler may end at the first difference; this one it may not.
bool equal_secret(const digest32 &a, const digest32 &b) { return sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace hive
