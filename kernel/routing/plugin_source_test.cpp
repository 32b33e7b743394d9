#include "routing/plugin_source.hpp"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/loop.hpp"
#include "base/test_folder.hpp"
#include "plugins/registry.hpp"
#include "routing/fleet_fixture.hpp"
#include "routing/plugin_fixture.hpp"
#include "routing/policy_text.hpp"

namespace hive::routing {
namespace {

using ::testing::HasSubstr;

struct client final : session_events {
  void on_lease(fleet::lease l, std::string_view) override { slot = std::move(l); }
  void on_exhausted(const exhaustion &e) override { code = e.code; }
  fleet::lease slot;
  std::string code;
};

// The libraries of this build: strategy_least_loaded and the gates.
class real_plugins : public ::testing::Test {
 protected:
  void load(std::vector<std::string> enable) {
    plugins::settings settings;
    settings.trusted_dirs = {HIVE_PLUGIN_DIR};
    settings.enable_trusted = false;
    settings.enable = std::move(enable);
    const status s = registry_.load(settings);
    ASSERT_TRUE(s.ok()) << s.text();
  }
  testing::test_fleet fleet_;
  testing::column_services services_{fleet_.columns};
  plugins::component_registry registry_;
  plugin_source source_{registry_, services_};
  testing::nobody outcomes_;
};

TEST_F(real_plugins, route_by_latency_and_load) {
  load({"strategy_least_loaded", "gate_srtt", "gate_hardware"});
  const auto d = parse_policy("routing_policy: {strategy: least-loaded, exclude_if: {srtt_upper: {gt: 300, k: 2}, "
                              "gpu_temperature_c: {gt: 85}}}", source_, {"p", "", true, false});
  ASSERT_TRUE(d) << d.why().text();
  router routing(source_, fleet_.columns, outcomes_, {});
  ASSERT_TRUE(routing.set_policies(d->document).ok());
  const auto pool = fleet_.make_pool("qwen");
  const status added = routing.add_pool(pool);
  ASSERT_TRUE(added.ok()) << added.text();
  for (const char *name : {"cool", "hot", "slow"}) fleet_.add(pool, name, 4);
  fleet_.signal(*pool, "hot", "gpu_temperature_c", 90);
  fleet_.agents["slow"]->latency.add(200, fleet::request_kind::chat);  // RTTVAR 100: 200 + 2 x 100 > 300
  pool->refresh_outcome(*fleet_.agents["slow"]);
  loop on;
  request_facts facts;
  facts.model = "qwen";
  for (int i = 0; i < 8; ++i) {
    client c;
    const auto flow = routing.open(on, facts, c);
    flow->next();
    on.io().restart();
    on.io().poll();
    ASSERT_TRUE(c.slot) << c.code;
    EXPECT_EQ(c.slot.who()->peer_id(), "cool");
    flow->report({});
  }
}

TEST_F(real_plugins, what_is_absent_is_named) {
  load({"strategy_least_loaded", "gate_srtt"});
  const auto field = parse_policy("routing_policy: {strategy: least-loaded, exclude_if: {kv_cache_utilization: {gt: 1}}}", source_);
  ASSERT_FALSE(field);
  EXPECT_THAT(field.why().text(), HasSubstr("unknown field 'kv_cache_utilization'"));
  EXPECT_THAT(field.why().text(), HasSubstr("srtt, srtt_upper"));
  const auto disabled = parse_policy("routing_policy: {strategy: least-loaded, exclude_if: {gpu_temperature_c: {gt: 1}}}", source_);
  EXPECT_THAT(disabled.why().text(), HasSubstr("plugin gate_hardware provides it and is not enabled"));
  const auto strategy = parse_policy("routing_policy: {strategy: leastloaded}", source_);
  EXPECT_THAT(strategy.why().text(), HasSubstr("did you mean 'least-loaded'?"));
  const auto options = parse_policy("routing_policy: {strategy: {name: least-loaded, options: {x: 1}}}", source_);
  EXPECT_FALSE(options);
  const auto bad_rule = parse_policy("routing_policy: {strategy: least-loaded, exclude_if: {srtt_upper: {above: 1}}}", source_);
  ASSERT_TRUE(bad_rule) << "only its gate can judge a custom rule";
  router routing(source_, fleet_.columns, outcomes_, {});
  ASSERT_TRUE(routing.add_pool(fleet_.make_pool("qwen")).ok());
  EXPECT_THAT(routing.set_policies(bad_rule->document).text(), HasSubstr("srtt_upper"));
}

// Policies name them: one that goes, or gets another name, breaks files of today.
TEST_F(real_plugins, sixteen_fields_and_the_windowed_rate_are_served_and_two_may_shed) {
  load({"strategy_least_loaded", "gate_srtt", "gate_hardware", "gate_engine", "gate_reliability"});
  const char *const fields[] = {"capacity_utilization", "success_rate", "srtt", "consecutive_failures", "kv_cache_utilization",
                                "running_requests", "waiting_requests", "avg_ttft_seconds", "p90_ttft_seconds", "avg_itl_seconds",
                                "p90_itl_seconds", "gpu_temperature_c", "gpu_util_percent", "gpu_vram_used_percent",
                                "memory_used_percent", "cpu_usage_percent", "success_rate_5m"};
  for (const std::string field : fields) {
    const auto d = parse_policy("routing_policy: {strategy: least-loaded, exclude_if: {" + field + ": {gt: 0.5, leave: 0.4}}}", source_);
    ASSERT_TRUE(d) << d.why().text();
    EXPECT_TRUE(d->warnings.empty()) << field;
    const bool sheds = field == "kv_cache_utilization" || field == "waiting_requests";
    EXPECT_EQ(parse_policy("shed_if: {" + field + ": {gt: 0.5}}\nrouting_policy: {strategy: least-loaded}", source_).ok(), sheds) << field;
  }
}

TEST_F(real_plugins, a_library_that_was_taken_away_is_named_by_what_needs_it) {
  const test_folder folder;
  for (const char *name : {"strategy_least_loaded.so", "gate_engine.plugin.json"})
    std::filesystem::copy_file(std::filesystem::path(HIVE_PLUGIN_DIR) / name, folder.path() / name);
  plugins::settings settings;
  settings.trusted_dirs = {folder.path().string()};
  ASSERT_TRUE(registry_.load(settings).ok());
  const auto d = parse_policy("routing_policy: {strategy: least-loaded, exclude_if: {kv_cache_utilization: {gt: 0.9}}}", source_);
  ASSERT_FALSE(d);
  EXPECT_THAT(d.why().text(), HasSubstr("plugin gate_engine provides it and is gone: there is no " + (folder.path() / "gate_engine.so").string()));
  EXPECT_THAT(registry_.missing_field("kv_cache_utilization").message(), HasSubstr("the plugin \"gate_engine\" would provide it but is absent"));
  settings.enable = {"gate_engine"};
  plugins::component_registry named;
  EXPECT_THAT(named.load(settings).text(), HasSubstr("there is no gate_engine.so in the plugin folders"));
}

TEST_F(real_plugins, the_default_policy_works_with_none_of_them) {
  router routing(source_, fleet_.columns, outcomes_, {});
  const auto pool = fleet_.make_pool("qwen");
  ASSERT_TRUE(routing.add_pool(pool).ok());
  fleet_.add(pool, "a", 1);
  loop on;
  client c;
  request_facts facts;
  facts.model = "qwen";
  const auto flow = routing.open(on, facts, c);
  flow->next();
  on.io().poll();
  EXPECT_TRUE(c.slot);
  flow->report({});
}

}  // namespace
}  // namespace hive::routing
