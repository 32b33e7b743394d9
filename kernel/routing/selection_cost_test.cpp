// Choosing an agent allocates nothing: neither the funnel nor the take nor the return, whatever the rules, also while values
// are written between selections. Counts every operator new of the process; a vector or a string made on the way breaks it.
#include <gtest/gtest.h>

#include "base/counted_new.hpp"
#include "plugins/registry.hpp"
#include "routing/fleet_fixture.hpp"
#include "routing/funnel.hpp"
#include "routing/plugin_fixture.hpp"
#include "routing/plugin_source.hpp"
#include "routing/policy_text.hpp"
#include "routing/router.hpp"

namespace hive::routing {
namespace {

struct request final : candidate_finder {
  explicit request(std::shared_ptr<const route> r) : where(std::move(r)) { sel.capability = "llm"; }
  funnel_result find(fleet::pool &pool) override { return run_funnel(pool, *where->where, *where->steps[0], sel); }
  void on_taken(fleet::pool &pool, uint32_t index) override {
    who = pool.row(index).who;
    info = pool.row(index).info;
    where->where->tell_choice(sel.request, pool.view(), index);
    ++where->steps[0]->strategy().leases;
  }
  void on_wake(uint64_t) override {}
  std::shared_ptr<const route> where;
  selection sel;
  std::shared_ptr<fleet::agent> who;
  std::shared_ptr<const fleet::agent_info> info;
};

class selection_cost : public ::testing::TestWithParam<const char *> {};

TEST_P(selection_cost, is_no_allocation) {
  testing::test_fleet fleet;
  testing::column_services host{fleet.columns};
  plugins::component_registry registry;
  plugin_source source{registry, host};
  plugins::settings settings;
  settings.trusted_dirs = {HIVE_PLUGIN_DIR};
  settings.enable_trusted = false;
  settings.enable = {"strategy_least_loaded", "gate_srtt", "gate_hardware", "gate_engine", "gate_reliability"};
  ASSERT_TRUE(registry.load(settings).ok());
  const auto d = parse_policy(std::string("routing_policy: {strategy: least-loaded, match: {engine: vllm}, exclude_if: {") + GetParam() + "}}", source);
  ASSERT_TRUE(d) << d.why().text();
  testing::nobody outcomes;
  router routing(source, fleet.columns, outcomes, {});
  ASSERT_TRUE(routing.set_policies(d->document).ok());
  const auto pool = fleet.make_pool("qwen");
  ASSERT_TRUE(routing.add_pool(pool).ok());
  constexpr uint32_t agents = 300;
  for (uint32_t i = 0; i < agents; ++i) {
    fleet.add(pool, "agent" + std::to_string(i), 8, [](auto &info) { info.engine = "vllm"; });
    fleet.signal(*pool, "agent" + std::to_string(i), "gpu_temperature_c", i % 8 == 7 ? 90 : 60);
  }
  request r(routing.policies()->route_for("qwen"));
  const hive_column heat = fleet.columns.find("gpu_temperature_c");
  ticket place;
  const ticket_class cls;
  const auto select = [&](uint32_t round) {
    // Now and then more than a selection brings up to date one by one.
    for (uint32_t k = round % 100 == 0 ? 300 : round % 10; k > 0; --k)
      pool->write(*fleet.made_ever[(round * 7 + k) % agents], heat, k % 3 == 0 ? 90 : 60, now_ns(), 0);
    r.sel.kind = fleet::all_kinds[round % fleet::all_kinds.size()];
    ASSERT_EQ(r.where->where->line.enter(place, r, cls, 0, nullptr, false), entered::taken);
    const fleet::lease slot(std::move(r.who), std::move(r.info), pool);
  };
  for (uint32_t i = 0; i < 500; ++i) select(i);
  const uint64_t before = allocations.load();
  for (uint32_t i = 0; i < 2000; ++i) select(i);
  EXPECT_EQ(allocations.load() - before, 0u);
}

INSTANTIATE_TEST_SUITE_P(rules, selection_cost,
                         ::testing::Values("", "gpu_temperature_c: {gt: 85}, srtt: {gt: 2000}, capacity_utilization: {gte: 0.9}",
                                           "gpu_temperature_c: {gt: 85, leave: 70, max_age: 1s}, srtt: {gt: 2000, on_missing: pass}, "
                                           "kv_cache_utilization: {gt: 0.9, leave: 0.8, max_age: 1ms}",
                                           "srtt_upper: {gt: 300, k: 2}, success_rate_5m: {lt: 0.5, leave: 0.6}"));

}  // namespace
}  // namespace hive::routing
