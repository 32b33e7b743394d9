// Choosing an agent allocates nothing: neither the funnel nor the take nor the return, whatever the rules, also while values
// are written between selections; with tenants that take turns, as in production, under a name too long to be stored in a string.
// A request from its session's opening to its end makes the session and nothing else. Counts every operator new of the process; a
// vector or a string made on the way breaks it.
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "base/counted_new.hpp"
#include "plugins/registry.hpp"
#include "routing/fleet_fixture.hpp"
#include "routing/funnel.hpp"
#include "routing/plugin_fixture.hpp"
#include "routing/plugin_source.hpp"
#include "routing/policy_text.hpp"
#include "routing/router.hpp"
#include "routing/session.hpp"

namespace hive::routing {
namespace {

constexpr std::string_view tenant = "tenant-of-24-characters.";
static_assert(tenant.size() == 24);

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

constexpr uint32_t agents = 300;

class selection_cost : public ::testing::TestWithParam<const char *> {
 protected:
  void SetUp() override {
    plugins::settings settings;
    settings.trusted_dirs = {HIVE_PLUGIN_DIR};
    settings.enable_trusted = false;
    settings.enable = {"strategy_least_loaded", "gate_srtt", "gate_hardware", "gate_engine", "gate_reliability"};
    ASSERT_TRUE(registry.load(settings).ok());
    const auto d = parse_policy(std::string("routing_policy: {strategy: least-loaded, match: {engine: vllm}, exclude_if: {") + GetParam() + "}}", source);
    ASSERT_TRUE(d) << d.why().text();
    router_options options;
    options.line.tenant_fairness = true;
    routing.emplace(source, fleet.columns, outcomes, options);
    ASSERT_TRUE(routing->set_policies(d->document).ok());
    ASSERT_TRUE(routing->add_pool(pool).ok());
    for (uint32_t i = 0; i < agents; ++i) {
      fleet.add(pool, "agent" + std::to_string(i), 8, [](auto &info) { info.engine = "vllm"; });
      fleet.signal(*pool, "agent" + std::to_string(i), "gpu_temperature_c", i % 8 == 7 ? 90 : 60);
    }
  }

  testing::test_fleet fleet;
  testing::column_services host{fleet.columns};
  plugins::component_registry registry;
  plugin_source source{registry, host};
  testing::nobody outcomes;
  std::shared_ptr<fleet::pool> pool = fleet.make_pool("qwen");
  std::optional<router> routing;
};

TEST_P(selection_cost, is_no_allocation) {
  request r(routing->policies()->route_for("qwen"));
  const hive_column heat = fleet.columns.find("gpu_temperature_c");
  ticket_class cls;
  cls.tenant = tenant;
  cls.tokens = 700;
  const auto select = [&](uint32_t round) {
    // Now and then more than a selection brings up to date one by one.
    for (uint32_t k = round % 100 == 0 ? 300 : round % 10; k > 0; --k)
      pool->write(*fleet.made_ever[(round * 7 + k) % agents], heat, k % 3 == 0 ? 90 : 60, now_ns(), 0);
    r.sel.kind = fleet::all_kinds[round % fleet::all_kinds.size()];
    ticket place;  // of this request alone
    ASSERT_EQ(r.where->where->line.enter(place, r, cls, 0, nullptr, false), entered::taken);
    const fleet::lease slot(std::move(r.who), std::move(r.info), pool, cls.tokens);
  };
  for (uint32_t i = 0; i < 500; ++i) select(i);
  const uint64_t before = allocations.load();
  for (uint32_t i = 0; i < 2000; ++i) select(i);
  EXPECT_EQ(allocations.load() - before, 0u);
}

// One request behind the other, each opened when the one before has its agent: all in one turn of the loop, so that what the loop
// needs for a turn is not counted.
struct chain final : session_events {
  chain(router &r, loop &l) : routing(r), home(l) {
    facts.request_id = "r1";
    facts.model = "qwen";
    facts.capability = "llm";
    facts.tenant = tenant;
    facts.prompt_tokens = 600;
    facts.output_tokens = 100;
  }
  void begin() {
    flow = routing.open(home, facts, *this);
    flow->next();
  }
  void on_lease(fleet::lease slot, std::string_view) override {
    ++served;
    flow->report({});
    slot.reset();
    flow.reset();
    if (--left > 0) begin();
  }
  void on_exhausted(const exhaustion &e) override { ADD_FAILURE() << e.code; }
  void run(uint32_t requests) {
    left = requests;
    begin();
    home.io().restart();
    home.io().poll();
  }
  router &routing;
  loop &home;
  request_facts facts;
  uint32_t left = 0, served = 0;
  std::unique_ptr<session> flow;
};

TEST_P(selection_cost, of_a_whole_session_is_one_allocation) {
  loop home;
  chain requests(*routing, home);
  requests.run(500);
  ASSERT_EQ(requests.served, 500u);
  requests.run(1);
  const uint64_t one = allocations.load();
  requests.run(1);
  const uint64_t turn = allocations.load() - one;
  const uint64_t before = allocations.load();
  requests.run(2001);
  ASSERT_EQ(requests.served, 2503u);
  EXPECT_EQ(allocations.load() - before, turn + 2000) << "the session itself";
}

INSTANTIATE_TEST_SUITE_P(rules, selection_cost,
                         ::testing::Values("", "gpu_temperature_c: {gt: 85}, srtt: {gt: 2000}, capacity_utilization: {gte: 0.9}",
                                           "gpu_temperature_c: {gt: 85, leave: 70, max_age: 1s}, srtt: {gt: 2000, on_missing: pass}, "
                                           "kv_cache_utilization: {gt: 0.9, leave: 0.8, max_age: 1ms}",
                                           "srtt_upper: {gt: 300, k: 2}, success_rate_5m: {lt: 0.5, leave: 0.6}"));

}  // namespace
}  // namespace hive::routing
