// What routing keeps for one pool: its waiting line, the buffers its selections share, and the instances that want to hear of
// leases. Made and dropped by the control thread; sessions keep it alive through their route.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/pool.hpp"
#include "hive/abi/views.h"
#include "routing/queue.hpp"
#include "routing/thresholds.hpp"

namespace hive::routing {

struct instance;

class lane {
 public:
  // `clock` null = the system's; it outlives the lane.
  lane(std::shared_ptr<fleet::pool> of, const line_limits &limits, const clock_source *clock = nullptr)
      : pool(std::move(of)), line(*pool, limits, clock) {}

  // Buffers of one selection. Guarded by the pool's lock; grown when the pool grows, never per selection.
  struct buffers {
    std::vector<uint8_t> keep;
    std::vector<uint32_t> candidates;
    std::vector<uint32_t> verdicts;
    std::vector<uint32_t> marks;
    std::vector<double> scores;
    void fit(uint32_t count);
  };

  // Requires: the pool's lock. The instances stay valid until the next call.
  void observe(const std::vector<instance *> &instances);
  void tell_choice(const hive_request &, const hive_pool &, uint32_t index);
  void tell_outcome(hive_outcome &, const fleet::agent &);

  // Takes the lock itself, and only if some instance wants outcomes.
  void outcome(hive_outcome &, const fleet::agent &);

  // What a rule with `leave` remembers: the one that a live route holds, else a new one. Control thread only.
  std::shared_ptr<hysteresis> memory_of(std::string_view document, std::string_view step, uint32_t nth, std::string_view field,
                                        std::string_view rule);

  const std::shared_ptr<fleet::pool> pool;
  waiting_line line;
  buffers space;                           // guarded by the pool's lock

  // Any thread. Retries in flight stay under a share of the live requests, which stops storms of them.
  std::atomic<uint32_t> live{0};
  std::atomic<uint32_t> retrying{0};
  std::atomic<uint64_t> retries_refused{0};
  bool start_retry(double share, uint32_t floor);
  void end_retry() { retrying.fetch_sub(1, std::memory_order_relaxed); }

 private:
  std::map<std::string, std::weak_ptr<hysteresis>> memories_;  // control thread only
  std::vector<instance *> on_choice_;      // guarded by the pool's lock
  std::vector<instance *> on_outcome_;
  std::atomic<bool> wants_outcome_{false};
};

}  // namespace hive::routing
