// The routing engine of a router process: policies, the pools they govern, and sessions over them.
//
// `look_up` and `open` may be called by any worker; `policies` and the stats by any thread; everything else by the control thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.hpp"
#include "base/status.hpp"
#include "fleet/pool.hpp"
#include "routing/explain.hpp"
#include "routing/instance.hpp"
#include "routing/policy.hpp"
#include "routing/session.hpp"
#include "routing/snapshot.hpp"
#include "routing/unpublished.hpp"

namespace hive::routing {

// How an attempt counts for its agent.
enum class standing_effect : uint8_t {
  neutral,   // the client's doing, or a refusal
  success,   // streak to 0
  failure,   // streak + 1
};

struct attempt_outcome {
  const std::shared_ptr<fleet::agent> &who;
  uint64_t generation;       // of the agent when the lease was made
  std::string_view request_id;
  std::string_view model;
  std::string_view tenant;
  std::string_view key_id;
  bool streaming;
  attempt_result what;
  standing_effect effect;
  uint64_t prompt_tokens;
  uint64_t output_tokens;
};

struct latency_sample {
  const std::shared_ptr<fleet::agent> &who;
  uint64_t generation;
  std::string_view request_id;
  fleet::request_kind kind;
  double rtt_ms;             // > 0
};

// Where outcomes go: the fleet's counters, metrics, the log. Called on worker loops, many at once, no lock held.
class outcome_recorder {
 public:
  virtual ~outcome_recorder() = default;
  virtual void on_attempt(const attempt_outcome &) = 0;                  // once a lease
  virtual void on_sample(const latency_sample &) {}                      // at most once a lease, before on_attempt
  virtual void on_content(const std::shared_ptr<fleet::agent> &, uint64_t /*generation*/) {}  // first of a stream, at most once a lease
  virtual void on_queue_wait(std::string_view /*model*/, uint64_t /*ns*/) {}   // waits that ended with a slot
  virtual void on_served(std::string_view /*model*/, bool /*by_fallback*/) {}
  virtual void on_exhausted(std::string_view /*model*/, std::string_view /*tenant*/, std::string_view /*code*/) {}
  virtual void warn(const std::string & /*line*/) {}                     // any thread; for the log "policy"
};

struct router_options {
  line_limits line;
  const clock_source *line_clock = nullptr;   // by which lines measure their speed; null = the system's, it outlives the router
  uint32_t max_tries = 3;              // --max-tries-per-step, >= 1
  double retry_share = 0.2;            // --retry-budget: charged retries in flight over live requests of a model
  uint32_t retry_floor = 3;            // --retry-budget-min: so many are allowed however few are live
  uint64_t retry_delay_ns = 0;         // before the first retry that is charged; retry_pause.hpp
  uint32_t max_forwards = 100;         // of one request, free redials and refusals included
  std::function<status(const provider_choice &)> judge_provider;   // of every document before it is taken; empty: all are good
};

class router {
 public:
  router(component_source &, fleet::column_table &, outcome_recorder &, const router_options &);
  ~router();

  // Compiles the documents for every pool, then swaps; on an error nothing has changed.
  status set_policies(std::shared_ptr<const policy_document> global, snapshot::named_documents named = {});
  std::shared_ptr<const snapshot> policies() const { return cell_.get(); }

  // Before the pool's first agent may be routed to. On an error (a component that cannot be made) the model stays unknown.
  status add_pool(std::shared_ptr<fleet::pool>);
  void remove_pool(std::string_view model);   // of a pool that will not come back
  // Once a second: destroys instances nobody uses any more, warns of components that answered wrongly and of columns that
  // nobody publishes.
  void sweep();

  // Whether some agent serves, or served, that model. Any thread.
  bool knows(std::string_view model) const { return cell_.get()->route_for(model) != nullptr; }
  // Whether some registered agent of that model has that capability, whatever its state. Any thread.
  bool serves(std::string_view model, std::string_view capability) const;
  // What would become of such a request now (explain.hpp). Control thread.
  explanation explain(const request_facts &) const;
  // What rules a request for that model now. Any thread.
  governed look_up(std::string_view model) const { return cell_.get()->of(model); }
  std::unique_ptr<session> open(loop &, const request_facts &, session_events &, governed by);
  std::unique_ptr<session> open(loop &on, const request_facts &facts, session_events &events) { return open(on, facts, events, look_up(facts.model)); }

  struct line_state {
    std::string model;
    line_stats stats;
    uint64_t retries_refused = 0;   // requests that were not tried again for want of retry budget
  };
  std::vector<line_state> lines() const;
  std::vector<unpublished_column> unpublished() const { return unpublished_.list(); }
  std::vector<std::shared_ptr<const instance>> instances() const { return store_.all(); }
  const router_options &options() const { return options_; }

 private:
  status judge_provider(const policy_document &) const;
  result<std::shared_ptr<const route>> compile(const snapshot &, const std::shared_ptr<lane> &);
  void publish(std::shared_ptr<const snapshot>);
  void observe_all(const snapshot &);

  component_source &source_;
  fleet::column_table &columns_;
  outcome_recorder &recorder_;
  const router_options options_;
  instance_store store_;
  snapshot_cell cell_;
  unpublished_columns unpublished_;
  std::map<const instance *, uint64_t> told_errors_;   // already warned of
};

}  // namespace hive::routing
