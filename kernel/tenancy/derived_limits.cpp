#include "tenancy/derived_limits.hpp"

#include <algorithm>
#include <cmath>

namespace hive::tenancy {

namespace {

constexpr double least_share = 0.40;
constexpr uint64_t requests_a_slot = 2;  // a minute

uint64_t part_of(double share, uint64_t whole) { return static_cast<uint64_t>(std::floor(share * static_cast<double>(whole))); }

}  // namespace

derived_limits derive_limits(const model_abilities &m) {
  derived_limits out;
  out.requests_per_minute = requests_a_slot * m.sellable_requests;
  if (m.admit_budget_tokens == 0 || m.max_model_len == 0) return out;
  const double context = static_cast<double>(m.max_model_len) / static_cast<double>(m.admit_budget_tokens);
  out.max_occupancy_share = std::min(1.0, std::max(context, least_share));
  // Two of the longest prompts a minute, unless the model itself has not that much to sell.
  out.input_tokens_per_minute =
      std::min(m.input_tokens_a_minute, std::max(part_of(out.max_occupancy_share, m.input_tokens_a_minute), 2 * m.max_input_tokens));
  out.output_tokens_per_minute = part_of(out.max_occupancy_share, m.output_tokens_a_minute);
  return out;
}

}  // namespace hive::tenancy
