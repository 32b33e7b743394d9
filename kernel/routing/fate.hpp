// What keeps each agent of a pool from a step, gate by gate (routing sheet section 8): for the exhaustion line and for explain.
// Requires the pool's lock throughout; looks only, but uses the lane's buffers and asks custom gates. Allocates.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "routing/funnel.hpp"

namespace hive::routing {

struct row_fate {
  funnel_gate gate = funnel_gate::none;  // the first that keeps it out; none = nothing does
  std::string token;                     // in the words of the exhaustion line
};

class fates {
 public:
  // All borrowed. `selection.request.now_ns` is the moment that counts.
  fates(const fleet::pool &, lane &, step &, const selection &);

  // Requires: the slot is not empty.
  row_fate of(uint32_t index);
  // Fields of the step that this agent violates, sorted; thresholds and custom rules alike.
  std::vector<std::string_view> violated(uint32_t index);
  const hive_pool &view() const { return view_; }

 private:
  void ask_gates();

  const fleet::pool &pool_;
  lane::buffers &space_;
  step &step_;
  const selection &sel_;
  hive_pool view_;
  std::vector<std::vector<uint32_t>> verdicts_;  // of each custom gate, once it was asked
};

}  // namespace hive::routing
