#include "hive/sdk/strategy.hpp"

namespace {

using namespace hive::sdk;

// Looks at two candidates drawn by chance and takes the less loaded: nearly as even as looking at all, at a fixed cost,
// and several routers with the same picture do not all run to one agent (Mitzenmacher, The Power of Two Choices, 2001).
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
