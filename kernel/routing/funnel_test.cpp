#include "routing/funnel.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <mutex>

#include "routing/fixture.hpp"
#include "routing/policy_text.hpp"

namespace hive::routing {
namespace {

using testing::behaviour;
using testing::plan;

class funnel : public ::testing::Test {
 protected:
  testing::test_source source_;
  testing::test_fleet fleet_;
  std::shared_ptr<fleet::pool> pool_ = fleet_.make_pool("qwen");
  std::shared_ptr<lane> lane_ = std::make_shared<lane>(pool_, line_limits{});
  instance_store store_{source_};
  std::shared_ptr<step> step_;
  selection sel_;

  void SetUp() override { sel_.capability = "llm"; }
  void compile(const std::string &body) {
    const auto d = parse_policy("routing_policy: {" + body + "}", source_);
    ASSERT_TRUE(d) << d.why().text();
    auto s = step::compile(*d->document, 0, {source_, store_, fleet_.columns, lane_, 3});
    ASSERT_TRUE(s) << s.why().text();
    step_ = *std::move(s);
  }
  // The chosen agent's name, "full" or "none".
  std::string find() {
    const std::lock_guard lock(pool_->mutex());
    const funnel_result r = run_funnel(*pool_, *lane_, *step_, sel_);
    if (r.what == verdict::full) return "full";
    return r.what == verdict::none ? "none" : pool_->row(r.index).who->peer_id();
  }
  std::string why() {
    const std::lock_guard lock(pool_->mutex());
    return explain_empty(*pool_, *lane_, *step_, sel_).text();
  }
  void occupy(const std::string &name, uint32_t slots) {
    for (uint32_t i = 0; i < slots; ++i) ASSERT_TRUE(fleet_.agents[name]->slots.try_take());
    pool_->refresh(*fleet_.agents[name]);
  }
};

TEST_F(funnel, one_healthy_matching_agent_is_chosen) {
  compile("strategy: least-loaded");
  fleet_.add(pool_, "a", 2);
  EXPECT_EQ(find(), "a");
}

TEST_F(funnel, the_idle_one_wins_over_the_loaded_one) {
  compile("strategy: least-loaded");
  fleet_.add(pool_, "busy", 10);
  fleet_.add(pool_, "idle", 10);
  occupy("busy", 8);
  EXPECT_EQ(find(), "idle");
}

TEST_F(funnel, load_is_active_over_capacity) {
  compile("strategy: least-loaded");
  fleet_.add(pool_, "a", 20);
  fleet_.add(pool_, "b", 20);
  fleet_.add(pool_, "c", 10);
  occupy("a", 4);
  occupy("b", 8);
  occupy("c", 5);
  EXPECT_EQ(find(), "a");
}

TEST_F(funnel, an_agent_fits_when_nothing_but_its_capacity_keeps_it_out) {
  compile("strategy: least-loaded, match: {engine: vllm}, exclude_if: {gpu_temperature_c: {gt: 85}}");
  const auto vllm = [](auto &info) { info.engine = "vllm"; };
  fleet_.add(pool_, "free", 1, vllm);
  fleet_.add(pool_, "full", 1, vllm);
  occupy("full", 1);
  fleet_.add(pool_, "busy", 1, vllm);
  fleet_.set_standing(*pool_, "busy", fleet::standing_busy);
  fleet_.add(pool_, "other engine", 1);
  fleet_.add(pool_, "other capability", 1, [](auto &info) { info.engine = "vllm", info.capability = "embedding"; });
  fleet_.add(pool_, "sick", 1, vllm);
  fleet_.set_standing(*pool_, "sick", fleet::standing_engine_down);
  fleet_.add(pool_, "hot", 1, vllm);
  fleet_.signal(*pool_, "hot", "gpu_temperature_c", 90);
  fleet_.add(pool_, "failed", 1, vllm);
  fleet_.add(pool_, "barred", 1, vllm);
  sel_.failed = {fleet_.agents["failed"].get()};
  sel_.barred = {fleet_.agents["barred"].get()};
  const std::lock_guard lock(pool_->mutex());
  for (uint32_t i = 0; i < pool_->count(); ++i) {
    const std::string &name = pool_->row(i).who->peer_id();
    EXPECT_EQ(fits_but_for_capacity(*pool_, *step_, sel_, i), name == "free" || name == "full" || name == "busy") << name;
  }
}

TEST_F(funnel, the_gate_that_left_nobody_is_told_with_its_reasons) {
  compile("strategy: least-loaded, match: {engine: vllm, tags: [x]}");
  EXPECT_EQ(find(), "none");
  EXPECT_EQ(why(), "gate[1] model_filter [model_not_registered]");
  fleet_.add(pool_, "a", 1);
  fleet_.add(pool_, "b", 1);
  EXPECT_EQ(find(), "none");
  EXPECT_EQ(why(), "gate[4] match [engine(got=\"\",want=\"vllm\")=2]");
  sel_.capability = "embedding";
  EXPECT_EQ(find(), "none");
  EXPECT_EQ(why(), "gate[3] capability [capability_mismatch=2]");
  fleet_.set_standing(*pool_, "a", fleet::standing_silent);
  fleet_.set_standing(*pool_, "b", fleet::standing_engine_down);
  EXPECT_EQ(find(), "none");
  EXPECT_EQ(why(), "gate[2] health [unhealthy=2]");
}

TEST_F(funnel, each_thing_that_does_not_match_has_its_token) {
  fleet_.add(pool_, "a", 1, [](auto &i) { i.region = "eu", i.organization = "acme", i.machine = "m1", i.gpu_model = "H100", i.tags = {"prod", "fast"}; });
  const std::pair<const char *, const char *> cases[] = {
      {"region: EU", "region(got=\"eu\",want=\"EU\")"},          {"organization: other", "organization(got=\"acme\",want=\"other\")"},
      {"machine: m2", "machine(got=\"m1\",want=\"m2\")"},        {"gpu_model: L40S", "gpu_model(got=\"H100\",want=\"L40S\")"},
      {"tags: [prod, gpu]", "tag(missing=\"gpu\",got=[prod,fast])"}};
  for (const auto &[match, token] : cases) {
    compile("strategy: least-loaded, match: {" + std::string(match) + "}");
    EXPECT_EQ(find(), "none");
    EXPECT_EQ(why(), "gate[4] match [" + std::string(token) + "=1]");
  }
}

TEST_F(funnel, missing_tag_has_its_form) {
  compile("strategy: least-loaded, match: {tags: [x]}");
  fleet_.add(pool_, "a", 1);
  fleet_.add(pool_, "b", 1);
  EXPECT_EQ(find(), "none");
  EXPECT_EQ(why(), "gate[4] match [tag(missing=\"x\",got=[])=2]");
}

TEST_F(funnel, violated_fields_are_counted_together_and_sorted) {
  compile("strategy: least-loaded, exclude_if: {kv_cache_utilization: {gt: 0.95}, gpu_temperature_c: {gt: 85}}");
  for (const char *name : {"a", "b", "c"}) fleet_.add(pool_, name, 1);
  fleet_.signal(*pool_, "a", "kv_cache_utilization", 0.97);
  fleet_.signal(*pool_, "b", "kv_cache_utilization", 0.98);
  fleet_.signal(*pool_, "c", "kv_cache_utilization", 0.5);
  EXPECT_EQ(find(), "c");
  fleet_.signal(*pool_, "c", "kv_cache_utilization", 0.99);
  fleet_.signal(*pool_, "c", "gpu_temperature_c", 90);
  EXPECT_EQ(find(), "none");
  EXPECT_EQ(why(), "gate[7] exclude_if [gpu_temperature_c,kv_cache_utilization=1, kv_cache_utilization=2]");
}

// Queue when somebody passed gates 1 to 5 and lacks only a slot; an unrelated agent does not change that.
TEST_F(funnel, full_is_when_only_a_slot_is_missing) {
  compile("strategy: least-loaded, match: {region: eu}");
  fleet_.add(pool_, "a", 1, [](auto &i) { i.region = "eu"; });
  fleet_.add(pool_, "b", 1, [](auto &i) { i.region = "us"; });
  fleet_.add(pool_, "c", 1, [](auto &i) { i.region = "eu"; });
  fleet_.set_standing(*pool_, "c", fleet::standing_unlinked);
  occupy("a", 1);
  EXPECT_EQ(find(), "full");
  EXPECT_EQ(sel_.held, 1u);
  sel_.failed = {fleet_.agents["a"].get()};
  EXPECT_EQ(find(), "none");
  EXPECT_EQ(why(), "gate[5] prev_failures [unhealthy=1, region(got=\"us\",want=\"eu\")=1, prev_failed=1]");
}

TEST_F(funnel, a_busy_agent_counts_as_full_and_a_draining_one_as_unhealthy) {
  compile("strategy: least-loaded");
  fleet_.add(pool_, "a", 4);
  fleet_.set_standing(*pool_, "a", fleet::standing_busy);
  EXPECT_EQ(find(), "full");
  fleet_.set_standing(*pool_, "a", fleet::standing_busy | fleet::standing_draining);
  EXPECT_EQ(find(), "none");
}

TEST_F(funnel, failed_and_barred_agents_stay_out_and_avoided_ones_come_last) {
  compile("strategy: least-loaded");
  for (const char *name : {"a", "b"}) fleet_.add(pool_, name, 4);
  occupy("b", 3);
  sel_.avoided = {fleet_.agents["a"].get()};
  EXPECT_EQ(find(), "b");
  sel_.failed = {fleet_.agents["b"].get()};
  EXPECT_EQ(find(), "a");
  sel_.barred = {fleet_.agents["a"].get()};
  EXPECT_EQ(find(), "none");
  EXPECT_EQ(why(), "gate[5] prev_failures [prev_failed=2]");
}

// Naive variants: the idle one wins, and whoever fails at once is always idle; it is never asked again; a pool of such agents is empty.
TEST_F(funnel, an_agent_on_probation_waits_for_its_probe_unless_there_is_nobody_else) {
  compile("strategy: least-loaded");
  for (const char *name : {"good", "bad", "worse"}) fleet_.add(pool_, name, 4);
  occupy("good", 3);
  const uint64_t later = now_ns() + 3600 * ns_per_s;
  for (const char *name : {"bad", "worse"}) {
    fleet::agent &a = *fleet_.agents[name];
    a.counters.streak = 3;
    a.probe_at_ns = later;
    EXPECT_TRUE(a.judge_streak(3));
    pool_->refresh(a);
  }
  EXPECT_EQ(find(), "good");
  fleet_.agents["bad"]->probe_at_ns = 0;
  EXPECT_EQ(find(), "bad") << "its probe is due, and it is the idle one";
  occupy("bad", 1);
  EXPECT_EQ(find(), "good") << "one at a time";
  occupy("good", 1);
  EXPECT_EQ(find(), "worse") << "nobody else has a slot";
  occupy("worse", 1);
  EXPECT_EQ(find(), "full");
  fleet_.agents["bad"]->counters.streak = 0;
  EXPECT_TRUE(fleet_.agents["bad"]->judge_streak(3));
  pool_->refresh(*fleet_.agents["bad"]);
  EXPECT_EQ(find(), "bad");
}

struct gate_case {
  const char *rule;
  double value;
  bool passes;
};
class gate_table : public funnel, public ::testing::WithParamInterface<gate_case> {};

TEST_P(gate_table, holds) {
  compile(std::string("strategy: least-loaded, exclude_if: {kv_cache_utilization: ") + GetParam().rule + "}");
  fleet_.add(pool_, "a", 1);
  if (!std::isnan(GetParam().value)) fleet_.signal(*pool_, "a", "kv_cache_utilization", GetParam().value);
  EXPECT_EQ(find(), GetParam().passes ? "a" : "none");
}
INSTANTIATE_TEST_SUITE_P(each_comparison, gate_table,
                         ::testing::Values(gate_case{"{gt: 0.8}", 0.9, false}, gate_case{"{gt: 0.95}", 0.9, true},
                                           gate_case{"{lt: 0.5}", 0.9, true}, gate_case{"{lt: 0.95}", 0.9, false},
                                           gate_case{"{gte: 0.9}", 0.9, false}, gate_case{"{lte: 0.9}", 0.9, false},
                                           gate_case{"{gt: 0.9}", 0.9, true}, gate_case{"{lt: 0.9}", 0.9, true},
                                           gate_case{"{gt: 0.8}", NAN, true}, gate_case{"{lt: 0.8}", NAN, true},
                                           gate_case{"{gt: 0.8, on_missing: exclude}", NAN, false},
                                           gate_case{"{gt: 0.8, on_missing: exclude}", 0.5, true},
                                           gate_case{"{gt: 0.8, on_missing: exclude}", 0.9, false}));

TEST_F(funnel, kernel_columns_are_gate_fields) {
  compile("strategy: least-loaded, exclude_if: {capacity_utilization: {gte: 0.5}}");
  fleet_.add(pool_, "a", 4);
  EXPECT_EQ(find(), "a");
  occupy("a", 2);
  EXPECT_EQ(find(), "none");
  EXPECT_EQ(why(), "gate[7] exclude_if [capacity_utilization=1]");
}

TEST_F(funnel, a_value_older_than_max_age_is_missing) {
  compile("strategy: least-loaded, exclude_if: {kv_cache_utilization: {gt: 0.8, max_age: 1s}}");
  fleet::agent &a = fleet_.add(pool_, "a", 1);
  const hive_column id = fleet_.columns.intern("kv_cache_utilization");
  pool_->write(a, id, 0.9, now_ns(), 3600 * ns_per_s);
  EXPECT_EQ(find(), "none");
  pool_->write(a, id, 0.9, now_ns() - 5 * ns_per_s, 3600 * ns_per_s);
  EXPECT_EQ(find(), "a");
}

TEST_F(funnel, custom_rules_are_judged_by_their_gate) {
  compile("strategy: least-loaded, exclude_if: {srtt_upper: {gt: 5}, kv_cache_utilization: {gt: 0.8}}");
  EXPECT_EQ(plan().rules, std::vector<std::string>{R"(srtt_upper={"gt":5})"});
  fleet::agent &slow = fleet_.add(pool_, "slow", 1);
  slow.latency.add(500, fleet::request_kind::chat);
  pool_->refresh_outcome(slow);
  EXPECT_EQ(find(), "none");
  EXPECT_EQ(why(), "gate[7] exclude_if [srtt_upper=1]");
  fleet_.add(pool_, "fast", 1);
  EXPECT_EQ(find(), "fast");
}

// Naive variants: one latency for all, so that long answers keep streams out; verdicts kept for one kind are given to another;
// a kind's write reaches only the verdicts of the kind that selects next.
TEST_F(funnel, a_rule_on_latency_judges_by_that_of_the_requests_kind) {
  using fleet::request_kind;
  compile("strategy: least-loaded, exclude_if: {srtt: {gt: 800}, kv_cache_utilization: {gt: 0.9}}");
  fleet::agent &a = fleet_.add(pool_, "a", 1);
  const auto found = [&](request_kind kind) {
    sel_.kind = kind;
    return find();
  };
  const auto sample = [&](double ms, request_kind kind) {
    a.latency.add(ms, kind);
    pool_->refresh_outcome(a);
  };
  for (const request_kind kind : fleet::all_kinds) EXPECT_EQ(found(kind), "a") << "nothing is known";
  sample(5000, request_kind::chat);
  for (const request_kind kind : fleet::all_kinds) EXPECT_EQ(found(kind), "none") << "the blended value is all there is";
  sample(200, request_kind::stream);
  EXPECT_EQ(found(request_kind::stream), "a");
  EXPECT_EQ(found(request_kind::chat), "none");
  EXPECT_EQ(why(), "gate[7] exclude_if [srtt=1]");
  EXPECT_EQ(found(request_kind::other), "none") << "blended: 2,600 ms";
  for (int i = 0; i < 4; ++i) sample(200, request_kind::stream);
  EXPECT_EQ(found(request_kind::other), "a") << "blended: 350 ms";
  EXPECT_EQ(found(request_kind::chat), "none");
  {
    const std::lock_guard lock(pool_->mutex());
    EXPECT_FALSE(fits_but_for_capacity(*pool_, *step_, sel_, 0));
    sel_.kind = request_kind::stream;
    EXPECT_TRUE(fits_but_for_capacity(*pool_, *step_, sel_, 0));
  }
  fleet_.signal(*pool_, "a", "kv_cache_utilization", 0.95);
  for (const request_kind kind : fleet::all_kinds) EXPECT_EQ(found(kind), "none") << "what has no kind counts for all";
  fleet_.signal(*pool_, "a", "kv_cache_utilization", 0.5);
  for (int i = 0; i < 5; ++i) sample(100, request_kind::chat);
  EXPECT_EQ(found(request_kind::chat), "a");
}

TEST_F(funnel, what_a_rule_on_latency_remembers_is_each_kinds_own) {
  using fleet::request_kind;
  compile("strategy: least-loaded, exclude_if: {srtt: {gt: 800, leave: 300}}");
  fleet::agent &a = fleet_.add(pool_, "a", 1);
  const auto found = [&](request_kind kind, double ms) {
    a.latency.reset();
    a.latency.add(ms, kind);
    pool_->refresh_outcome(a);
    sel_.kind = kind;
    return find();
  };
  EXPECT_EQ(found(request_kind::chat, 900), "none");
  EXPECT_EQ(found(request_kind::stream, 500), "a");
  EXPECT_EQ(found(request_kind::chat, 500), "none") << "kept out until it is past leave";
  EXPECT_EQ(found(request_kind::chat, 200), "a");
}

TEST_F(funnel, gates_of_plugins_see_the_latency_of_the_requests_kind) {
  compile("strategy: least-loaded, exclude_if: {srtt_upper: {gt: 5}}");
  fleet::agent &a = fleet_.add(pool_, "a", 1);
  a.latency.add(500, fleet::request_kind::chat);
  a.latency.add(50, fleet::request_kind::stream);
  pool_->refresh_outcome(a);
  EXPECT_EQ(find(), "none");
  sel_.kind = fleet::request_kind::stream;
  EXPECT_EQ(find(), "a");
}

TEST_F(funnel, a_failing_gate_passes_or_excludes_as_the_step_says_and_is_counted) {
  fleet::agent &slow = fleet_.add(pool_, "slow", 1);
  slow.latency.add(500, fleet::request_kind::chat);
  pool_->refresh_outcome(slow);
  compile("strategy: least-loaded, exclude_if: {srtt_upper: {gt: 5}}");
  plan().evaluate_status = HIVE_E_INTERNAL;
  EXPECT_EQ(find(), "slow");
  EXPECT_EQ(step_->gates()[0].gate->errors, 1u);
  compile("strategy: least-loaded, on_error: exclude, exclude_if: {srtt_upper: {gt: 5}}");
  EXPECT_EQ(find(), "none");
  EXPECT_EQ(why(), "gate[7] exclude_if [srtt_upper=1]");
}

TEST_F(funnel, a_lying_strategy_is_counted_and_replaced_by_the_least_loaded_order) {
  compile("strategy: liar");
  for (const char *name : {"a", "b", "c"}) fleet_.add(pool_, name, 2);
  occupy("a", 2);
  occupy("b", 1);
  EXPECT_EQ(find(), "c");                          // out of range
  plan().wrong_index = static_cast<uint32_t>(-3);  // slot 0: full, so not a candidate
  EXPECT_EQ(find(), "c");
  plan().select_status = HIVE_E_INTERNAL;
  EXPECT_EQ(find(), "c");
  plan().select_status = 99;                       // a code nobody knows
  EXPECT_EQ(find(), "c");
  EXPECT_EQ(step_->strategy().errors, 4u);
}

TEST_F(funnel, a_strategy_may_choose_nobody) {
  compile("strategy: liar");
  plan().select_status = HIVE_NO_CHOICE;
  fleet_.add(pool_, "a", 1);
  EXPECT_EQ(find(), "none");
  EXPECT_EQ(why(), "gate[8] strategy [strategy(liar)=1]");
  fleet_.add(pool_, "b", 1);
  occupy("b", 1);
  EXPECT_EQ(find(), "full");
  EXPECT_EQ(step_->strategy().errors, 0u);
}

TEST_F(funnel, instances_hear_of_each_epoch_once) {
  compile("strategy: least-loaded");
  fleet_.add(pool_, "a", 1);
  find();
  find();
  EXPECT_EQ(plan().epochs.size(), 1u);
  fleet_.add(pool_, "b", 1);
  find();
  EXPECT_EQ(plan().epochs.size(), 2u);
}

TEST_F(funnel, an_empty_slot_is_never_chosen) {
  compile("strategy: least-loaded");
  fleet_.add(pool_, "a", 1);
  fleet_.add(pool_, "b", 1);
  pool_->leave(*fleet_.agents["a"]);
  EXPECT_EQ(find(), "b");
  pool_->leave(*fleet_.agents["b"]);
  EXPECT_EQ(find(), "none");
  EXPECT_EQ(why(), "gate[1] model_filter [model_not_registered]");
}

TEST_F(funnel, a_large_pool_explains_once_in_a_while) {
  compile("strategy: least-loaded, match: {region: eu}");
  for (int i = 0; i < 300; ++i) fleet_.add(pool_, "a" + std::to_string(i), 1, [i](auto &a) { a.region = "r" + std::to_string(i); });
  EXPECT_EQ(find(), "none");
  const std::string first = why();
  EXPECT_THAT(first, ::testing::HasSubstr("other=284"));
  EXPECT_EQ(why(), first);
}

// Naive variant: what was said to the first of a flood is said to all, also to those who ask for something else.
TEST_F(funnel, a_large_pool_explains_each_capability_for_itself) {
  compile("strategy: least-loaded, exclude_if: {kv_cache_utilization: {gt: 0.5}}");
  for (int i = 0; i < 300; ++i) {
    const std::string name = "a" + std::to_string(i);
    fleet_.add(pool_, name, 1, [](auto &a) { a.capability = "embedding"; });
    fleet_.signal(*pool_, name, "kv_cache_utilization", 0.9);
  }
  for (int round = 0; round < 2; ++round) {
    sel_.capability = "llm";
    EXPECT_EQ(find(), "none");
    EXPECT_EQ(why(), "gate[3] capability [capability_mismatch=300]");
    sel_.capability = "embedding";
    EXPECT_EQ(find(), "none");
    EXPECT_EQ(why(), "gate[7] exclude_if [kv_cache_utilization=300]");
  }
}

TEST_F(funnel, what_custom_gates_judged_of_one_request_is_not_said_of_another) {
  compile("strategy: least-loaded, exclude_if: {srtt_upper: {gt: 100}}");
  for (int i = 0; i < 300; ++i) {
    fleet::agent &a = fleet_.add(pool_, "a" + std::to_string(i), 1);
    a.latency.add(200, fleet::request_kind::chat);
    pool_->refresh_outcome(a);
  }
  EXPECT_EQ(find(), "none");
  EXPECT_EQ(why(), "gate[7] exclude_if [srtt_upper=300]");
  for (int i = 0; i < 300; ++i) fleet_.set_standing(*pool_, "a" + std::to_string(i), fleet::standing_engine_down);
  EXPECT_EQ(find(), "none");
  EXPECT_EQ(why(), "gate[2] health [unhealthy=300]");
}

TEST_F(funnel, a_failing_create_names_step_and_reason) {
  plan().create_fails = true;
  const auto d = parse_policy("routing_policy: {strategy: least-loaded}", source_);
  const auto s = step::compile(*d->document, 0, {source_, store_, fleet_.columns, lane_, 3});
  ASSERT_FALSE(s);
  EXPECT_EQ(s.why().text(), "routing_policy: the component said no");
}

}  // namespace
}  // namespace hive::routing
