// Between a pool and the line that waits for its slots: what the line is told, and what it leaves to be done after the lock.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/clock.hpp"
#include "hive/abi/views.h"

namespace hive::fleet {

// What a critical section leaves to be done once the lock is dropped.
using deferred_calls = std::vector<std::function<void()>>;
inline void run_all(const deferred_calls &calls) {
  for (const std::function<void()> &each : calls) each();
}

// What the waiting line wants to know of its pool. Every call is made with the pool's lock held.
class pool_watcher {
 public:
  virtual ~pool_watcher() = default;
  // More free slots on a usable agent, or a busy mark cleared.
  virtual void on_more_slots() = 0;
  // Membership, routability or a column that waiting gates read has changed: every waiting verdict is stale.
  virtual void on_standing_changed() = 0;
  // The last act of a critical section. True: it has decided to send something.
  virtual bool settle() = 0;
  // Moves what settle decided to send into `out`, for after the lock is dropped.
  virtual void take_deferred(deferred_calls &out) { (void)out; }
  // False: no waiting request's gates read any column, so that `reads` need not be asked at each change.
  bool reads_any() const { return reads_any_; }
  // Whether a waiting request's gates read this column; for `load` going up: whether one can let an agent in by that.
  virtual bool reads(hive_column, bool load_went_up) const { return (void)load_went_up, false; }
  // The shortest max_age that a waiting request's gates put on the column: a value written again unchanged is news to them
  // when the one before had passed it. never_ns = none.
  virtual uint64_t shortest_max_age(hive_column) const { return never_ns; }
  // Whether a waiting verdict may have changed since the last such call by time alone. Asked at each tick.
  virtual bool changed_by_time(uint64_t now_ns) { return (void)now_ns, false; }

 protected:
  bool reads_any_ = true;
};

}  // namespace hive::fleet
