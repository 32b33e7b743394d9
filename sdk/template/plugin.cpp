#include "hive/sdk/strategy.hpp"

namespace {

using namespace hive::sdk;

// Change me: the agent with the fewest requests waiting in its engine.
class mine {
 public:
  static constexpr std::string_view id = "mine";
  static constexpr std::string_view summary = "the agent with the shortest line in its engine";
  static constexpr std::string_view schema = R"({"type": "object", "additionalProperties": false, "properties": {
    "weight": {"type": "number", "minimum": 0, "default": 1}}})";

  explicit mine(const setup &s)
      : waiting_(s.host.column("waiting_requests")), load_(s.host.column("load")), weight_(s.options.number("weight", 1)) {}

  std::optional<uint32_t> select(const request &r, const pool &p, scores out) const {
    const auto waiting = p.signal(waiting_), load = p.signal(load_);
    return least_scored(p, r.tie_seed(), out, [&](uint32_t i) { return weight_ * waiting[i] + load[i]; });
  }

 private:
  hive_column waiting_, load_;
  double weight_;
};

}  // namespace

HIVE_PLUGIN("strategy_mine", "0.1.0", "you", "Apache-2.0", hive::sdk::strategy<mine>)
