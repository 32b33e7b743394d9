// Limits of a key on a serverless model, proposed from what the model can do (docs/admission.md). A help for whoever writes
// auth.yaml: nothing applies them. Pure.
#pragma once

#include <cstdint>

namespace hive::tenancy {

// What a deployment was measured to hold and to sell; 0 = not known, and what needs it is not proposed.
struct model_abilities {
  uint64_t admit_budget_tokens = 0;      // of the policy, a replica
  uint64_t max_model_len = 0;            // tokens of the longest context
  uint64_t max_input_tokens = 0;         // of the policy
  uint64_t input_tokens_a_minute = 0;    // the most that may be sold, all keys together
  uint64_t output_tokens_a_minute = 0;
  uint64_t sellable_requests = 0;        // at once
};

struct derived_limits {
  double max_occupancy_share = 0;        // (0, 1]; every field 0 = not proposed
  uint64_t input_tokens_per_minute = 0;
  uint64_t output_tokens_per_minute = 0;
  uint64_t requests_per_minute = 0;
};

derived_limits derive_limits(const model_abilities &);

}  // namespace hive::tenancy
