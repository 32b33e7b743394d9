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

void share_limits(std::vector<client_key> &keys) {
  std::unordered_map<std::string_view, tenant_limits> largest;
  for (const client_key &key : keys) {
    if (!key.enabled) continue;
    tenant_limits &of = largest[key.tenant];
    of.requests_per_minute = std::max(of.requests_per_minute, key.requests_per_minute);
    of.tokens_per_day = std::max(of.tokens_per_day, key.tokens_per_day);
  }
  for (client_key &key : keys) key.of_tenant = largest[key.tenant];
}

}  // namespace

keyring::keyring(auth_mode mode, std::vector<client_key> keys) : mode_(mode), keys_(std::move(keys)) {
  if (mode_ == auth_mode::none) return;
  slots_.resize(std::bit_ceil(2 * keys_.size() + 1));
  const size_t mask = slots_.size() - 1;
  share_limits(keys_);
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
  return std::shared_ptr<const keyring>(new keyring(auth_mode::none, {std::move(everybody)}));
}

std::shared_ptr<const keyring> keyring::of(std::vector<client_key> keys, auth_mode mode) {
  assert(mode != auth_mode::none);
  return std::shared_ptr<const keyring>(new keyring(mode, std::move(keys)));
}

const client_key *keyring::find(const digest32 &hash) const {
  if (slots_.empty()) return nullptr;
  const size_t mask = slots_.size() - 1;
  for (size_t at = place_of(hash) & mask; slots_[at] != 0; at = (at + 1) & mask) {
    const client_key &key = keys_[slots_[at] - 1];
    if (equal_secret(as_text(key.hash), as_text(hash))) return &key;
  }
  return nullptr;
}

admission keyring::admit(std::span<const http::field> fields, uint64_t unix_ms) const {
  if (mode_ == auth_mode::none) return {caller(shared_from_this(), keys_.data()), denial::none, false};
  const credential given = credential_of(fields);
  if (given.conflicting) return {nullptr, denial::two_credentials, false};
  if (given.token.empty()) return {nullptr, denial::refused, false};
  const client_key *key = find(sha256(given.token));
  if (key == nullptr || !key->usable_at(unix_ms)) return {nullptr, denial::refused, true};
  return {caller(shared_from_this(), key), denial::none, true};
}

std::vector<std::pair<const client_key *, const client_key *>> unequal_limits(const keyring &ring) {
  std::map<std::string_view, std::pair<const client_key *, bool>> first;  // of each owner, and whether it was told
  std::vector<std::pair<const client_key *, const client_key *>> out;
  for (const client_key &key : ring.keys()) {
    if (!key.enabled || key.per_model_quota) continue;
    const auto [seen, fresh] = first.try_emplace(key.tenant, &key, false);
    const client_key &other = *seen->second.first;
    if (fresh || seen->second.second) continue;
    if (key.requests_per_minute == other.requests_per_minute && key.tokens_per_day == other.tokens_per_day) continue;
    seen->second.second = true;
    out.emplace_back(&other, &key);
  }
  return out;
}

}  // namespace hive::tenancy
