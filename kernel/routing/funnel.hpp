// The candidate funnel of one step over one pool (docs/policy.md): who may take the request, which of them does, and,
// when nobody may, why. Requires the pool's lock throughout; no allocation unless it explains.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/pool.hpp"
#include "hive/abi/views.h"
#include "routing/lane.hpp"
#include "routing/queue.hpp"
#include "routing/step.hpp"

namespace hive::routing {

// One request as the funnel sees it. The lists are short; their agents are kept alive by the session.
struct selection {
  hive_request request{};
  std::string_view capability;
  fleet::request_kind kind = fleet::request_kind::chat;
  std::vector<const fleet::agent *> failed;    // in this step
  std::vector<const fleet::agent *> barred;    // for this request
  std::vector<const fleet::agent *> avoided;   // taken only if nobody else may
  uint32_t held = 0;                           // out: stopped by capacity alone
};

inline bool listed(const std::vector<const fleet::agent *> &list, const fleet::agent *who) {
  return std::find(list.begin(), list.end(), who) != list.end();
}

// Fills now_ns and tie_seed of the request. `full`: somebody passed gates 1 to 5, none is free.
funnel_result run_funnel(const fleet::pool &, lane &, step &, selection &);

// Behind gate 7: one that failed again and again is asked when its next probe is due, and before that only if there is nobody else.
// Clears its `keep` and answers how many of `count` are left. `early` is scratch, a number a slot: when a probe is due may change
// under way, so each is asked once.
uint32_t leave_suspects(const fleet::pool &, uint64_t now_ns, uint8_t *keep, uint32_t *early, uint32_t count);

// Every agent that only its capacity keeps out counts one `rejected`. Gates 7 and 8 are not asked. Uses the lane's buffers.
void count_refused(fleet::pool &, lane &, step &, const selection &);

// The static gates and the thresholds for one agent, capacity aside (custom rules are taken to pass).
bool fits_but_for_capacity(const fleet::pool &, step &, const selection &, uint32_t index);

// The gates in their order; gate 8 is the strategy that chose nobody.
enum class funnel_gate : uint8_t { none = 0, model_filter, health, capability, match, prev_failures, capacity, exclude_if, strategy };
std::string_view to_string(funnel_gate);

// Why a step came back empty.
struct emptiness {
  funnel_gate last = funnel_gate::none;        // the gate that left nobody
  std::string detail;                          // tokens, one a reason, with how many agents: "unhealthy=1, at_capacity=2"
  std::string text() const;                    // gate[4] match [engine(got="",want="vllm")=2]
};
emptiness explain_empty(const fleet::pool &, lane &, step &, selection &);

}  // namespace hive::routing
