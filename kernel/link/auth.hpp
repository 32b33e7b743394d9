// The proof of the shared secret (docs/link.md): after CURVE, both ends show with an HMAC that they hold it, bound to
// both CURVE keys as the transport saw them, so that a proof is worth nothing on another connection. Pure, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.hpp"
#include "link/identity.hpp"

namespace hive::link {

enum class role { agent, router };

struct proof_input {
  uint32_t version = 1;
  key32 router_curve{};
  key32 agent_curve{};
  std::string_view peer_id;
  key32 agent_nonce{};
  key32 router_nonce{};
  digest32 metadata_hash{};   // SHA-256 of the metadata bytes of AUTH
};

// K = HKDF-SHA256(secret, salt "hivenet-zmq-auth-v1", info "agent-hello"); the raw secret is never a MAC key.
digest32 proof_key(std::string_view secret);
// HMAC-SHA256(K, length-prefixed role label, version, router key, agent key, peer id, agent nonce, router nonce, hash).
digest32 make_proof(const digest32 &key, role who, const proof_input &in);
// The index of the key that made `proof`, -1 = none of them. Constant time in the number of keys.
int find_proof(std::span<const digest32> keys, role who, const proof_input &in, const digest32 &proof);
// Whether one of the keys is this one, and whether two lists have the same ones in the same order. Constant time, too.
bool holds_key(std::span<const digest32> keys, const digest32 &key);
bool same_keys(std::span<const digest32> a, std::span<const digest32> b);
// What is left of a secret once its keys are derived.
void wipe(std::vector<std::string> &secrets);
key32 random_nonce();
uint64_t random_u64();

}  // namespace hive::link
