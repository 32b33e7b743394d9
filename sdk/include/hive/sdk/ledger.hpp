// The leases under way at each agent, for a strategy that counts what it has sent: `add` in on_choice, `find` and `erase` in
// on_outcome, `sync` in on_pool. All [pool].
//
// An outcome does not name its lease, but tells how long ago it was made: its lease is the one of that agent which was made
// nearest to then. Every lease ends exactly once, so that a confusion of two made within the same microseconds swaps their
// values and loses none. A lease from before this instance was made is not one of its own.
#pragma once

#include <algorithm>
#include <vector>

#include "hive/sdk/views.hpp"

namespace hive::sdk {

template <class T>
class ledger {
 public:
  struct lease {
    uint64_t made_ns;
    T value;
  };

  explicit ledger(const sdk::host &h) : host_(h), born_ns_(h.now_ns()) {}

  // Forgets the leases of an agent that has left or whose slot another one took.
  void sync(const pool &p) { agents_.sync(p); }

  void add(uint32_t index, uint64_t now_ns, const T &value) {
    if (agents_.has(index)) agents_.at(index).push_back({now_ns, value});
  }

  // Oldest first.
  std::vector<lease> &of(uint32_t index) { return agents_.at(index); }

  // Null when the agent has left or the lease is not one of this instance's. Valid until the next call that changes anything.
  lease *find(const hive_outcome &o) {
    return find(o, [](const T &) { return true; });
  }

  // Among those that were made at the same moment the first that `likely` says yes to.
  template <class Likely>
  lease *find(const hive_outcome &o, Likely &&likely) {
    if (!agents_.has(o.index) || agents_.key(o.index) != o.agent_key) return nullptr;
    auto &all = agents_.at(o.index);
    const uint64_t now = host_.now_ns();
    const uint64_t made = now - std::min(now, o.since_lease_ns);
    if (all.empty() || made < born_ns_) return nullptr;
    const auto distance = [made](const lease &l) { return l.made_ns < made ? made - l.made_ns : l.made_ns - made; };
    lease *best = nullptr;
    for (lease &l : all) {
      if (best == nullptr || distance(l) < distance(*best) ||
          (distance(l) == distance(*best) && likely(l.value) && !likely(best->value)))
        best = &l;
    }
    return best;
  }

  void erase(const hive_outcome &o, const lease *l) {
    auto &all = agents_.at(o.index);
    all.erase(all.begin() + (l - all.data()));
  }

 private:
  sdk::host host_;
  uint64_t born_ns_;
  per_agent<std::vector<lease>> agents_;
};

}  // namespace hive::sdk
