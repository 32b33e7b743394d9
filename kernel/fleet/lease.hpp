// A lease: one slot of one agent, held from the choice to the end of the stream. Move-only; the destructor returns it,
// exactly once, from any thread, and visits the agent's pools so that waiting requests hear of it.
#pragma once

#include <memory>

#include "fleet/agent.hpp"
#include "fleet/pool.hpp"

namespace hive::fleet {

class lease {
 public:
  lease() = default;
  // The slot, and its `tokens`, were taken by pool::take under the pool's lock; call this after dropping it: visits the other pools.
  lease(std::shared_ptr<agent> who, std::shared_ptr<const agent_info> info, const std::shared_ptr<pool> &chosen_in, uint64_t tokens = 0);
  lease(lease &&) noexcept;
  lease &operator=(lease &&) noexcept;
  ~lease() { reset(); }

  explicit operator bool() const { return who_ != nullptr; }
  const std::shared_ptr<agent> &who() const { return who_; }
  const agent_info &info() const { return *info_; }
  // The agent's generation when the lease was made; record_outcome wants it.
  uint64_t generation() const { return generation_; }
  void reset();

 private:
  std::shared_ptr<agent> who_;
  std::shared_ptr<const agent_info> info_;
  uint64_t generation_ = 0;
  uint64_t tokens_ = 0;
};

}  // namespace hive::fleet
