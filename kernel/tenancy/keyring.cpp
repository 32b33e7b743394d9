#include "tenancy/keyring.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/text.hpp"
#include "tenancy/credential.hpp"

namespace hive::tenancy {

namespace {

constexpr size_t shortest_id = 12;

size_t place_of(const digest32 &hash) {
  size_t bits;
  std::memcpy(&bits, hash.data(), sizeof bits);
  return bits;
}

void share_limits(std::vector<client_key> &keys, uint64_t now_unix_ms) {
  struct tenant {
    tenant_limits limits;
    std::map<std::string_view, model_quota> models;
  };
  std::unordered_map<std::string_view, tenant> largest;
  for (const client_key &key : keys) {
    if (!key.usable_at(now_unix_ms)) continue;
    tenant &of = largest[key.tenant];
    of.limits.requests_per_minute = std::max(of.limits.requests_per_minute, key.requests_per_minute);
    of.limits.tokens_per_day = std::max(of.limits.tokens_per_day, key.tokens_per_day);
    for (const model_quota &q : key.per_model) {
      model_quota &most = of.models.try_emplace(q.model, model_quota{q.model, 0, 0}).first->second;
      most.requests_per_minute_per_replica = std::max(most.requests_per_minute_per_replica, q.requests_per_minute_per_replica);
      most.tokens_per_day = std::max(most.tokens_per_day, q.tokens_per_day);
    }
  }
  for (auto &[name, of] : largest) {
    if (of.models.empty()) continue;
    std::vector<model_quota> sorted;
    sorted.reserve(of.models.size());
    for (const auto &[model, most] : of.models) sorted.push_back(most);
    of.limits.per_model = std::make_shared<const std::vector<model_quota>>(std::move(sorted));
  }
  for (client_key &key : keys) key.of_tenant = largest[key.tenant].limits;
}

bool same_limits(const model_quota &a, const model_quota &b) {
  return a.requests_per_minute_per_replica == b.requests_per_minute_per_replica && a.tokens_per_day == b.tokens_per_day;
}

}  // namespace

std::string_view to_string(denial why) {
  switch (why) {
    case denial::none: return "";
    case denial::no_key: return "no_key";
    case denial::unknown_key: return "unknown_key";
    case denial::disabled_key: return "disabled_key";
    case denial::expired_key: return "expired_key";
    case denial::two_credentials: return "two_credentials";
  }
  return "unknown";
}

keyring::keyring(auth_mode mode, std::vector<client_key> keys, uint64_t now_unix_ms)
    : mode_(mode), keys_(std::move(keys)), made_unix_ms_(now_unix_ms) {
  if (mode_ == auth_mode::none) return;
  slots_.resize(std::bit_ceil(2 * keys_.size() + 1));
  const size_t mask = slots_.size() - 1;
  share_limits(keys_, now_unix_ms);
  name_keys();
  for (size_t i = 0; i < keys_.size(); ++i) {
    assert(find(keys_[i].hash) == nullptr);
    size_t at = place_of(keys_[i].hash) & mask;
    while (slots_[at] != 0) at = (at + 1) & mask;
    slots_[at] = static_cast<uint32_t>(i + 1);
  }
}

void keyring::name_keys() {
  std::set<std::string> ids;
  for (client_key &key : keys_) {
    if (!key.id.empty()) continue;
    const std::string hex = to_hex(key.hash);
    size_t length = shortest_id;
    while (!ids.insert(hex.substr(0, length)).second) ++length;
    key.id = hex.substr(0, length);
  }
}

std::shared_ptr<const keyring> keyring::open_to_all() {
  client_key everybody;
  everybody.tenant = "default";
  return std::shared_ptr<const keyring>(new keyring(auth_mode::none, {std::move(everybody)}, 0));
}

std::shared_ptr<const keyring> keyring::of(std::vector<client_key> keys, auth_mode mode, uint64_t now_unix_ms) {
  assert(mode != auth_mode::none);
  return std::shared_ptr<const keyring>(new keyring(mode, std::move(keys), now_unix_ms));
}

const client_key *keyring::find(const digest32 &hash) const {
  if (slots_.empty()) return nullptr;
  const size_t mask = slots_.size() - 1;
  for (size_t at = place_of(hash) & mask; slots_[at] != 0; at = (at + 1) & mask) {
    const client_key &key = keys_[slots_[at] - 1];
    if (equal_secret(key.hash, hash)) return &key;
  }
  return nullptr;
}

identified keyring::identify(std::span<const http::field> fields, uint64_t unix_ms) const {
  if (mode_ == auth_mode::none) return {caller(shared_from_this(), keys_.data()), denial::none, false};
  const credential given = credential_of(fields);
  if (given.conflicting) return {nullptr, denial::two_credentials, false};
  if (given.token.empty()) return {nullptr, denial::no_key, false};
  const client_key *key = find(sha256(given.token));
  if (key == nullptr) return {nullptr, denial::unknown_key, true};
  if (!key->usable_at(unix_ms)) return {nullptr, key->enabled ? denial::expired_key : denial::disabled_key, true};
  return {caller(shared_from_this(), key), denial::none, true};
}

std::vector<std::pair<const client_key *, const client_key *>> unequal_limits(const keyring &ring) {
  struct owner {
    const client_key *flat = nullptr;  // its first one
    std::map<std::string_view, std::pair<const client_key *, const model_quota *>> models;  // the first that names each
    bool told = false;
  };
  std::map<std::string_view, owner> owners;
  std::vector<std::pair<const client_key *, const client_key *>> out;
  for (const client_key &key : ring.keys()) {
    if (!key.usable_at(ring.made_unix_ms())) continue;
    owner &of = owners[key.tenant];
    if (of.told) continue;
    const client_key *other = nullptr;
    if (key.per_model_quota) {
      for (const model_quota &q : key.per_model) {
        const auto [seen, fresh] = of.models.try_emplace(q.model, &key, &q);
        if (!fresh && !same_limits(*seen->second.second, q)) other = seen->second.first;
      }
    } else if (of.flat == nullptr) {
      of.flat = &key;
    } else if (key.requests_per_minute != of.flat->requests_per_minute || key.tokens_per_day != of.flat->tokens_per_day) {
      other = of.flat;
    }
    if (other == nullptr) continue;
    of.told = true;
    out.emplace_back(other, &key);
  }
  return out;
}

}  // namespace hive::tenancy
