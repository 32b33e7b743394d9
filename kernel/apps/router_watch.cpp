// What a router process looks at every second, and says when something is wrong.
#include "apps/router_unit.hpp"
#include "observe/log.hpp"

namespace hive::apps {

void router_app::watch_storage() {
  const uint64_t errors = history_->stats().write_errors.load(std::memory_order_relaxed);
  if (errors != told_write_errors_)
    observe::log("storage").warn("agents' history could not be written {} time(s) since the start; it is kept in memory and tried again", errors);
  told_write_errors_ = errors;
  ready_.storage(!history_->stats().failing.load(std::memory_order_relaxed));
  if (!told_failed_sweep_ && storage_->failed_sweeps() != 0) {
    told_failed_sweep_ = true;
    observe::log("storage").warn("expired records could not be swept away ({}); tried again every few seconds, counted in storage_sweeps_failed_total",
                                 to_string(storage_->sweep_failure()));
  }
}

// At most one line a second of each, whatever knocks.
void router_app::watch_accepting() {
  uint64_t failures = 0, limits = 0;
  for (const auto &u : units_) {
    failures += u->server->counters().accept_failures;
    limits += u->server->counters().limit_reached;
  }
  if (failures != told_accept_failures_)
    observe::log("router").warn("no descriptors or no memory for a new connection, {} time(s) in the last second: clients wait (ulimit -n)",
                                failures - told_accept_failures_);
  if (limits != told_connection_limits_)
    observe::log("router").warn("as many connections as --max-connections and the descriptors allow a worker: new clients wait until others leave");
  told_accept_failures_ = failures;
  told_connection_limits_ = limits;
}

void router_app::sample_drift() {
  const int64_t taken = fleet_->slots_taken();
  int64_t held = stages_.leases.load(std::memory_order_relaxed);
  for (const auto &u : units_)
    if (u->hub) held += static_cast<int64_t>(uint64_t(u->hub->counters().slots_held));
  drift_.sample(taken, held);
}

// New work is refused the moment the budget is exceeded; what runs gets a second to shrink by itself.
void router_app::watch_memory(uint64_t now) {
  if (!memory_.over()) {
    over_budget_since_ns_ = 0;
  } else if (over_budget_since_ns_ == 0) {
    over_budget_since_ns_ = now;
    observe::log("router").warn("{} bytes are held for requests and answers, more than --memory-budget: new requests get 503", memory_.held());
  } else if (now - over_budget_since_ns_ > ns_per_s) {
    for (auto &u : units_)
      u->home.post([unit = u.get()] { unit->gateway->relieve(); });
  }
}

}  // namespace hive::apps
