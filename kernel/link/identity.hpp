// Who an agent is, and a router that has an identity of its own: an Ed25519 key in a file of the libp2p layout (08 01 12 40, 32-byte
// seed, 32-byte public key: 68 bytes, mode 0600). The peer id is the base58 text of 00 24 08 01 12 20 + public key; the CURVE pair
// comes from the same seed. What reads, makes or locks a file blocks on the disk: at the start, one thread. The rest is pure, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
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

// Marks an identity file as in use for as long as it lives, so that two processes of one host do not fight over one identity.
class identity_lock {
 public:
  // Refused (conflict) while another process holds it. Where the file system knows no locks nothing is held.
  static result<identity_lock> take(const std::string &path);
  identity_lock(identity_lock &&o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  identity_lock &operator=(identity_lock &&o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~identity_lock();

 private:
  explicit identity_lock(int fd) : fd_(fd) {}
  int fd_;
};
identity identity_from_seed(const key32 &seed);
// The CURVE key that belongs to a peer id; empty result = not a 12D3KooW... id.
result<key32> curve_key_of(std::string_view peer_id);

// The CURVE pair of a router without an identity file: HKDF(secret, "hivenet-zmq-curve-v1", "router-server-key").
struct curve_pair {
  key32 public_key{};
  key32 secret_key{};
};
curve_pair router_keys(std::string_view secret);

// Secrets from a file or variable: one a line, trimmed of white space and BOM, at least 32 bytes each.
result<std::vector<std::string>> parse_secrets(std::string_view text, std::string_view where);

}  // namespace hive::link
