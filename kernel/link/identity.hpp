// Who an agent is: an Ed25519 key in a file of the libp2p layout (08 01 12 40, 32-byte seed, 32-byte public key: 68 bytes,
// mode 0600). The peer id is the base58 text of 00 24 08 01 12 20 + public key; the CURVE pair comes from the same seed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace hive::link {

using key32 = std::array<uint8_t, 32>;

struct identity {
  std::string peer_id;
  key32 ed25519_public{};
  key32 curve_public{};
  key32 curve_secret{};
};

// Loads the file; creates it (O_EXCL, fsync, rename) only when it does not exist. Any other trouble is an error and the
// file is left as it is.
result<identity> load_or_create_identity(const std::string &path);
identity identity_from_seed(const key32 &seed);
// The CURVE key that belongs to a peer id; empty result = not a 12D3KooW... id.
result<key32> curve_key_of(std::string_view peer_id);

// The router's CURVE pair: HKDF(secret, "hivenet-zmq-curve-v1", "router-server-key").
struct curve_pair {
  key32 public_key{};
  key32 secret_key{};
};
curve_pair router_keys(std::string_view secret);

// Secrets from a file or variable: one a line, trimmed of white space and BOM, at least 32 bytes each.
result<std::vector<std::string>> parse_secrets(std::string_view text, std::string_view where);

}  // namespace hive::link
