#include "hive/sdk/strategy.hpp"

// Looks at two candidates drawn by chance and takes the less loaded.
//
// One draw by chance leaves the fullest of n agents with about log n / log log n requests; the better of two with about
// log log n: a second look takes away nearly all of the unevenness, and a third hardly more (Azar, Broder, Karlin and Upfal,
// Balanced Allocations, 1994; Mitzenmacher, The Power of Two Choices in Randomized Load Balancing, 2001). The cost is that of
// two looks, for three agents and for ten thousand.
//
// The reason to use it is another one: what a router knows of other routers' requests is old by a ping or two. Whoever takes
// the least loaded of such a picture does what every other router does at the same moment, the agent that was idle is buried,
// and with the next picture the crowd runs on to the next (Mitzenmacher, How Useful Is Old Information?, 2000). Two drawn by
// chance are another two at every router and at every request, so that the requests spread over all that look well.
//
// - Draws follow from the lease number and the seed, so that a run can be repeated. Routers of one fleet need seeds of their
//   own, or they draw alike.
// - Under load, when few agents have a slot free, only those are candidates: two draws of three are nearly the whole list.
// - An agent whose load is not known loses against one whose load is.
//
// Where it is wrong: one router sees all its own leases at once and does a little better with `least-loaded`; in a small fleet
// the second-best is taken noticeably often; and it counts requests, not tokens or caches, as `least-loaded` does.

namespace {

using namespace hive::sdk;

class power_of_two {
 public:
  static constexpr std::string_view id = "power-of-two";
  static constexpr std::string_view summary = "the less loaded of two agents drawn by chance";
  static constexpr std::string_view schema = R"({"type": "object", "additionalProperties": false, "properties": {
    "seed": {"type": "integer", "minimum": 0, "default": 0,
             "description": "changes the order of the draws; give each router its own"}}})";

  explicit power_of_two(const setup &s)
      : load_(s.host.column("load")), seed_(mix(static_cast<uint64_t>(s.options.integer("seed", 0)))) {}

  std::optional<uint32_t> select(const request &r, const pool &p) const {
    const auto candidates = p.candidates();
    const auto n = static_cast<uint32_t>(candidates.size());
    if (n == 0) return std::nullopt;
    if (n == 1) return candidates[0];
    const uint64_t chance = mix(seed_ + r.tie_seed());
    const uint32_t first = bounded(chance, n);
    const uint32_t second = (first + 1 + bounded(mix(chance), n - 1)) % n;  // any but the first
    const auto load = p.signal(load_);
    const uint32_t a = candidates[first], b = candidates[second];
    // The first draw wins ties and, by the same comparison, an unknown second one.
    const bool b_is_better = load[b] < load[a] || (load[a] != load[a] && load[b] == load[b]);
    return b_is_better ? b : a;
  }

 private:
  hive_column load_;
  uint64_t seed_;
};

}  // namespace

HIVE_PLUGIN("strategy_power_of_two", "1.0.0", "hivenet", "Apache-2.0", hive::sdk::strategy<power_of_two>)
