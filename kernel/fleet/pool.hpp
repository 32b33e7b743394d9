// A pool: all agents that serve one model id, their signals column by column, and the line of requests that wait for
// them. One mutex guards all of it; choosing an agent, taking its slot and settling who wakes are one critical section
// (design: docs/waiting.md). The lock is held for microseconds and never across I/O. No two pool locks are held at once.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/agent.hpp"
#include "hive/abi/views.h"

namespace hive::fleet {

// Interns signal names; process-wide. Any thread.
class column_table {
 public:
  static constexpr size_t limit = 256;
  hive_column intern(std::string_view name);        // 0 when the limit is reached
  hive_column find(std::string_view name) const;    // 0 when unknown
  std::string name(hive_column id) const;
  size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> names_{std::string()};
};

// Ids of the kernel's own columns, interned at start in this order.
struct kernel_columns {
  hive_column active_requests, capacity, load, capacity_utilization, success_rate, consecutive_failures, srtt_ms, rttvar_ms,
      active_tokens;
};

// What the waiting line wants to know of its pool. Every call is made with the pool's lock held.
class pool_watcher {
 public:
  virtual ~pool_watcher() = default;
  // More free slots on a usable agent, or a busy mark cleared.
  virtual void on_more_slots() = 0;
  // Membership, routability or a column that waiting gates read has changed: every waiting verdict is stale.
  virtual void on_standing_changed() = 0;
  // The last act of a critical section.
  virtual void settle() = 0;
};

// What the pool knows of one slot. Guarded by the pool's lock.
struct pool_row {
  std::shared_ptr<agent> who;                       // null = empty slot
  std::shared_ptr<const agent_info> info;
  uint32_t active = 0;                              // as last read from the agent's word
  uint32_t capacity = 0;
  uint32_t standing = standing_unlinked;
};

class pool {
 public:
  pool(std::string model, column_table &, const kernel_columns &);
  ~pool();

  const std::string &model() const { return model_; }
  std::mutex &mutex() const { return mutex_; }

  // ---- Requires: mutex() held ----
  uint32_t count() const { return static_cast<uint32_t>(rows_.size()); }
  const pool_row &row(uint32_t index) const { return rows_[index]; }
  uint64_t epoch() const { return epoch_; }
  // The plugin's view; eligible and candidates are left null for the funnel to fill.
  hive_pool view() const;
  double value(hive_column id, uint32_t index) const;   // NaN = missing
  bool has_free_slot() const;                           // on a routable agent
  uint32_t free_slots() const;
  // Takes one slot of that agent: false when it filled up meanwhile (its row is then refreshed). The other pools of the
  // agent are visited by whoever made the lease, after the lock is dropped (lease.hpp).
  bool take(uint32_t index);
  void set_watcher(pool_watcher *w) { watcher_ = w; }   // null = none
  pool_watcher *watcher() const { return watcher_; }

  // ---- take the lock themselves; any thread ----
  void join(const std::shared_ptr<agent> &, std::shared_ptr<const agent_info>);
  void leave(const agent &);
  // Reads the agent's words inside the lock, writes its row, bumps and settles as the change demands.
  void refresh(const agent &);
  // Writes one signal; sampled_ns 0 = live. Coalesces wake-ups of gate-relevant columns to one per 100 ms.
  void write(const agent &, hive_column id, double value, uint64_t sampled_ns, uint64_t stale_after_ns);
  // NaN over what is older than its limit; called once a second. Returns how many values expired.
  size_t sweep(uint64_t now_ns);

 private:
  class impl;
  const std::string model_;
  mutable std::mutex mutex_;
  std::vector<pool_row> rows_;
  uint64_t epoch_ = 1;
  pool_watcher *watcher_ = nullptr;
  std::unique_ptr<impl> impl_;
};

}  // namespace hive::fleet
