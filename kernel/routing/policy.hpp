// A policy document: who may serve a model, in which order of preference. A plain value, immutable once published.
// Its keys: docs/policy.md. Parsing, and the order of its checks: policy_text.hpp.
#pragma once

#include <boost/json/fwd.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace hive::fleet {
struct agent_info;
}

namespace hive::routing {

enum class comparison : uint8_t { gt, gte, lt, lte };
std::string_view to_string(comparison);

// Violated when `value op limit` is true. A missing value passes unless `exclude_missing`; one sampled longer ago than
// max_age_ns counts as missing (0 = no limit beside the source's own). An agent that violated it stays out until `value op leave` is
// false too; leave lies on the passing side of the limit.
struct threshold {
  comparison op = comparison::gt;
  double limit = 0;
  bool exclude_missing = false;
  uint64_t max_age_ns = 0;
  std::optional<double> leave{};
};

struct field_rule {
  std::string field;
  std::optional<threshold> bound;  // empty: a custom rule, judged by its gate
  std::string json;                // the rule as written, compact JSON
};

// Exact, case-sensitive; an empty member restricts nothing.
struct match_filter {
  std::string region;
  std::string engine;
  std::string organization;
  std::string machine;
  std::vector<std::string> tags;  // all of them, extras allowed
  std::string gpu_model;
};

bool matches(const match_filter &, const fleet::agent_info &);
// The first thing that does not match, as the exhaustion line writes it: region(got="EU",want="eu"); empty = it matches.
std::string mismatch(const match_filter &, const fleet::agent_info &);

struct strategy_choice {
  std::string name;
  std::string options = "{}";  // compact JSON as written
};

struct policy_step {
  std::string name;
  match_filter match;
  std::vector<field_rule> exclude_if;
  bool exclude_on_error = false;   // on_error: exclude; what a failing custom gate means
  strategy_choice strategy;
  int64_t max_tries = 0;           // <= 0: --max-tries-per-step
  uint64_t max_queue_wait_ns = 0;  // then the next step; 0 = the request's own deadline
};

struct provider_choice {
  std::string engine;
  std::string model;
};

struct policy_document {
  std::string name;                   // empty = the global one
  std::vector<std::string> models;    // ids it claims; meaningless in the global one
  std::string mode = "reserved";      // reserved | serverless
  int64_t max_input_tokens = 0;       // tokens a request; the four caps: 0 = off
  int64_t images_max = 0;
  int64_t admit_budget_tokens = 0;    // tokens a replica
  int64_t max_inflight = 0;           // requests a replica
  std::vector<field_rule> shed_if;
  std::vector<policy_step> steps;     // [0] is routing_policy, the rest fallback_chain
  std::optional<provider_choice> provider;
  bool built_in = false;
};

// One step, every agent, no gates, least-loaded.
std::shared_ptr<const policy_document> default_policy();

// As GET /admin/policy shows it; parsing this text again gives the same document.
boost::json::object to_json(const policy_document &);

// The one place where the kernel knows strategies by name: what old documents may say.
namespace compatibility {
inline constexpr std::string_view default_strategy = "least-loaded";
bool not_implemented(std::string_view strategy);
}  // namespace compatibility

}  // namespace hive::routing
