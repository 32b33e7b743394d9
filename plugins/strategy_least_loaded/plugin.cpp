#include "hive/sdk/strategy.hpp"

// Sends each request to the candidate with the least load, active requests / capacity; ties take turns.
//
// The oldest rule of load balancing, known as least connections: whoever has fewer requests under way is either faster or has
// had less to do, and in both cases should get the next one. It needs no measurement and no memory. An agent that answers
// twice as fast is free twice as often and so gets twice as much, without anybody having told its speed.
//
// - Load is a share and not a count: of two agents with 4 and 32 slots and two requests each the first is at a half and the
//   second at a sixteenth. What other routers send to an agent is in it as far as its pings tell.
// - Under load the router's own leases count at the moment of the choice, under the pool's lock, so that a burst is spread as
//   it comes in and not after the first answers. With every slot in use all are equal, and the request waits in the line.
// - Idle agents are equal as well: without turns the first of the list would get every request of a quiet night.
//
// Where it is wrong: requests differ by a factor of a thousand, and one that writes a book counts as one (`token-load`); of
// agents with unequal engines the slow one is chosen as readily while all are idle (`peak-ewma`); a chat's next question goes
// to somebody who has not computed what was said before (`prefix-affinity`); and an agent that fails at once is always idle,
// which is why probation, and not this rule, keeps it out. Where several routers feed the same agents the picture of the
// others is up to seconds old, and they run to the same agent together: `power-of-two` does not.

namespace {

using namespace hive::sdk;

class least_loaded {
 public:
  static constexpr std::string_view id = "least-loaded";
  static constexpr std::string_view summary = "the agent with the smallest share of its slots in use; ties take turns";

  explicit least_loaded(const setup &s) : load_(s.host.column("load")) {}

  std::optional<uint32_t> select(const request &r, const pool &p, scores out) const {
    const auto load = p.signal(load_);
    return least_scored(p, r.tie_seed(), out, [load](uint32_t i) { return load[i]; });
  }

 private:
  hive_column load_;
};

}  // namespace

HIVE_PLUGIN("strategy_least_loaded", "1.0.0", "hivenet", "Apache-2.0", hive::sdk::strategy<least_loaded>)
