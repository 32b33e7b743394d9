// What choosing an agent costs: funnel with 3 gates and 4 rules, least-loaded from its plugin, the slot taken and returned, with
// tenants that take turns and a ticket of the request's own, as in production.
// Budget, warm: 0.5 us at 64 agents, 5 us at 1,000, 50 us at 10,000, no allocation; with hysteresis and max_age on three rules
// (sticky) at most 1.3x that. The runs `with_signals` write two agents' values before each selection, about what 10,000 agents
// send between two of 10,000 requests a second.
//
//   selection_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>

#include <memory>
#include <mutex>
#include <random>

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

constexpr const char *plain =
    "routing_policy: {strategy: least-loaded, match: {engine: vllm}, exclude_if: {srtt: {gt: 2000}, gpu_temperature_c: {gt: 85}, "
    "gpu_util_percent: {gt: 0.98}, memory_used_percent: {gte: 0.95}}}";
// The same with hysteresis and max_age on three of them.
constexpr const char *sticky =
    "routing_policy: {strategy: least-loaded, match: {engine: vllm}, exclude_if: {srtt: {gt: 2000}, gpu_temperature_c: {gt: 85, "
    "leave: 75, max_age: 60s}, gpu_util_percent: {gt: 0.98, leave: 0.9, max_age: 60s}, memory_used_percent: {gte: 0.95, leave: 0.9, "
    "max_age: 60s}}}";

// A pool of `agents`, half loaded at random, one in eight too hot.
struct world {
  testing::test_fleet fleet;
  testing::column_services host{fleet.columns};
  plugins::component_registry registry;
  plugin_source source{registry, host};
  testing::nobody outcomes;
  std::shared_ptr<fleet::pool> pool = fleet.make_pool("qwen");
  const hive_column signals[3] = {fleet.columns.intern("gpu_temperature_c"), fleet.columns.intern("gpu_util_percent"),
                                  fleet.columns.intern("memory_used_percent")};
  std::optional<router> routing;
  std::string trouble;

  world(const char *policy, int64_t agents) {
    plugins::settings settings;
    settings.trusted_dirs = {HIVE_PLUGIN_DIR};
    settings.enable_trusted = false;
    settings.enable = {"strategy_least_loaded", "gate_srtt", "gate_hardware"};
    if (const status s = registry.load(settings); !s.ok()) trouble = s.text();
    auto d = parse_policy(policy, source);
    if (!d) {
      trouble = d.why().text();
      return;
    }
    router_options options;
    options.line.depth = 0;
    options.line.tenant_fairness = true;
    routing.emplace(source, fleet.columns, outcomes, options);
    if (const status s = routing->set_policies(d->document); !s.ok()) trouble = s.text();
    if (const status s = routing->add_pool(pool); !s.ok()) trouble = s.text();
    std::mt19937 chance(1);
    for (int64_t i = 0; i < agents; ++i) {
      const std::string name = "agent" + std::to_string(i);
      fleet::agent &a = fleet.add(pool, name, 32, [](auto &info) { info.engine = "vllm"; });
      a.latency.add(50 + chance() % 100, fleet::request_kind::chat);
      pool->refresh_outcome(a);
      for (uint32_t n = chance() % 16; n > 0; --n) a.slots.try_take();
      pool->refresh(a);
      const double values[] = {i % 8 == 7 ? 90.0 : 60.0, 0.5, 0.5};
      for (size_t k = 0; k < std::size(signals); ++k) pool->write(a, signals[k], values[k], now_ns(), 0);
    }
  }
  const route &of() const { return *routing->policies()->route_for("qwen"); }
};

// The least a session does, without its loop: enter the line, hold the lease, return it.
struct one_request final : candidate_finder {
  explicit one_request(world &w) : on(w), what(w.routing->policies()->route_for("qwen")) { sel.capability = "llm"; }
  funnel_result find(fleet::pool &pool) override { return run_funnel(pool, *what->where, *what->steps[0], sel); }
  void on_taken(fleet::pool &pool, uint32_t index) override {
    who = pool.row(index).who;
    info = pool.row(index).info;
    what->where->tell_choice(sel.request, pool.view(), index);
    ++what->steps[0]->strategy().leases;
  }
  void on_wake(uint64_t) override {}
  world &on;
  std::shared_ptr<const route> what;
  selection sel;
  std::shared_ptr<fleet::agent> who;
  std::shared_ptr<const fleet::agent_info> info;
};

// What one agent sends: three values, one of them changed.
void write_one(world &w, uint32_t n) {
  const uint64_t now = now_ns();
  const fleet::column_write values[] = {{w.signals[0], 60.0 + n % 2, now}, {w.signals[1], 0.5, now}, {w.signals[2], 0.5, now}};
  w.pool->write(*w.fleet.made_ever[n % w.fleet.made_ever.size()], values, 0);
}

void funnel_only(benchmark::State &state, const char *policy) {
  world w(policy, state.range(0));
  if (!w.trouble.empty()) return state.SkipWithError(w.trouble.c_str());
  one_request r(w);
  for (auto _ : state) {
    const std::lock_guard lock(w.pool->mutex());
    benchmark::DoNotOptimize(r.find(*w.pool));
  }
}

// `writes`: how many agents' signals come in before each selection.
void find_take_release(benchmark::State &state, const char *policy, uint32_t writes) {
  world w(policy, state.range(0));
  if (!w.trouble.empty()) return state.SkipWithError(w.trouble.c_str());
  one_request r(w);
  ticket_class cls;
  cls.tenant = "tenant-of-24-characters.";
  cls.tokens = 700;
  const auto once = [&] {
    ticket place;
    if (r.what->where->line.enter(place, r, cls, 0, nullptr, false) != entered::taken) return false;
    fleet::lease slot(std::move(r.who), std::move(r.info), w.pool, cls.tokens);
    return true;
  };
  for (int i = 0; i < 100; ++i)
    if (!once()) return state.SkipWithError("no agent was chosen");
  const uint64_t before = allocations.load();
  uint32_t n = 0;
  for (auto _ : state) {
    for (uint32_t k = 0; k < writes; ++k) write_one(w, n++);
    benchmark::DoNotOptimize(once());
  }
  state.counters["allocations"] =
      benchmark::Counter(static_cast<double>(allocations.load() - before), benchmark::Counter::kAvgIterations);
}

// NAME/AGENTS, as the pages of results have it.
const auto sizes = [](benchmark::internal::Benchmark *b) { b->Arg(64)->Arg(1000)->Arg(10000); };
BENCHMARK_CAPTURE(funnel_only, plain, plain)->Name("funnel_only")->Apply(sizes);
BENCHMARK_CAPTURE(find_take_release, plain, plain, 0)->Name("find_take_release")->Apply(sizes);
BENCHMARK_CAPTURE(find_take_release, sticky, sticky, 0)->Name("find_take_release_sticky")->Apply(sizes);
BENCHMARK_CAPTURE(find_take_release, plain_signals, plain, 2)->Name("find_take_release_with_signals")->Apply(sizes);
BENCHMARK_CAPTURE(find_take_release, sticky_signals, sticky, 2)->Name("find_take_release_sticky_with_signals")->Apply(sizes);

}  // namespace
}  // namespace hive::routing

BENCHMARK_MAIN();
