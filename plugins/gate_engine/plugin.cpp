#include "hive/sdk/gate.hpp"

namespace {

using hive::sdk::field;

// Keeps agents out by what their engine says of itself. Thresholds only: the router evaluates them, there is no code here.
// The two that may shed are those whose mean over a pool says that the whole pool is full.
struct engine_gate {
  static constexpr std::string_view id = "engine";
  static constexpr std::string_view summary = "cache, queue and latencies of an agent's engine";
  static constexpr std::array fields{
      field("kv_cache_utilization", "fraction", "kv_cache_utilization", "key-value cache in use, 0..1", 0, 1, HIVE_FIELD_SHED),
      field("running_requests", "count", "running_requests", "requests the engine works on", 0, 1e6),
      field("waiting_requests", "count", "waiting_requests", "requests in the engine's own queue", 0, 1e6, HIVE_FIELD_SHED),
      field("avg_ttft_seconds", "s", "avg_ttft_seconds", "time to the first token, mean", 0, 3600),
      field("p90_ttft_seconds", "s", "p90_ttft_seconds", "time to the first token, 90th percentile", 0, 3600),
      field("avg_itl_seconds", "s", "avg_itl_seconds", "time between two tokens, mean", 0, 3600),
      field("p90_itl_seconds", "s", "p90_itl_seconds", "time between two tokens, 90th percentile", 0, 3600),
  };
};

}  // namespace

HIVE_PLUGIN("gate_engine", "1.0.0", "hivenet", "Apache-2.0", hive::sdk::gate<engine_gate>)
