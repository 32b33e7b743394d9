#include "plugins/instance.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>

#include "hive/sdk/gate.hpp"
#include "hive/sdk/strategy.hpp"
#include "plugins/recording_services.hpp"

namespace hive::plugins {
namespace {

using testing::HasSubstr;

int alive = 0;

// Does what its configuration says, to show what the host makes of it.
class probe_strategy {
 public:
  static constexpr std::string_view id = "probe";
  static constexpr std::string_view summary = "test";
  static constexpr std::string_view schema = R"({"type": "object", "additionalProperties": false, "properties": {
    "fail": {"type": "boolean", "default": false}, "name": {"type": "string", "default": "é\n"}}})";
  static void check(const sdk::options &o) {
    if (o.text("name") == "forbidden") throw sdk::failure(HIVE_E_CONFIG, "name: not that one");
  }
  explicit probe_strategy(const sdk::setup &s) : host(s.host), name(s.options.text("name")) {
    if (s.options.boolean("fail", true)) throw std::runtime_error("told to fail");
    column = host.column("load");
    counter = host.counter("choices_total", "choices");
    refused = host.counter("Bad Name", "no");
    ++alive;
  }
  ~probe_strategy() { --alive; }
  std::optional<uint32_t> select(const sdk::request &, const sdk::pool &) const { throw std::runtime_error("always"); }
  void on_pool(const sdk::pool &) {
    for (const double more : {2.0, double{NAN}, HUGE_VAL}) counter.add(more);
    refused.add();
    host.warn("hello");
    posted = host.post([](void *arg) noexcept { ++*static_cast<int *>(arg); }, &ran);
    late_column = host.column("late");
  }

  sdk::host host;
  std::string name;
  hive_column column = 0, late_column = 99;
  sdk::host::metric counter, refused;
  hive_status posted = 0;
  static inline int ran = 0;
};

struct rules_gate {
  static constexpr std::string_view id = "rules";
  static constexpr std::string_view summary = "test";
  static constexpr std::array fields{sdk::custom_field("odd", "", "test")};
  explicit rules_gate(const sdk::setup &s) {
    for (const hive_rule *r : sdk::rules_of(s)) seen += std::string(sdk::view(r->field)) + "=" + std::string(sdk::view(r->json));
  }
  void evaluate(const sdk::request &, const sdk::pool &, std::span<uint32_t>) const {}
  std::string seen;
};

const hive_component *const probe_list[] = {&sdk::strategy<probe_strategy>::component, &sdk::gate<rules_gate>::component};
const hive_plugin probe_table{sizeof(hive_plugin), HIVE_ABI_MAJOR, HIVE_ABI_MINOR, 2, 0, HIVE_STR("t"), HIVE_STR("1"),
                              HIVE_STR("v"), HIVE_STR("l"), probe_list};

class instances : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(registry.add(&probe_table, "tests").ok()); }
  std::unique_ptr<instance> make(std::string json = "") {
    auto i = instance::make(registry, *registry.find(HIVE_KIND_STRATEGY, "probe"), {"edge/m", "", std::move(json), {}}, services);
    EXPECT_TRUE(i.ok()) << i.why().text();
    return std::move(*i);
  }
  static probe_strategy &of(instance &i) { return *static_cast<probe_strategy *>(i.self()); }
  component_registry registry;
  recording_services services;
};

TEST_F(instances, are_created_with_defaults_and_destroyed_once) {
  auto i = make();
  EXPECT_EQ(alive, 1);
  EXPECT_EQ(of(*i).name, "é\n");
  EXPECT_EQ(of(*i).column, 1u);
  i.reset();
  EXPECT_EQ(alive, 0);
  int listed = 0;
  registry.each_instance([&](const instance &) { ++listed; });
  EXPECT_EQ(listed, 0);
}

TEST_F(instances, report_what_the_author_threw) {
  const auto i = instance::make(registry, *registry.find(HIVE_KIND_STRATEGY, "probe"), {"x", "", R"({"fail": true})", {}}, services);
  EXPECT_EQ(i.why().message(), "strategy/probe cannot be created: told to fail");
  const auto j = instance::make(registry, *registry.find(HIVE_KIND_STRATEGY, "probe"), {"x", "", R"({"name": "forbidden"})", {}}, services);
  EXPECT_EQ(j.why().message(), "name: not that one");
  EXPECT_EQ(alive, 0);
}

TEST_F(instances, get_the_custom_rules_of_their_step) {
  const auto i = instance::make(registry, *registry.find(HIVE_KIND_GATE, "rules"), {"x", "", "", {{"odd", "[1]"}, {"odd", "2"}}}, services);
  ASSERT_TRUE(i.ok());
  EXPECT_EQ(static_cast<rules_gate *>((*i)->self())->seen, "odd=[1]odd=2");
  EXPECT_NE((*i)->gate(), nullptr);
  EXPECT_EQ((*i)->strategy(), nullptr);
}

TEST_F(instances, reach_the_hosts_services) {
  auto i = make();
  hive_pool pool{};
  i->strategy()->on_pool(i->self(), &pool);
  ASSERT_EQ(services.metrics.size(), 1u);
  EXPECT_EQ(services.metrics[0].first, "hivenet_router_plugin_strategy_probe_choices_total");
  EXPECT_EQ(services.metrics[0].second, 2);
  EXPECT_EQ(services.lines.at(0), "strategy/probe edge/m: hello");
  EXPECT_EQ(of(*i).late_column, 0u) << "columns are for create only";
  services.run_posted();
  EXPECT_EQ(probe_strategy::ran, 1);
}

TEST_F(instances, drop_posted_work_once_destroyed) {
  probe_strategy::ran = 0;
  auto i = make();
  hive_pool pool{};
  i->strategy()->on_pool(i->self(), &pool);
  i.reset();
  services.run_posted();
  EXPECT_EQ(probe_strategy::ran, 0);
}

TEST_F(instances, log_at_a_bounded_rate) {
  auto i = make();
  for (int k = 0; k < 500; ++k) of(*i).host.info("line");
  EXPECT_EQ(services.lines.size(), 50u);
  services.clock.advance(ns_per_s);
  of(*i).host.info("later");
  EXPECT_EQ(services.lines.size(), 52u);
  EXPECT_EQ(services.lines[50], "strategy/probe edge/m: 450 lines were dropped, it logs too much");
}

TEST_F(instances, stop_being_used_after_five_failures_and_are_tried_again) {
  auto i = make();
  const auto fail_once = [&] {
    hive_request r{};
    hive_pool p{};
    hive_choice c{};
    call guard(*i);
    EXPECT_EQ(guard.result(i->strategy()->select(i->self(), &r, &p, &c)), HIVE_E_INTERNAL);
  };
  for (int k = 0; k < 5; ++k) {
    EXPECT_TRUE(i->usable(services.now()));
    fail_once();
  }
  EXPECT_FALSE(i->usable(services.now()));
  EXPECT_THAT(services.lines.back(), HasSubstr("keeps failing, its fallback is used for 30 s"));
  services.clock.advance(30 * ns_per_s);
  EXPECT_TRUE(i->usable(services.now())) << "one trial";
  EXPECT_FALSE(i->usable(services.now())) << "and no second beside it";
  { call guard(*i); guard.result(HIVE_OK); }
  EXPECT_TRUE(i->usable(services.now()));
  { call guard(*i); guard.wrong_answer("index 9 of 5"); }
  const auto s = i->stats().read();
  EXPECT_EQ(s.calls, 7u);
  EXPECT_EQ(s.failures, 5u);
  EXPECT_EQ(s.wrong_answers, 1u);
  EXPECT_EQ(s.last_error, "index 9 of 5");
}

TEST_F(instances, time_one_call_in_64) {
  auto i = make();
  for (int k = 0; k < 129; ++k) {
    call guard(*i);
    services.clock.advance(1000);
    guard.result(HIVE_OK);
  }
  const auto s = i->stats().read();
  EXPECT_EQ(s.sampled, 3u);
  EXPECT_EQ(s.p50_ns, 1024u);
  EXPECT_EQ(s.max_ns, 1000u);
}

TEST_F(instances, a_crash_names_the_component_and_the_instance) {
  auto i = make();
  EXPECT_EXIT(
      {
        signal(SIGABRT, SIG_DFL);
        install_crash_handler();
        call guard(*i);
        abort();
      },
      testing::KilledBySignal(SIGABRT), "crashed inside plugin component strategy/probe, instance edge/m");
  EXPECT_EQ(on_stack, nullptr);
}

TEST(registry, refuses_a_second_library_with_the_same_component) {
  component_registry r;
  ASSERT_TRUE(r.add(&probe_table, "one").ok());
  EXPECT_EQ(r.add(&probe_table, "two").message(), "its strategy \"probe\" is already provided by \"one\"");
}

}  // namespace
}  // namespace hive::plugins
