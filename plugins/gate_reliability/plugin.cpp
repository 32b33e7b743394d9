#include "hive/sdk/gate.hpp"

namespace {

using hive::sdk::field;

// Keeps agents out by what this router saw of them. Thresholds only: the router evaluates them, there is no code here.
struct reliability_gate {
  static constexpr std::string_view id = "reliability";
  static constexpr std::string_view summary = "use of an agent's slots, and how often it failed";
  static constexpr std::array fields{
      field("capacity_utilization", "fraction", "capacity_utilization", "slots in use / declared capacity, 0..1", 0, 1),
      field("success_rate", "fraction", "success_rate", "answered / all attempts of its life, 0..1", 0, 1),
      field("success_rate_5m", "fraction", "success_rate_5m", "answered / all attempts of the last 5 minutes, 0..1", 0, 1),
      field("consecutive_failures", "count", "consecutive_failures", "attempts that failed since the last answered one", 0, 1e6),
  };
};

}  // namespace

HIVE_PLUGIN("gate_reliability", "1.0.0", "hivenet", "Apache-2.0", hive::sdk::gate<reliability_gate>)
