// What keeps each agent of a pool from a step, gate by gate (docs/policy.md): for the exhaustion line and for explain.
// Requires the pool's lock but where it says otherwise; looks only, but uses the lane's buffers and asks custom gates. Allocates.
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
  // All borrowed; the lock is not needed to make one. `selection.request.now_ns` is the moment that counts.
  fates(const fleet::pool &, lane &, step &, const selection &);
  void see() { view_ = pool_.view(sel_.kind); }     // before anything is asked

  // Requires: the slot is not empty. The gate without its words, which cost more than the judgement.
  funnel_gate gate_of(uint32_t index);
  row_fate of(uint32_t index);
  // Fields of custom rules that this agent violates, as far as it came to that. Also without the lock, while the step lives.
  std::vector<std::string_view> custom_violated(uint32_t index) const;
  const hive_pool &view() const { return view_; }

 private:
  bool passes(uint32_t index);
  void ask_gates();

  const fleet::pool &pool_;
  lane::buffers &space_;
  step &step_;
  const selection &sel_;
  hive_pool view_{};
  std::vector<std::vector<uint32_t>> verdicts_;  // of each custom gate, once it was asked
};

// Violated fields as the token of gate 7 writes them.
std::string joined(std::vector<std::string_view> fields);
// What the words of one gate are, but for those of match and exclude_if, which say more than their gate.
std::string_view token_of(funnel_gate);
// Fates of all agents of a step that nobody passed; without any the model has no agents. No lock.
emptiness emptiness_of(std::vector<row_fate>);

}  // namespace hive::routing
