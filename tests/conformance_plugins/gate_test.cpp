#include <gmock/gmock.h>

#include <cmath>

#include "loaded.hpp"

namespace hive::conformance {
namespace {

using testing::HasSubstr;
constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

struct expected_field {
  const char *name, *gate, *unit, *column;
  uint32_t rule;
  double max;
  bool shed = false;
};

class gate_fields : public testing::TestWithParam<expected_field> {};

TEST_P(gate_fields, are_served_with_unit_column_and_range) {
  const auto &want = GetParam();
  const plugins::gate_field *f = registry().field(want.name);
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->gate->id(), want.gate);
  EXPECT_EQ(f->field->unit, want.unit);
  EXPECT_EQ(f->field->column, want.column);
  EXPECT_EQ(f->field->rule, want.rule);
  EXPECT_EQ(f->field->max, want.max);
  EXPECT_EQ((f->field->flags & HIVE_FIELD_SHED) != 0, want.shed) << "only these two may stand in shed_if";
  EXPECT_FALSE(f->field->summary.empty());
}

INSTANTIATE_TEST_SUITE_P(all, gate_fields,
                         testing::Values(expected_field{"srtt", "srtt", "ms", "srtt_ms", HIVE_RULE_THRESHOLD, 3'600'000},
                                         expected_field{"srtt_upper", "srtt", "ms", "", HIVE_RULE_CUSTOM, 0},
                                         expected_field{"gpu_temperature_c", "hardware", "C", "gpu_temperature_c", HIVE_RULE_THRESHOLD, 150},
                                         expected_field{"gpu_util_percent", "hardware", "fraction", "gpu_util_percent", HIVE_RULE_THRESHOLD, 1},
                                         expected_field{"gpu_vram_used_percent", "hardware", "fraction", "gpu_vram_used_percent", HIVE_RULE_THRESHOLD, 1},
                                         expected_field{"memory_used_percent", "hardware", "fraction", "memory_used_percent", HIVE_RULE_THRESHOLD, 1},
                                         expected_field{"cpu_usage_percent", "hardware", "fraction", "cpu_usage_percent", HIVE_RULE_THRESHOLD, 1},
                                         expected_field{"kv_cache_utilization", "engine", "fraction", "kv_cache_utilization", HIVE_RULE_THRESHOLD, 1, true},
                                         expected_field{"running_requests", "engine", "count", "running_requests", HIVE_RULE_THRESHOLD, 1e6},
                                         expected_field{"waiting_requests", "engine", "count", "waiting_requests", HIVE_RULE_THRESHOLD, 1e6, true},
                                         expected_field{"avg_ttft_seconds", "engine", "s", "avg_ttft_seconds", HIVE_RULE_THRESHOLD, 3600},
                                         expected_field{"p90_ttft_seconds", "engine", "s", "p90_ttft_seconds", HIVE_RULE_THRESHOLD, 3600},
                                         expected_field{"avg_itl_seconds", "engine", "s", "avg_itl_seconds", HIVE_RULE_THRESHOLD, 3600},
                                         expected_field{"p90_itl_seconds", "engine", "s", "p90_itl_seconds", HIVE_RULE_THRESHOLD, 3600},
                                         expected_field{"capacity_utilization", "reliability", "fraction", "capacity_utilization", HIVE_RULE_THRESHOLD, 1},
                                         expected_field{"success_rate", "reliability", "fraction", "success_rate", HIVE_RULE_THRESHOLD, 1},
                                         expected_field{"success_rate_5m", "reliability", "fraction", "success_rate_5m", HIVE_RULE_THRESHOLD, 1},
                                         expected_field{"consecutive_failures", "reliability", "count", "consecutive_failures", HIVE_RULE_THRESHOLD, 1e6}),
                         [](const auto &one) { return one.param.name; });

class gates : public testing::TestWithParam<const char *> {};

// One instance a gate, with a rule for each custom field it has.
TEST_P(gates, give_the_same_verdicts_for_the_same_input_within_bounds) {
  const plugins::component *c = registry().find(HIVE_KIND_GATE, GetParam());
  ASSERT_NE(c, nullptr);
  const auto *table = static_cast<const hive_gate_vtable *>(c->table()->vtable);
  uint32_t custom = 0;
  std::vector<std::pair<std::string, std::string>> rules;
  for (const auto &f : c->what->fields) {
    if (f.rule != HIVE_RULE_CUSTOM) continue;
    custom |= 1u << f.bit;
    rules.emplace_back(f.name, R"({"gt": 100})");
  }
  EXPECT_EQ(table->evaluate != nullptr, custom != 0) << "a gate of thresholds has no code";
  check::sample_pool pool(200);
  pool_services services(pool);
  auto made = plugins::instance::make(registry(), *c, {"test", "", "", rules}, services);
  ASSERT_TRUE(made.ok()) << made.why().text();
  if (custom == 0) {
    EXPECT_EQ((*made)->self(), nullptr);
    return;
  }
  std::vector<double> values(200);
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % 7 == 0 ? no_number : static_cast<double>(i);
  pool.set_all(values);
  const hive_request r = check::sample_request();
  std::vector<uint32_t> first(201, 0xABABABAB), again(201, 0xCDCDCDCD);
  ASSERT_EQ(table->evaluate((*made)->self(), &r, pool.view(), first.data()), HIVE_OK);
  ASSERT_EQ(table->evaluate((*made)->self(), &r, pool.view(), again.data()), HIVE_OK);
  EXPECT_EQ(first.back(), 0xABABABABu);
  EXPECT_EQ(again.back(), 0xCDCDCDCDu);
  for (size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(first[i], again[i]);
    EXPECT_EQ(first[i] & ~custom, 0u) << "threshold bits are the kernel's";
  }
}

INSTANTIATE_TEST_SUITE_P(all, gates, testing::Values("srtt", "hardware", "engine", "reliability"), [](const auto &one) { return one.param; });

std::vector<uint32_t> srtt_verdicts(const std::vector<std::string> &rules, std::vector<double> srtt, std::vector<double> rttvar, status *why = nullptr) {
  check::sample_pool pool(static_cast<uint32_t>(srtt.size()));
  pool_services services(pool);
  std::vector<std::pair<std::string, std::string>> given;
  for (const auto &r : rules) given.emplace_back("srtt_upper", r);
  auto made = plugins::instance::make(registry(), *registry().find(HIVE_KIND_GATE, "srtt"), {"test", "", "", given}, services);
  if (why != nullptr) *why = made.ok() ? status() : made.why();
  if (!made.ok()) return {};
  if (!srtt.empty()) pool.set("srtt_ms", srtt);
  if (!rttvar.empty()) pool.set("rttvar_ms", rttvar);
  const hive_request r = check::sample_request();
  std::vector<uint32_t> out(srtt.size(), 99);
  EXPECT_EQ((*made)->gate()->evaluate((*made)->self(), &r, pool.view(), out.data()), HIVE_OK);
  return out;
}

TEST(srtt_upper, compares_srtt_plus_k_times_rttvar) {
  // The estimator's worked numbers: 200/50 is 400 at k = 4, 800/1237.5 is 5750.
  EXPECT_EQ(srtt_verdicts({R"({"gt": 400})"}, {200, 800, no_number, 401, 400}, {50, 1237.5, 7, no_number, 0}), (std::vector<uint32_t>{0, 2, 0, 2, 0}));
  EXPECT_EQ(srtt_verdicts({R"({"gt": 800, "k": 0})"}, {800, 801}, {1e9, 0}), (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(srtt_verdicts({R"({"gt": 1e6})", R"({"gt": 5, "k": 1})"}, {5, 4}, {1, 1}), (std::vector<uint32_t>{2, 0})) << "any rule violated";
  EXPECT_EQ(srtt_verdicts({R"({"gt": 100})"}, {200}, {}), (std::vector<uint32_t>{2})) << "a missing RTTVAR counts as 0";
}

TEST(srtt_upper, refuses_rules_that_make_no_sense) {
  const std::pair<const char *, const char *> cases[] = {
      {"5", "must be an object"},        {"{}", "gt is required"},
      {R"({"gt": "5"})", "gt must be"},  {R"({"gt": -1})", "gt must be a number of milliseconds, 0 or more"},
      {R"({"gt": 5, "k": 101})", "k must be a number from 0 to 100"}, {R"({"gt": 5, "K": 1})", "unknown key \"K\""},
  };
  for (const auto &[rule, words] : cases) {
    status why;
    srtt_verdicts({rule}, {1}, {1}, &why);
    EXPECT_THAT(why.message(), HasSubstr(words)) << rule;
    EXPECT_EQ(why.code(), errc::invalid);
  }
}

}  // namespace
}  // namespace hive::conformance
