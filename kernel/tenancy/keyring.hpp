// All client keys of one moment. Immutable: a reload makes another one and gives it to every worker, which swaps its pointer
// on its own loop. So a lookup takes no lock and shares no cache line that anybody writes. Any thread may read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "http/message.hpp"
#include "tenancy/client_key.hpp"

namespace hive::tenancy {

enum class auth_mode : uint8_t { none, api_key, dynamic };

// Why nobody was let in. For operators alone: outside all but the last look the same.
enum class denial : uint8_t {
  none,
  no_key,           // no credential, or what can be no key: another scheme, too long
  unknown_key,
  disabled_key,
  expired_key,
  two_credentials,  // the request holds two that differ; neither was looked up
};
inline constexpr size_t denials = static_cast<size_t>(denial::two_credentials) + 1;
std::string_view to_string(denial);  // a label of metrics and in audit; "" of none

// Keeps its keyring alive, so that a request ends with the rights it began with.
using caller = std::shared_ptr<const client_key>;

// Whose request it is. Whether there is room for it is asked later (admission_control.hpp).
struct identified {
  caller who;                       // null when denied
  denial why = denial::none;
  bool looked_up = false;           // a credential was compared with the keys
};

class keyring : public std::enable_shared_from_this<keyring> {
 public:
  // Mode none: everybody is tenant "default" and may use everything.
  static std::shared_ptr<const keyring> open_to_all();
  // Mode api-key or dynamic. Hashes must differ. Gives each key that has none its id. What has expired at `now_unix_ms` has no part
  // in the limits that a tenant's keys share; one that expires later has it until the next ring.
  static std::shared_ptr<const keyring> of(std::vector<client_key> keys, auth_mode mode = auth_mode::api_key, uint64_t now_unix_ms = 0);

  auth_mode mode() const { return mode_; }
  std::span<const client_key> keys() const { return keys_; }
  uint64_t made_unix_ms() const { return made_unix_ms_; }

  // The key with that hash, whatever its state; null when there is none. No allocation. The table is found by the digest's
  // own bits, which says nothing about a key to whoever cannot invert SHA-256; the digests are compared in constant time.
  const client_key *find(const digest32 &hash) const;
  // Whose key a request's header fields hold, and whether it may be used. `unix_ms` is now.
  identified identify(std::span<const http::field> fields, uint64_t unix_ms) const;

 private:
  keyring(auth_mode mode, std::vector<client_key> keys, uint64_t now_unix_ms);
  void name_keys();

  auth_mode mode_;
  std::vector<client_key> keys_;
  uint64_t made_unix_ms_;
  std::vector<uint32_t> slots_;     // open addressing, a power of two; index + 1, 0 = free
};

// For each owner whose usable keys differ in the limits that all of them share, flat ones or those of a model: two of those keys.
std::vector<std::pair<const client_key *, const client_key *>> unequal_limits(const keyring &);

}  // namespace hive::tenancy
