#include "link/auth.hpp"

#include <sodium.h>

namespace hive::link {
namespace {

void field(std::string &out, std::string_view bytes) {
  const auto n = static_cast<uint32_t>(bytes.size());
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(n >> shift & 0xff);
  out += bytes;
}

}  // namespace

digest32 proof_key(std::string_view secret) { return hkdf_sha256(secret, "hivenet-zmq-auth-v1", "agent-hello"); }

digest32 make_proof(const digest32 &key, role who, const proof_input &in) {
  std::string text;
  text.reserve(320);
  field(text, who == role::agent ? "agent" : "router");
  const char version[4] = {static_cast<char>(in.version), static_cast<char>(in.version >> 8), static_cast<char>(in.version >> 16),
                           static_cast<char>(in.version >> 24)};
  field(text, std::string_view(version, 4));
  field(text, as_text(in.router_curve));
  field(text, as_text(in.agent_curve));
  field(text, in.peer_id);
  field(text, as_text(in.agent_nonce));
  field(text, as_text(in.router_nonce));
  field(text, as_text(in.metadata_hash));
  return hmac_sha256(as_text(key), text);
}

int find_proof(std::span<const digest32> keys, role who, const proof_input &in, const digest32 &proof) {
  int found = -1;
  for (size_t i = 0; i < keys.size(); ++i) {
    const digest32 expected = make_proof(keys[i], who, in);
    const bool same = equal_secret(expected, proof);
    found = same && found < 0 ? static_cast<int>(i) : found;
  }
  return found;
}

bool holds_key(std::span<const digest32> keys, const digest32 &key) {
  bool found = false;
  for (const digest32 &one : keys) found |= equal_secret(one, key);
  return found;
}

bool same_keys(std::span<const digest32> a, std::span<const digest32> b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) same &= equal_secret(a[i], b[i]);
  return same;
}

void wipe(std::vector<std::string> &secrets) {
  for (std::string &s : secrets) hive::wipe(s);
  secrets.clear();
}

key32 random_nonce() {
  key32 nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

uint64_t random_u64() {
  uint64_t v;
  randombytes_buf(&v, sizeof v);
  return v;
}

}  // namespace hive::link
