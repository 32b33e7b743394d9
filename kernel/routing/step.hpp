// A policy step compiled for one pool: columns bound, instances made, the static part of its filter cached per epoch.
// Compiled by the control thread; afterwards everything that is not const is guarded by the pool's lock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "fleet/pool.hpp"
#include "routing/instance.hpp"
#include "routing/policy.hpp"
#include "routing/thresholds.hpp"

namespace hive::routing {

// A gate that judges custom rules of this step itself.
struct custom_gate {
  std::shared_ptr<instance> gate;
  uint32_t mask = 0;                                          // bits of the fields this step uses
  std::vector<std::pair<uint32_t, std::string>> fields;       // bit, name
};

// "any" asks nothing of an agent.
inline bool can_do(const fleet::agent_info &info, std::string_view capability) {
  return capability == "any" || info.capability == capability;
}

class step {
 public:
  struct surroundings {
    component_source &source;
    instance_store &instances;
    fleet::column_table &columns;
    std::shared_ptr<lane> where;
    uint32_t default_tries = 3;
  };
  // Errors name the step and the component; nothing is left behind but unused instances in the store.
  static result<std::shared_ptr<step>> compile(const policy_document &, size_t index, const surroundings &);

  const std::string &name() const { return name_; }
  uint32_t max_tries() const { return max_tries_; }
  uint64_t max_queue_wait_ns() const { return max_queue_wait_ns_; }  // 0 = as long as the request has time
  const match_filter &match() const { return match_; }
  bool exclude_on_error() const { return exclude_on_error_; }
  // Every threshold as it holds for a request of that kind. Fields and columns are the same for each; what a rule with `leave`
  // remembers is not where it reads a latency.
  const std::vector<bound_rule> &rules(fleet::request_kind kind = fleet::request_kind::chat) const { return rules_[fleet::index_of(kind)]; }
  threshold_rules &thresholds() { return thresholds_; }       // those that hold alike for every kind of request
  threshold_rules &thresholds(fleet::request_kind kind) { return by_kind_[fleet::index_of(kind)]; }   // of live columns, so without age
  const std::vector<custom_gate> &gates() const { return gates_; }
  instance &strategy() const { return *strategy_; }
  // Whether a change of the column, or only its rise, can change a verdict of this step.
  bool reads(hive_column) const;
  bool reads_rise(hive_column) const;
  hive_column load() const { return load_; }
  uint32_t needs() const { return needs_; }            // HIVE_NEEDS_* of its components

  // Requires: the pool's lock. One byte a slot: an agent is there, has the capability and matches.
  const uint8_t *fits(const fleet::pool &, std::string_view capability);

  // The last explanation of an empty result in a large pool: under a flood it is given again instead of made again, to requests
  // of the same capability and kind.
  struct explanation {
    uint64_t made_ns = 0;             // 0 = there is none
    fleet::request_kind kind{};
    uint8_t gate = 0;
    std::string detail;
  };
  explanation &explained(std::string_view capability) { return known_of(capability).explained; }  // requires the pool's lock

 private:
  struct known {
    std::string capability;
    uint64_t epoch = 0;
    std::vector<uint8_t> fits;
    explanation explained;
  };
  known &known_of(std::string_view capability);

  void bind_threshold(const field_rule &, hive_column, const instance_store::place &);
  status bind_gates(const policy_step &, const instance_store::place &, const surroundings &);

  std::string name_;
  uint32_t max_tries_ = 3;
  uint64_t max_queue_wait_ns_ = 0;
  match_filter match_;
  bool exclude_on_error_ = false;
  std::array<std::vector<bound_rule>, fleet::all_kinds.size()> rules_;
  threshold_rules thresholds_;
  std::array<threshold_rules, fleet::all_kinds.size()> by_kind_;
  std::vector<custom_gate> gates_;
  bool reads_all_ = false;
  uint32_t needs_ = 0;
  hive_column load_ = 0;              // the kernel's own, for its own order
  std::shared_ptr<instance> strategy_;
  std::vector<known> known_;          // one a capability
  size_t next_known_ = 0;             // which one a new capability replaces
};

}  // namespace hive::routing
