// Why a request would go where it would go: what every agent's fate is in every step of the policy, at this moment. Looks only:
// no slot is taken, no instance hears of a choice, no rule with hysteresis moves. What is said may be outdated when it is read.
//
// Control thread. Takes the pool's lock once a step to judge and to copy what it saw; all text is made after it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fleet/pool.hpp"
#include "routing/funnel.hpp"
#include "routing/policy.hpp"
#include "routing/session.hpp"
#include "routing/snapshot.hpp"
#include "routing/thresholds.hpp"

namespace hive::routing {

struct rule_fate {
  std::string field;
  std::string column;
  threshold bound;
  threshold_rules::state now;
};

struct agent_fate {
  std::string peer_id;
  std::string machine;
  uint32_t active = 0;                      // as its pool sees it
  uint32_t capacity = 0;
  funnel_gate stopped = funnel_gate::none;  // none: a candidate, unless it was left
  std::string token;                        // in the words of the exhaustion line; "" for a candidate
  std::vector<rule_fate> rules;             // every threshold of the step, violated or not
  std::vector<std::string> custom;          // fields of custom rules that it violates
  std::optional<double> score;              // the strategy's, lower is better; only if it tells
  bool chosen = false;
  bool left = false;                        // on probation, its probe is not due, and others are candidates: not asked this time
  std::string change;                       // what would have to be different; "" for a candidate that was asked
};

struct step_fate {
  std::string name;
  std::string strategy;
  uint32_t max_tries = 0;
  uint32_t candidates = 0;
  bool would_wait = false;                  // nobody is free, and somebody only has no free slot: it would wait in the queue
  std::string empty;                        // gate[n] ...; "" when there is a candidate
  std::vector<agent_fate> agents;           // in the pool's order, at most `most_explained_agents`, the chosen one always
  uint32_t left_out = 0;
};

struct explanation {
  bool known = false;                       // some agent serves the model, or served it
  std::string policy;                       // name of the document, "" = the global one
  bool built_in = false;
  std::vector<step_fate> steps;             // all of the chain, also those behind the one that serves
  std::optional<size_t> serves;             // the first with a candidate, or in which it would wait
};

inline constexpr size_t most_explained_agents = 1000;

explanation explain(const snapshot &, const request_facts &, const fleet::column_table &);

}  // namespace hive::routing
