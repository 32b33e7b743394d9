#include "hive/sdk/strategy.hpp"

namespace {

using namespace hive::sdk;

// Sends each request to the candidate with the least load (active requests / capacity); ties take turns.
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
