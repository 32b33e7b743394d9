// The line of requests that wait for a slot of one pool (docs/waiting.md). Tickets keep their number over retries; a freed
// slot is offered by a wake, a message to the ticket's loop, and taken there by running the funnel again. Nobody selects
// on behalf of another worker's request.
//
// Lock: the pool's. `enter`, `run`, `cancel` take it; the watcher calls come with it held. post_fn is called with no pool
// lock held, but maybe with others': it may only queue.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "fleet/pool.hpp"

namespace hive::routing {

enum class verdict {
  chosen,    // `index` may be taken
  full,      // some agent fits and is stopped by capacity alone
  none,      // nobody could serve it: the step must advance
};

struct funnel_result {
  verdict what = verdict::none;
  uint32_t index = 0;
};

// A column that a rule with max_age reads.
struct aged_column {
  hive_column id = 0;
  uint64_t max_age_ns = 0;
  bool operator==(const aged_column &) const = default;
};

// One request in one step. Every call but on_wake is made with the pool's lock held and may not block.
class candidate_finder {
 public:
  virtual funnel_result find(fleet::pool &) = 0;
  // The slot of `index` is taken; tell the instances (on_choice).
  virtual void on_taken(fleet::pool &, uint32_t index) = 0;
  // Its first funnel in this entry found agents and none of them free: for counters.
  virtual void on_full(fleet::pool &) {}
  // A wake arrived for this ticket. Posted to the ticket's loop, never inline, no lock held.
  virtual void on_wake(uint64_t generation) = 0;
  // Whether the agent at `index` fits this request when capacity is left aside. Asked of agents that went to a later ticket
  // while this one's wake was on its way; "true" for too many costs throughput, "false" for one that fits costs fairness.
  virtual bool fits(fleet::pool &, uint32_t index) { return (void)index, true; }
  // Columns its gates read; a write to one of them re-checks this ticket. Asked once, when it starts to wait.
  virtual bool reads(hive_column) const { return false; }
  // Whether a *rise* of this column (load, capacity_utilization) can let an agent in: an lt or lte rule on it.
  virtual bool reads_rise(hive_column) const { return false; }
  // Values of which its gates judge the age: their verdict changes by time alone. Asked once, when it starts to wait; the span
  // holds while it waits.
  virtual std::span<const aged_column> ages() const { return {}; }

 protected:
  ~candidate_finder() = default;
};

struct ticket_class {
  int32_t priority = 0;        // higher first
  std::string_view tenant;     // deficit round robin between tenants of one priority; read while it enters only
  uint64_t cost = 1;           // tokens; charged to the tenant at the grant only
  uint64_t deadline_ns = 0;    // a request that cannot get a slot before it does not wait; 0 = none
  uint64_t tokens = 0;         // what pool::take is told; the lease must be told the same
};

enum class entered {
  taken,      // a slot is held; index in ticket::index
  waiting,    // on_wake will come; then call run
  advance,    // nobody fits, the line is full, or it is too long: go to the next step
};

// Why a ticket for which somebody would fit was not let into the line.
enum class line_refusal : uint8_t {
  none,
  full,       // as many wait as may
  late,       // those before it would take all its time
};

class waiting_line;

// Kept by its request for as long as the step lasts; destroying it leaves the line. Not thread-safe: owner's loop only.
// The line and its pool outlive it.
class ticket {
 public:
  ticket() = default;
  ~ticket();
  ticket(const ticket &) = delete;
  uint32_t index() const;         // after entered::taken
  bool waiting() const;
  uint64_t waited_ns() const;     // of the last wait that ended
  // After entered::advance. retry_after_ns: when asking again makes sense, by the line's own speed; 0 = not known.
  line_refusal refused() const;
  uint64_t retry_after_ns() const;

 private:
  friend class waiting_line;
  struct state;
  std::shared_ptr<state> state_;
};

// How a wake reaches the ticket's loop: runs `f` there later. Any thread, no lock held. It may be called after the ticket is
// gone (the wake was decided before the cancel), so it refers to the loop and never to the request.
using post_fn = std::function<void(std::function<void()>)>;

struct line_limits {
  size_t depth = 30;                     // --queue-depth; 0 = nobody waits
  size_t bytes = 64u << 20;              // --queue-bytes; request bodies held by the waiting
  bool tenant_fairness = false;
};

struct line_stats {
  uint64_t depth = 0;
  uint64_t bytes = 0;
  uint64_t entered = 0;
  uint64_t granted_after_wait = 0;
  uint64_t refused_full = 0;
  uint64_t refused_late = 0;
  uint64_t gap_ns = 0;              // mean time between two slots for those who wait; 0 = not known
  uint64_t wakes = 0;
};

class waiting_line final : public fleet::pool_watcher {
 public:
  // `clock` null = the system's; it outlives the line.
  waiting_line(fleet::pool &, const line_limits &, const clock_source *clock = nullptr);
  ~waiting_line() override;

  // First entry of a step, or re-entry after a failed attempt (the ticket keeps its number). `may_wait` false: only take.
  entered enter(ticket &, candidate_finder &, const ticket_class &, size_t body_bytes, post_fn, bool may_wait);
  // After on_wake; every on_wake must be followed by it, or by cancel, soon: the slot it was sent for waits meanwhile.
  // `generation` must be the one of the wake; a stale one answers waiting.
  entered run(ticket &, uint64_t generation);
  // Leaves the line, whatever the state; idempotent. O(1), but for the settling.
  void cancel(ticket &);
  line_stats stats() const;

  void on_more_slots() override;
  void on_standing_changed() override;
  bool settle() override;
  void take_deferred(fleet::deferred_calls &out) override;
  bool reads(hive_column, bool load_went_up) const override;
  uint64_t shortest_max_age(hive_column) const override;
  bool changed_by_time(uint64_t now_ns) override;

 private:
  friend class ticket;
  void forget(ticket &);         // cancels and takes its state back

  class impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace hive::routing
