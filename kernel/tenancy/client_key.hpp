// A client's key as the router knows it: its hash, whose it is, and what it may ask for. The key itself is never kept.
// Immutable once its keyring is made; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.hpp"

namespace hive::tenancy {

inline constexpr uint64_t never_expires = UINT64_MAX;

// What one model of a quota of the shape per_model allows; 0 = no limit.
struct model_quota {
  std::string model;
  uint64_t requests_per_minute_per_replica = 0;  // times the healthy agents that serve the model
  uint64_t tokens_per_day = 0;

  bool operator==(const model_quota &) const = default;
};

// The largest limits among the usable keys of a tenant, which share them. The keyring makes them of all its keys; a key outside of
// one has none.
struct tenant_limits {
  uint64_t requests_per_minute = 0, tokens_per_day = 0;  // flat ones
  std::shared_ptr<const std::vector<model_quota>> per_model;  // sorted by model; null = no key has any

  bool operator==(const tenant_limits &) const = default;
};

struct client_key {
  digest32 hash{};                          // SHA-256 of the whole key text
  std::string id;                           // for audit and metrics: the first 12 hex digits of the hash, in mode dynamic the
                                            // id of the entry; "" in mode none
  std::string preview;                      // "sk-...abcd", for people; may be ""
  std::string name;
  std::string tenant;                       // metadata.owner; "default" in mode none
  bool enabled = true;
  uint64_t expires_unix_ms = never_expires; // dead from this instant on
  std::vector<std::string> models;          // sorted exact ids; empty = every model, later ones included
  bool per_model_quota = false;             // `models` are the keys of quota.per_model
  // 0 = no limit. The flat ones are shared by all keys of the tenant; all are 0 when per_model_quota.
  uint64_t requests_per_minute = 0;
  uint64_t tokens_per_day = 0;
  std::vector<model_quota> per_model;       // sorted by model; as many as `models` when per_model_quota, else empty
  // Requests under way at once, of this key and of this key to one model; 0 = no limit. One more waits in the model's queue, or
  // is answered 429.
  uint32_t max_parallel_requests = 0;
  uint32_t max_parallel_requests_per_model = 0;
  bool parallel_waits = false;
  tenant_limits of_tenant;                  // set by the keyring
  int32_t priority = 0;                     // among requests that wait for one model; higher first
  // On models whose policy says serverless; 0 = none.
  double max_occupancy_share = 0;           // of the model's token budget, (0, 1]
  uint64_t input_tokens_per_minute = 0;
  uint64_t output_tokens_per_minute = 0;

  // The one rule of all routes (docs/keys.md): what may be used may be seen, and nothing else.
  bool may_use(std::string_view model) const {
    return models.empty() || std::binary_search(models.begin(), models.end(), model);
  }
  bool usable_at(uint64_t unix_ms) const { return enabled && unix_ms < expires_unix_ms; }
  bool operator==(const client_key &) const = default;
};

}  // namespace hive::tenancy
