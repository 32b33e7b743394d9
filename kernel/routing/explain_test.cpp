#include "routing/explain.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "routing/session_bed.hpp"

namespace hive::routing {
namespace {

using ::testing::HasSubstr;

class explained : public testing::sessions {
 protected:
  explanation look() {
    return router_->explain(facts());
  }
  static const agent_fate &of(const step_fate &s, const std::string &name) {
    for (const agent_fate &a : s.agents)
      if (a.peer_id == name) return a;
    ADD_FAILURE() << "no agent " << name;
    return s.agents.at(0);
  }
  void occupy(const std::string &name, uint32_t slots) {
    for (uint32_t i = 0; i < slots; ++i) ASSERT_TRUE(fleet_.agents[name]->slots.try_take());
    pool_->refresh(*fleet_.agents[name]);
  }
};

TEST_F(explained, every_gate_names_what_it_keeps_out_and_what_would_let_it_in) {
  start("routing_policy: {strategy: least-loaded, match: {region: eu}, exclude_if: {kv_cache_utilization: {gt: 0.5}}}");
  const auto eu = [](fleet::agent_info &i) { i.region = "eu"; };
  fleet_.add(pool_, "well", 4, eu);
  fleet_.add(pool_, "sick", 4, eu);
  fleet_.set_standing(*pool_, "sick", fleet::standing_engine_down);
  fleet_.add(pool_, "embeds", 4, [](fleet::agent_info &i) { i.region = "eu", i.capability = "embedding"; });
  fleet_.add(pool_, "far", 4, [](fleet::agent_info &i) { i.region = "us"; });
  fleet_.add(pool_, "full", 2, eu);
  occupy("full", 2);
  fleet_.add(pool_, "slow", 4, eu);
  fleet_.signal(*pool_, "slow", "kv_cache_utilization", 0.75);

  const explanation e = look();
  ASSERT_EQ(e.steps.size(), 1u);
  ASSERT_EQ(e.serves, std::optional<size_t>(0));
  const step_fate &s = e.steps[0];
  EXPECT_EQ(s.candidates, 1u);
  EXPECT_EQ(s.empty, "");
  EXPECT_TRUE(of(s, "well").chosen);
  const struct {
    const char *name;
    funnel_gate gate;
    const char *token, *change;
  } cases[] = {{"sick", funnel_gate::health, "unhealthy", "its engine must answer"},
               {"embeds", funnel_gate::capability, "capability_mismatch", "it serves embedding requests, this one needs llm"},
               {"far", funnel_gate::match, "region(got=\"us\",want=\"eu\")", "it must match the step: region(got=\"us\",want=\"eu\")"},
               {"full", funnel_gate::capacity, "at_capacity", "one of its 2 slots must get free"},
               {"slow", funnel_gate::exclude_if, "kv_cache_utilization", "kv_cache_utilization must not be gt 0.5 (it is 0.75)"}};
  for (const auto &c : cases) {
    const agent_fate &a = of(s, c.name);
    EXPECT_EQ(a.stopped, c.gate) << c.name;
    EXPECT_EQ(a.token, c.token) << c.name;
    EXPECT_EQ(a.change, c.change) << c.name;
    EXPECT_FALSE(a.chosen) << c.name;
  }
  ASSERT_EQ(of(s, "slow").rules.size(), 1u);
  EXPECT_EQ(of(s, "slow").rules[0].now.value, 0.75);
  EXPECT_TRUE(of(s, "slow").rules[0].now.violated);
  EXPECT_TRUE(of(s, "well").rules[0].now.missing) << "a rule that passes is shown, too";
}

TEST_F(explained, the_latency_shown_is_that_of_the_requests_kind) {
  start("routing_policy: {strategy: least-loaded, exclude_if: {srtt: {gt: 800}}}");
  fleet::agent &a = fleet_.add(pool_, "a", 4);
  a.latency.add(200, fleet::request_kind::stream);
  a.latency.add(5000, fleet::request_kind::chat);
  pool_->refresh_outcome(a);
  request_facts asked = facts();
  const auto value = [&] {
    const explanation e = router_->explain(asked);
    const agent_fate &fate = of(e.steps.at(0), "a");
    EXPECT_EQ(fate.rules.at(0).now.violated, !fate.chosen);
    return fate.rules.at(0).now.value;
  };
  EXPECT_EQ(value(), 5000);
  asked.streaming = true;
  EXPECT_EQ(value(), 200);
  asked.streaming = false;
  asked.generates = false;
  EXPECT_EQ(value(), 800) << "no count of tokens was answered yet: the blended value";
}

TEST_F(explained, what_is_said_is_what_then_happens) {
  start("routing_policy: {strategy: least-loaded}");
  for (const char *name : {"a", "b", "c"}) fleet_.add(pool_, name, 4);
  for (int round = 0; round < 9; ++round) {
    const explanation e = look();
    std::string said;
    for (const agent_fate &a : e.steps[0].agents)
      if (a.chosen) said = a.peer_id;
    testing::client c;
    open(c, facts());
    next(c);
    ASSERT_EQ(c.agents, std::vector<std::string>{said}) << round;
    c.report(attempt_result::completed);
  }
}

// Naive variant: scores are compared here, too, where nothing is less than NaN.
TEST_F(explained, scores_that_cannot_be_compared_are_shown_and_the_strategys_choice_counts) {
  start("routing_policy: {strategy: odd}");
  for (const char *name : {"a", "b", "c", "d"}) fleet_.add(pool_, name, 4);
  constexpr double inf = std::numeric_limits<double>::infinity(), tiny = std::numeric_limits<double>::denorm_min();
  testing::plan().scores = {NAN, inf, -inf, tiny};
  for (uint32_t i = 0; i < 4; ++i) {
    testing::plan().choice = i;
    const explanation e = look();
    const std::string name(1, static_cast<char>('a' + i));
    EXPECT_TRUE(of(e.steps.at(0), name).chosen);
    EXPECT_TRUE(std::isnan(of(e.steps[0], "a").score.value()));
    EXPECT_EQ(of(e.steps[0], "b").score, inf);
    EXPECT_EQ(of(e.steps[0], "c").score, -inf);
    EXPECT_EQ(of(e.steps[0], "d").score, tiny);
    testing::client c;
    open(c, facts());
    next(c);
    EXPECT_EQ(c.agents, std::vector<std::string>{name});
    c.report(attempt_result::completed);
  }
}

TEST_F(explained, a_value_that_is_no_number_is_missing_and_the_smallest_is_a_value) {
  start("routing_policy: {strategy: least-loaded, exclude_if: {gpu_temperature_c: {gt: 0}}}");
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::pair<const char *, double> nothing[] = {{"nan", NAN}, {"inf", inf}, {"-inf", -inf}};
  for (const auto &[name, value] : nothing) {
    fleet_.add(pool_, name, 4);
    fleet_.signal(*pool_, name, "gpu_temperature_c", value);
  }
  fleet_.add(pool_, "tiny", 4);
  fleet_.signal(*pool_, "tiny", "gpu_temperature_c", std::numeric_limits<double>::denorm_min());
  const explanation e = look();
  for (const auto &[name, value] : nothing) {
    EXPECT_EQ(of(e.steps.at(0), name).stopped, funnel_gate::none) << name;
    EXPECT_TRUE(of(e.steps[0], name).rules.at(0).now.missing) << name;
  }
  EXPECT_EQ(of(e.steps[0], "tiny").stopped, funnel_gate::exclude_if);
  EXPECT_EQ(of(e.steps[0], "tiny").change, "gpu_temperature_c must not be gt 0 (it is 5e-324)");
}

// Naive variant: the idle one is named, which the line leaves alone until its probe is due.
TEST_F(explained, an_agent_on_probation_is_no_candidate_until_its_probe_is_due_as_in_the_line) {
  start("routing_policy: {strategy: least-loaded}");
  fleet_.add(pool_, "good", 4);
  fleet::agent &bad = fleet_.add(pool_, "bad", 4);
  occupy("good", 2);
  bad.counters.streak = 3;
  bad.probe_at_ns = now_ns() + 3600 * ns_per_s;
  ASSERT_TRUE(bad.judge_streak(3));
  pool_->refresh(bad);
  const auto said = [&](const explanation &e) {
    std::string name;
    for (const agent_fate &a : e.steps.at(0).agents)
      if (a.chosen) name += a.peer_id;
    return name;
  };
  const auto taken = [&] {
    testing::client c;
    open(c, facts());
    next(c);
    const std::string name = c.agents.empty() ? "" : c.agents[0];
    c.report(attempt_result::completed);
    return name;
  };

  explanation e = look();
  EXPECT_EQ(said(e), "good");
  EXPECT_EQ(taken(), "good");
  EXPECT_EQ(e.steps[0].candidates, 1u);
  EXPECT_TRUE(of(e.steps[0], "bad").left);
  EXPECT_EQ(of(e.steps[0], "bad").stopped, funnel_gate::none);
  EXPECT_THAT(of(e.steps[0], "bad").change, HasSubstr("on probation: its next probe must be due (in "));
  EXPECT_EQ(of(e.steps[0], "good").change, "");

  occupy("good", 2);
  e = look();
  EXPECT_EQ(said(e), "bad") << "there is nobody else";
  EXPECT_EQ(taken(), "bad");
  EXPECT_FALSE(of(e.steps[0], "bad").left);

  bad.probe_at_ns = 0;
  fleet_.agents["good"]->slots.give_back();
  pool_->refresh(*fleet_.agents["good"]);
  e = look();
  EXPECT_EQ(said(e), "bad") << "its probe is due, and it is the idle one";
  EXPECT_EQ(taken(), "bad");
  EXPECT_EQ(e.steps[0].candidates, 2u);
}

TEST_F(explained, looks_only) {
  start("routing_policy: {strategy: least-loaded, exclude_if: {srtt: {gt: 100}}}");
  fleet_.add(pool_, "a", 1);
  for (int i = 0; i < 20; ++i) look();
  EXPECT_TRUE(testing::plan().chosen.empty()) << "no strategy heard of a choice";
  EXPECT_EQ(fleet_.agents["a"]->slots.load().first, 0u);
  EXPECT_EQ(router_->lines().at(0).stats.depth, 0u);
  EXPECT_TRUE(recorder_.codes.empty());
}

TEST_F(explained, a_step_where_all_are_full_would_wait_and_the_ones_behind_are_shown) {
  start("routing_policy: {strategy: least-loaded, match: {region: eu}}\n"
        "fallback_chain: [{name: any, strategy: least-loaded}]");
  fleet_.add(pool_, "a", 1, [](fleet::agent_info &i) { i.region = "eu"; });
  fleet_.add(pool_, "b", 1);
  occupy("a", 1);
  const explanation e = look();
  ASSERT_EQ(e.steps.size(), 2u);
  EXPECT_EQ(e.serves, std::optional<size_t>(0));
  EXPECT_TRUE(e.steps[0].would_wait);
  EXPECT_THAT(e.steps[0].empty, HasSubstr("at_capacity=1"));
  EXPECT_EQ(e.steps[1].candidates, 1u);
}

TEST_F(explained, a_model_that_nobody_serves_has_no_steps) {
  start("routing_policy: {strategy: least-loaded}");
  request_facts other = facts();
  other.model = "other";
  const explanation e = router_->explain(other);
  EXPECT_FALSE(e.known);
  EXPECT_TRUE(e.steps.empty());
  EXPECT_FALSE(e.serves);
}

TEST_F(explained, an_empty_pool_says_so_in_the_words_of_the_exhaustion_line) {
  start("routing_policy: {strategy: least-loaded}");
  const explanation e = look();
  ASSERT_EQ(e.steps.size(), 1u);
  EXPECT_EQ(e.steps[0].empty, "gate[1] model_filter [model_not_registered]");
  EXPECT_FALSE(e.serves);
}

TEST_F(explained, a_large_pool_is_cut_but_never_the_chosen_one) {
  start("routing_policy: {strategy: least-loaded}");
  for (size_t i = 0; i < most_explained_agents + 50; ++i) fleet_.add(pool_, "a" + std::to_string(i), 2);
  for (size_t i = 0; i < most_explained_agents + 49; ++i) occupy("a" + std::to_string(i), 1);
  const explanation e = look();
  const step_fate &s = e.steps[0];
  EXPECT_EQ(s.agents.size(), most_explained_agents + 1);
  EXPECT_EQ(s.left_out, 49u);
  EXPECT_TRUE(s.agents.back().chosen);
}

}  // namespace
}  // namespace hive::routing
