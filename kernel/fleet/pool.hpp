// A pool: all agents that serve one model id, their signals column by column, and the line of requests that wait for
// them. One mutex guards all of it; choosing an agent, taking its slot and settling who wakes are one critical section
// (design: docs/waiting.md). The lock is held for microseconds and never across I/O. No two pool locks are held at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "fleet/agent.hpp"
#include "fleet/column.hpp"
#include "fleet/pool_watcher.hpp"
#include "fleet/row_journal.hpp"
#include "hive/abi/views.h"

namespace hive::fleet {

static_assert(column_table::limit <= row_journal::most_columns);

// What the pool knows of one slot. Guarded by the pool's lock.
struct pool_row {
  std::shared_ptr<agent> who;                       // null = empty slot
  std::shared_ptr<const agent_info> info;
  uint32_t active = 0;                              // as last read from the agent's word
  uint32_t capacity = 0;
  uint32_t standing = standing_unlinked;
  bool probation = false;

  // Could serve now or as soon as a slot frees. A busy agent is usable and full.
  bool usable() const { return who != nullptr && (standing & ~standing_busy) == 0; }
  bool full() const { return (standing & standing_busy) != 0 || active >= capacity; }
  uint32_t free() const { return usable() && !full() ? capacity - active : 0; }
};

// What of a row a selection asks first, one byte a slot so that ten thousand are read in a few microseconds.
enum slot_state : uint8_t {
  slot_unusable = 0,
  slot_full = 1,     // bit 0: usable
  slot_free = 3,     // bit 1: and has a slot free
};

struct column_write {
  hive_column id = 0;
  double value = 0;                                 // NaN = missing
  uint64_t sampled_ns = 0;                          // monotonic; 0 = live
};

// A value and when it was taken, for admin and metrics.
struct column_value {
  hive_column id = 0;
  double value = 0;
  uint64_t sampled_ns = 0;
};

class pool {
 public:
  static constexpr uint64_t recheck_gap_ns = 100 * ns_per_ms;

  // `clock` null = the system's; it outlives the pool.
  pool(std::string model, const kernel_columns &, const clock_source *clock = nullptr);
  ~pool();

  const std::string &model() const { return model_; }
  // Members that could serve now or as soon as a slot frees. Any thread, no lock; may be outdated when it is read.
  uint32_t usable_members() const { return usable_.load(std::memory_order_relaxed); }
  std::mutex &mutex() const { return mutex_; }

  // ---- Requires: mutex() held ----
  uint32_t count() const { return static_cast<uint32_t>(rows_.size()); }
  const pool_row &row(uint32_t index) const { return rows_[index]; }
  const uint8_t *slot_states() const { return states_.data(); }  // slot_state of each row
  std::span<const uint32_t> suspects() const { return suspects_; }  // rows of agents on probation
  uint64_t epoch() const { return epoch_; }
  // Whether the views of different kinds differ in this column. Any thread.
  bool varies_by_kind(hive_column id) const { return id == kernel_.srtt_ms || id == kernel_.rttvar_ms; }
  // The plugin's view; eligible and candidates are left null for the funnel to fill.
  hive_pool view() const;
  // The same as a request of that kind is to see it: where latency is read, that of its kind.
  hive_pool view(request_kind) const;
  double value(hive_column id, uint32_t index) const;   // NaN = missing
  uint32_t free_slots() const { return free_; }         // on usable agents
  uint32_t members() const;
  std::optional<uint32_t> index_of(const agent &) const;  // empty = it has left
  const row_journal &changes() const { return changes_; }  // rows written to: of the kernel's columns only those followed count
  // For how long there were members and none published a value of it; 0 for the kernel's own.
  uint64_t quiet_ns(hive_column id, uint64_t now_ns) const;
  // Takes one slot of that agent: false when it filled up meanwhile (its row is then refreshed, and the agent's `rejected`
  // counts it). The other pools of the agent are visited by whoever made the lease, after the lock is dropped (lease.hpp). Call
  // inside a pool_section.
  // `tokens`: an estimate of what the request will use, in the agent's active_tokens until the lease, which is told of them, ends.
  bool take(uint32_t index, uint64_t tokens = 0);
  // A selection found these full, one byte a slot, 0 or 1: counted as `rejected` of their agents at the next sweep.
  void note_refused(const uint8_t *full);
  void set_watcher(pool_watcher *w) { watcher_ = w; }   // null = none
  pool_watcher *watcher() const { return watcher_; }

  // ---- take the lock themselves; any thread ----
  // A member that joins again gets the new info: a re-registration.
  void join(const std::shared_ptr<agent> &, std::shared_ptr<const agent_info>);
  void leave(const agent &);
  // Reads the agent's words inside the lock, writes its row, bumps and settles as the change demands.
  void refresh(const agent &);
  // The same for the success rates, consecutive_failures, srtt_ms and rttvar_ms; coalesced as write is.
  void refresh_outcome(const agent &);
  // Writes signals; sampled_ns 0 = live. Coalesces wake-ups of gate-relevant columns to one per 100 ms.
  void write(const agent &, std::span<const column_write>, uint64_t stale_after_ns);
  void write(const agent &who, hive_column id, double value, uint64_t sampled_ns, uint64_t stale_after_ns) {
    const column_write one{id, value, sampled_ns};
    write(who, std::span(&one, 1), stale_after_ns);
  }
  // NaN over what is older than its limit, recent success rates as of now, and refusals noted go to the agents; called once a
  // second. Returns how many values expired.
  size_t sweep(uint64_t now_ns);
  // Sends the re-check that coalescing put off, if its time has come. Called every 100 ms at the latest.
  void tick(uint64_t now_ns);
  // Every signal of a member that has a column here, kernel columns included, missing ones left out.
  std::vector<column_value> values_of(const agent &) const;

 private:
  friend class pool_section;
  class impl;
  const std::string model_;
  const kernel_columns kernel_;
  mutable std::mutex mutex_;
  std::vector<pool_row> rows_;
  std::vector<uint8_t> states_;                         // follows rows_
  std::atomic<uint32_t> usable_{0};                     // written under the lock
  std::vector<uint32_t> suspects_;
  void note_suspect(uint32_t index, bool on);
  std::vector<uint32_t> refused_;                       // since the last sweep; follows rows_
  bool any_refused_ = false;
  uint64_t epoch_ = 1;
  row_journal changes_;
  void update_row(uint32_t index, uint32_t count, uint32_t capacity);
  void note_state(uint32_t index);
  void count_refused(uint32_t index);
  uint32_t free_ = 0;                                   // sum of rows_[i].free()
  pool_watcher *watcher_ = nullptr;
  // The watcher, if some that wait have gates that read columns.
  const pool_watcher *readers() const { return watcher_ != nullptr && watcher_->reads_any() ? watcher_ : nullptr; }
  std::unique_ptr<impl> impl_;
};

// A critical section that may change the pool: locks; at its end settles, drops the lock and only then sends the wakes.
class pool_section {
 public:
  explicit pool_section(pool &p) : pool_(p) { pool_.mutex_.lock(); }
  ~pool_section();
  pool_section(const pool_section &) = delete;

 private:
  pool &pool_;
};

}  // namespace hive::fleet
