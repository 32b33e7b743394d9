// The forward slots of the whole router (--max-concurrent) and the line of requests that wait for one (--queue-size).
//
// A request waits here before its agent is chosen; while it is parked in a pool's capacity queue it holds no forward slot,
// and when it comes back with a lease it goes to the front (docs/waiting.md, P12). The line itself is bounded; past the
// bound as many again may wait 5 s for a place, the rest is refused at once. Any thread; one mutex, held briefly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "base/clock.hpp"
#include "base/loop.hpp"
#include "routing/turnover.hpp"

namespace hive::gateway {

class forward_line;

// A request that waits. All of it belongs to the waiter's loop; on_forward_slot is posted there, never called inline.
class forward_waiter {
 public:
  explicit forward_waiter(loop &l) : loop_(l) {}
  virtual void on_forward_slot() = 0;      // the slot is held from now on
  virtual void on_forward_refused() = 0;   // no place in the line within 5 s: queue_full
  bool holds_slot() const { return holds_; }

 protected:
  virtual ~forward_waiter();               // leaves the line, gives the slot back

 private:
  friend class forward_line;
  struct ticket;
  loop &loop_;
  forward_line *line_ = nullptr;
  std::shared_ptr<ticket> ticket_;
  bool holds_ = false;
};

class forward_line {
 public:
  // `clock` null = the system's; it outlives the line and measures its speed only.
  forward_line(size_t slots, size_t queue_size, uint64_t place_wait_ns = 5 * ns_per_s, const clock_source *clock = nullptr);

  enum class answer { granted, waiting, full };
  // `with_lease`: goes before everybody without one and is never refused.
  answer acquire(forward_waiter &, bool with_lease);
  void release(forward_waiter &);          // gives the slot back; no-op when none is held
  void leave(forward_waiter &);            // out of the line; no-op when not in it

  size_t in_use() const;
  size_t waiting() const;                  // in the line, the overflow included
  size_t slots() const { return slots_; }
  uint64_t gap_ns() const;                 // between two slots that went to the line, without those with a lease; 0 = not known

 private:
  using ticket_ptr = std::shared_ptr<forward_waiter::ticket>;
  void grant_next();                       // requires mutex_
  void expire(const ticket_ptr &);

  const size_t slots_;
  const size_t queue_size_;
  const uint64_t place_wait_ns_;
  const clock_source &clock_;
  mutable std::mutex mutex_;
  size_t in_use_ = 0;
  std::list<ticket_ptr> leased_;           // guarded by mutex_
  std::list<ticket_ptr> plain_;
  routing::turnover turnover_;             // of plain_
};

}  // namespace hive::gateway
