// A client's key as the router knows it: its hash, whose it is, and what it may ask for. The key itself is never kept.
// Immutable once its keyring is made; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.hpp"

namespace hive::tenancy {

inline constexpr uint64_t never_expires = UINT64_MAX;

struct client_key {
  digest32 hash{};                          // SHA-256 of the whole key text
  std::string id;                           // for audit and metrics: the first 12 hex digits of the hash; "" in mode none
  std::string preview;                      // "sk-...abcd", for people; may be ""
  std::string name;
  std::string tenant;                       // metadata.owner; "default" in mode none
  bool enabled = true;
  uint64_t expires_unix_ms = never_expires; // dead from this instant on
  std::vector<std::string> models;          // sorted exact ids; empty = every model, later ones included
  bool per_model_quota = false;             // `models` are the keys of quota.per_model
  int32_t priority = 0;                     // among requests that wait for one model; higher first
  // On models whose policy says serverless; 0 = none.
  double max_occupancy_share = 0;           // of the model's token budget, (0, 1]
  uint64_t input_tokens_per_minute = 0;
  uint64_t output_tokens_per_minute = 0;

  // The one rule of all routes (HTTP sheet W14): what may be used may be seen, and nothing else.
  bool may_use(std::string_view model) const {
    return models.empty() || std::binary_search(models.begin(), models.end(), model);
  }
  bool usable_at(uint64_t unix_ms) const { return enabled && unix_ms < expires_unix_ms; }
};

}  // namespace hive::tenancy
