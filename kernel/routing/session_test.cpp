#include "routing/session.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <optional>

#include "routing/fixture.hpp"
#include "routing/policy_text.hpp"
#include "routing/router.hpp"

namespace hive::routing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::plan;

struct recorder final : outcome_recorder {
  struct seen {
    std::string agent;
    attempt_result what;
    standing_effect effect;
    double rtt_ms;
  };
  void on_sample(const latency_sample &s) override { sample_ms = s.rtt_ms; }
  void on_attempt(const attempt_outcome &o) override {
    attempts.push_back({o.who->peer_id(), o.what, o.effect, sample_ms});
    sample_ms = 0;
  }
  double sample_ms = 0;
  void on_queue_wait(std::string_view, uint64_t) override { ++waits; }
  void on_served(std::string_view, bool fallback) override { served.push_back(fallback); }
  void on_exhausted(std::string_view, std::string_view code) override { codes.emplace_back(code); }
  void warn(const std::string &line) override { lines.push_back(line); }
  std::vector<seen> attempts;
  std::vector<bool> served;
  std::vector<std::string> codes, lines;
  int waits = 0;
};

// A request as the gateway would drive it.
struct client final : session_events {
  void on_lease(fleet::lease l, std::string_view step) override {
    slot = std::move(l);
    steps.emplace_back(step);
    agents.push_back(slot.who()->peer_id());
    if (leave_on_lease) flow.reset();
  }
  void on_exhausted(const exhaustion &e) override {
    end = e;
    if (leave_on_lease) flow.reset();
  }
  void report(attempt_result what, double rtt_ms = 5) {
    flow->sample(rtt_ms);
    flow->report({what, 0, 0, false});
    slot.reset();
  }
  fleet::lease slot;
  std::vector<std::string> steps, agents;
  std::optional<exhaustion> end;
  bool leave_on_lease = false;
  std::unique_ptr<session> flow;
};

class sessions : public ::testing::Test {
 protected:
  testing::test_source source_;
  testing::test_fleet fleet_;
  recorder recorder_;
  loop loop_;
  std::shared_ptr<fleet::pool> pool_ = fleet_.make_pool("qwen");
  std::optional<router> router_;

  void start(const std::string &policy, const router_options &options = {}) {
    router_.emplace(source_, fleet_.columns, recorder_, options);
    load(policy);
    const status s = router_->add_pool(pool_);
    ASSERT_TRUE(s.ok()) << s.text();
  }
  void load(const std::string &policy) {
    const auto d = parse_policy(policy, source_);
    ASSERT_TRUE(d) << d.why().text();
    const status s = router_->set_policies(d->document);
    ASSERT_TRUE(s.ok()) << s.text();
  }
  void open(client &c, const request_facts &facts) { c.flow = router_->open(loop_, facts, c); }
  static request_facts facts() {
    request_facts f;
    f.request_id = "r1";
    f.model = "qwen";
    f.capability = "llm";
    f.tenant = "acme";
    return f;
  }
  // Asks for the next agent and lets the loop run until everything ready has run.
  void next(client &c) {
    c.flow->next();
    run();
  }
  void run() {
    loop_.io().restart();
    while (loop_.io().poll() > 0) {
    }
  }
  // Runs the loop until `done` or a second has passed.
  template <class F>
  bool run_until(F done) {
    const uint64_t limit = now_ns() + ns_per_s;
    while (!done() && now_ns() < limit) loop_.io().run_one_for(std::chrono::milliseconds(5));
    return done();
  }
  uint64_t depth() { return router_->lines().at(0).stats.depth; }
};

constexpr const char *plain = "routing_policy: {strategy: least-loaded, max_tries: 2}";

TEST_F(sessions, a_request_gets_a_slot_and_gives_it_back) {
  start(plain);
  fleet::agent &a = fleet_.add(pool_, "a", 10);
  client c;
  open(c, facts());
  c.flow->next();
  EXPECT_TRUE(c.agents.empty()) << "never from inside next";
  run();
  ASSERT_THAT(c.agents, ElementsAre("a"));
  EXPECT_EQ(c.steps[0], "routing_policy");
  EXPECT_EQ(a.slots.load().first, 1u);
  EXPECT_EQ(c.flow->attempts(), 1u);
  c.report(attempt_result::completed, 12);
  EXPECT_EQ(a.slots.load().first, 0u);
  ASSERT_EQ(recorder_.attempts.size(), 1u);
  EXPECT_EQ(recorder_.attempts[0].effect, standing_effect::success);
  EXPECT_EQ(recorder_.attempts[0].rtt_ms, 12);
  EXPECT_THAT(recorder_.served, ElementsAre(false));
  EXPECT_TRUE(recorder_.lines.empty());
}

TEST_F(sessions, a_thousand_sequential_requests_share_four_idle_agents) {
  start(plain);
  for (const char *name : {"a", "b", "c", "d"}) fleet_.add(pool_, name, 4);
  std::map<std::string, int> share;
  for (int i = 0; i < 1000; ++i) {
    client c;
    open(c, facts());
    next(c);
    ASSERT_EQ(c.agents.size(), 1u);
    ++share[c.agents[0]];
    c.report(attempt_result::completed);
  }
  ASSERT_EQ(share.size(), 4u);
  for (const auto &[name, n] : share) {
    EXPECT_GE(n, 200) << name;
    EXPECT_LE(n, 300) << name;
  }
}

TEST_F(sessions, a_lost_link_is_free_once_an_agent) {
  start(plain);
  fleet_.add(pool_, "a", 10);
  {
    client c;
    open(c, facts());
    next(c);
    c.report(attempt_result::link_lost);
    next(c);
    ASSERT_THAT(c.agents, ElementsAre("a", "a"));
    c.report(attempt_result::completed);
    EXPECT_EQ(c.flow->attempts(), 2u);
  }
  client c;
  open(c, facts());
  for (int i = 0; i < 5 && !c.end; ++i) {
    next(c);
    if (c.slot) c.report(attempt_result::link_lost);
  }
  EXPECT_EQ(c.agents.size(), 2u);
  ASSERT_TRUE(c.end);
  EXPECT_EQ(c.end->code, "no_agents_available");
  for (const auto &a : recorder_.attempts)
    EXPECT_EQ(a.effect, a.what == attempt_result::completed ? standing_effect::success : standing_effect::failure);
}

TEST_F(sessions, after_a_lost_link_another_agent_goes_first) {
  start(plain);
  fleet_.add(pool_, "a", 100);
  fleet::agent &b = fleet_.add(pool_, "b", 10);
  ASSERT_TRUE(b.slots.try_take());
  pool_->refresh(b);
  client c;
  open(c, facts());
  next(c);
  ASSERT_EQ(c.agents.back(), "a");
  c.report(attempt_result::link_lost);
  next(c);
  EXPECT_EQ(c.agents.back(), "b");
}

TEST_F(sessions, one_failing_agent_exhausts_within_five_rounds) {
  start(plain);
  fleet_.add(pool_, "a", 10);
  client c;
  open(c, facts());
  int rounds = 0;
  for (; rounds < 5 && !c.end; ++rounds) {
    next(c);
    if (c.slot) c.report(attempt_result::retryable);
  }
  EXPECT_TRUE(c.end);
  EXPECT_EQ(c.agents.size(), 1u);
}

TEST_F(sessions, charged_tries_end_the_step) {
  start(plain);
  for (const char *name : {"a", "b", "c"}) fleet_.add(pool_, name, 10);
  client c;
  open(c, facts());
  for (int i = 0; i < 5 && !c.end; ++i) {
    next(c);
    if (c.slot) c.report(attempt_result::retryable);
  }
  EXPECT_EQ(c.agents.size(), 2u);
  EXPECT_NE(c.agents[0], c.agents[1]);
  ASSERT_TRUE(c.end);
  EXPECT_EQ(c.end->code, "no_agents_available");
  ASSERT_EQ(recorder_.lines.size(), 1u);
  EXPECT_THAT(recorder_.lines[0], HasSubstr("tried=1/1 reason=routing_policy: max_tries exhausted"));
}

TEST_F(sessions, the_exhaustion_line_walks_the_whole_chain) {
  start(R"(
routing_policy: {strategy: least-loaded, match: {engine: vllm}}
fallback_chain:
  - {name: eu, strategy: least-loaded, match: {region: eu}}
  - {name: any, strategy: least-loaded, exclude_if: {kv_cache_utilization: {gt: 0.95}}}
)");
  for (const char *name : {"a", "b"}) {
    fleet_.add(pool_, name, 10);
    fleet_.signal(*pool_, name, "kv_cache_utilization", 0.97);
  }
  client c;
  request_facts f = facts();
  f.request_id = "r\n1";
  open(c, f);
  next(c);
  ASSERT_TRUE(c.end);
  EXPECT_EQ(c.end->code, "no_agents_available");
  ASSERT_EQ(recorder_.lines.size(), 1u);
  EXPECT_EQ(recorder_.lines[0],
            "policy_exhausted request_id=r?1 model=qwen capability=llm tenant=acme chain=[routing_policy→eu→any] tried=3/3 "
            "reason=routing_policy: gate[4] match [engine(got=\"\",want=\"vllm\")=2] | "
            "eu: gate[4] match [region(got=\"\",want=\"eu\")=2] | any: gate[7] exclude_if [kv_cache_utilization=2]");
}

TEST_F(sessions, a_later_step_may_take_an_agent_that_failed_in_an_earlier_one) {
  start("routing_policy: {strategy: least-loaded, max_tries: 1}\n"
        "fallback_chain: [{name: again, strategy: least-loaded, max_tries: 1}]");
  fleet_.add(pool_, "a", 10);
  client c;
  open(c, facts());
  next(c);
  c.report(attempt_result::retryable);
  next(c);
  EXPECT_THAT(c.agents, ElementsAre("a", "a"));
  EXPECT_EQ(c.steps[1], "again");
  c.report(attempt_result::completed);
  EXPECT_THAT(recorder_.served, ElementsAre(true));
  EXPECT_TRUE(recorder_.lines.empty()) << "nothing is logged when a later step serves";
}

TEST_F(sessions, an_unknown_model_is_not_found) {
  start(plain);
  client c;
  request_facts f = facts();
  f.model = "nobody";
  open(c, f);
  next(c);
  ASSERT_TRUE(c.end);
  EXPECT_EQ(c.end->code, "model_not_found");
  client d;  // a pool without agents
  open(d, facts());
  next(d);
  ASSERT_TRUE(d.end);
  EXPECT_EQ(d.end->code, "model_not_found");
  EXPECT_THAT(recorder_.lines[1], HasSubstr("routing_policy: gate[1] model_filter [model_not_registered]"));
}

TEST_F(sessions, all_unhealthy_is_no_agents_available) {
  start(plain);
  fleet_.add(pool_, "a", 1);
  fleet_.set_standing(*pool_, "a", fleet::standing_unlinked);
  client c;
  open(c, facts());
  next(c);
  ASSERT_TRUE(c.end);
  EXPECT_EQ(c.end->code, "no_agents_available");
}

TEST_F(sessions, a_full_pool_queues_and_a_freed_slot_goes_to_the_waiter) {
  start(plain);
  fleet_.add(pool_, "a", 1);
  client first, second;
  open(first, facts());
  next(first);
  open(second, facts());
  next(second);
  EXPECT_TRUE(second.agents.empty());
  EXPECT_FALSE(second.end);
  EXPECT_EQ(depth(), 1u);
  first.report(attempt_result::completed);
  run();
  EXPECT_THAT(second.agents, ElementsAre("a"));
  EXPECT_GT(second.flow->queue_ns(), 0u);
  EXPECT_EQ(recorder_.waits, 1);
  EXPECT_EQ(depth(), 0u);
  second.report(attempt_result::completed);
}

TEST_F(sessions, a_full_line_is_no_capacity_and_the_most_useful_reason_survives_later_steps) {
  router_options options;
  options.line.depth = 0;
  start("routing_policy: {strategy: least-loaded}\n"
        "fallback_chain: [{name: none, strategy: least-loaded, match: {region: x}}]", options);
  fleet_.add(pool_, "a", 1);
  client first, second;
  open(first, facts());
  next(first);
  open(second, facts());
  next(second);
  ASSERT_TRUE(second.end);
  EXPECT_EQ(second.end->code, "no_capacity");
  EXPECT_GT(second.end->retry_after_s, 0u);
  EXPECT_THAT(recorder_.lines[0], HasSubstr("routing_policy: gate[6] capacity [at_capacity=1] | none: gate[4]"));
  first.report(attempt_result::completed);
}

TEST_F(sessions, the_deadline_ends_a_wait) {
  start(plain);
  fleet_.add(pool_, "a", 1);
  client first, second;
  open(first, facts());
  next(first);
  request_facts f = facts();
  f.deadline_ns = now_ns() + 20 * ns_per_ms;
  open(second, f);
  next(second);
  EXPECT_EQ(depth(), 1u);
  ASSERT_TRUE(run_until([&] { return second.end.has_value(); }));
  EXPECT_EQ(second.end->code, "request_timeout");
  EXPECT_EQ(depth(), 0u);
  EXPECT_GE(second.flow->queue_ns(), 10 * ns_per_ms);
  EXPECT_EQ(recorder_.waits, 0) << "the histogram has successful waits only";
  first.report(attempt_result::completed);
}

TEST_F(sessions, a_passed_deadline_takes_no_slot) {
  start(plain);
  fleet::agent &a = fleet_.add(pool_, "a", 1);
  client c;
  request_facts f = facts();
  f.deadline_ns = now_ns() - 1;
  open(c, f);
  next(c);
  ASSERT_TRUE(c.end);
  EXPECT_EQ(c.end->code, "request_timeout");
  EXPECT_EQ(a.slots.load().first, 0u);
  EXPECT_TRUE(recorder_.attempts.empty());
}

TEST_F(sessions, a_client_that_leaves_while_waiting_leaves_the_line) {
  start(plain);
  fleet_.add(pool_, "a", 1);
  client first, second, third;
  open(first, facts());
  next(first);
  open(second, facts());
  next(second);
  open(third, facts());
  next(third);
  EXPECT_EQ(depth(), 2u);
  second.flow.reset();
  EXPECT_EQ(depth(), 1u);
  first.report(attempt_result::completed);
  run();
  EXPECT_THAT(third.agents, ElementsAre("a"));
  third.report(attempt_result::completed);
}

TEST_F(sessions, a_waiter_advances_when_nobody_is_left_to_wait_for) {
  start("routing_policy: {strategy: least-loaded, match: {region: eu}}\n"
        "fallback_chain: [{name: any, strategy: least-loaded}]");
  fleet_.add(pool_, "a", 1, [](auto &i) { i.region = "eu"; });
  client first, second;
  open(first, facts());
  next(first);
  open(second, facts());
  next(second);
  EXPECT_EQ(depth(), 1u);
  fleet_.add(pool_, "b", 1);
  fleet_.set_standing(*pool_, "a", fleet::standing_unlinked);
  run();
  EXPECT_THAT(second.agents, ElementsAre("b"));
  EXPECT_EQ(second.steps[0], "any");
  first.report(attempt_result::link_lost);
  second.report(attempt_result::completed);
}

TEST_F(sessions, a_signal_that_clears_a_gate_lets_a_waiter_in) {
  start("routing_policy: {strategy: least-loaded, exclude_if: {kv_cache_utilization: {gt: 0.9}}}");
  fleet_.add(pool_, "a", 1);
  fleet_.add(pool_, "b", 1);
  fleet_.signal(*pool_, "b", "kv_cache_utilization", 0.95);
  client first, second;
  open(first, facts());
  next(first);
  open(second, facts());
  next(second);
  EXPECT_EQ(depth(), 1u);
  fleet_.signal(*pool_, "b", "kv_cache_utilization", 0.5);
  EXPECT_TRUE(run_until([&] {
    pool_->tick(now_ns());
    return !second.agents.empty();
  }));
  EXPECT_THAT(second.agents, ElementsAre("b"));
}

TEST_F(sessions, refusals_are_free_and_bounded) {
  router_options options;
  options.max_forwards = 6;
  start("routing_policy: {strategy: least-loaded, max_tries: 1}", options);
  fleet_.add(pool_, "a", 10);
  fleet_.add(pool_, "b", 10);
  client c;
  open(c, facts());
  next(c);
  const std::string refuser = c.agents[0];
  c.report(attempt_result::refused, 0);
  next(c);
  ASSERT_EQ(c.agents.size(), 2u);
  EXPECT_NE(c.agents[1], refuser);
  for (int i = 0; i < 10 && !c.end; ++i) {
    if (c.slot) c.report(attempt_result::refused, 0);
    next(c);
  }
  ASSERT_TRUE(c.end);
  EXPECT_LE(c.agents.size(), 6u);
  for (const auto &a : recorder_.attempts) EXPECT_EQ(a.effect, standing_effect::neutral);
}

TEST_F(sessions, an_agent_that_did_not_answer_an_open_is_not_asked_again) {
  start("routing_policy: {strategy: least-loaded, max_tries: 1}");
  fleet_.add(pool_, "a", 10);
  client c;
  open(c, facts());
  next(c);
  c.flow->report({attempt_result::refused, 0, 0, 0, true});
  c.slot.reset();
  next(c);
  EXPECT_EQ(c.agents.size(), 1u);
  ASSERT_TRUE(c.end);
  EXPECT_EQ(c.end->code, "no_agents_available");
  EXPECT_THAT(recorder_.lines[0], HasSubstr("gate[5] prev_failures [prev_failed=1]"));
}

TEST_F(sessions, a_busy_agent_is_waited_for_and_taken_when_its_mark_clears) {
  start(plain);
  fleet_.add(pool_, "a", 10);
  client c;
  open(c, facts());
  next(c);
  fleet_.set_standing(*pool_, "a", fleet::standing_busy);
  c.report(attempt_result::refused, 0);
  next(c);
  EXPECT_EQ(c.agents.size(), 1u);
  EXPECT_FALSE(c.end);
  fleet_.set_standing(*pool_, "a", 0);
  run();
  EXPECT_THAT(c.agents, ElementsAre("a", "a"));
}

TEST_F(sessions, the_effect_on_the_agent_follows_the_cause) {
  start(plain);
  fleet_.add(pool_, "a", 10);
  const std::pair<attempt_result, standing_effect> cases[] = {
      {attempt_result::completed, standing_effect::success},  {attempt_result::terminal, standing_effect::neutral},
      {attempt_result::refused, standing_effect::neutral},    {attempt_result::cancelled, standing_effect::neutral},
      {attempt_result::link_lost, standing_effect::failure},  {attempt_result::retryable, standing_effect::failure},
      {attempt_result::broken, standing_effect::failure},     {attempt_result::timed_out, standing_effect::failure}};
  for (const auto &[what, effect] : cases) {
    client c;
    open(c, facts());
    next(c);
    c.report(what);
    EXPECT_EQ(recorder_.attempts.back().effect, effect);
    EXPECT_EQ(recorder_.attempts.back().rtt_ms, 5);
  }
}

TEST_F(sessions, charged_retries_stay_under_the_models_budget) {
  router_options options;
  options.retry_floor = 1;
  start("routing_policy: {strategy: least-loaded, max_tries: 5}", options);
  for (const char *name : {"a", "b", "c"}) fleet_.add(pool_, name, 10);
  client first, second;
  for (client *c : {&first, &second}) {
    open(*c, facts());
    next(*c);
    c->report(attempt_result::retryable);
    next(*c);
  }
  EXPECT_EQ(first.agents.size(), 2u);
  ASSERT_TRUE(second.end) << "the one retry is in flight";
  EXPECT_EQ(second.end->code, "no_agents_available");
  EXPECT_THAT(recorder_.lines[0], HasSubstr("routing_policy: retry budget exhausted"));
  first.report(attempt_result::completed);
  first.flow.reset();
  client third;
  open(third, facts());
  next(third);
  third.report(attempt_result::retryable);
  next(third);
  EXPECT_EQ(third.agents.size(), 2u) << "the budget is free again";
}

TEST_F(sessions, instances_hear_of_every_lease_exactly_once) {
  start(plain);
  fleet::agent &a = fleet_.add(pool_, "a", 10);
  {
    client c;
    open(c, facts());
    next(c);
    c.flow->first_content();
    c.flow->first_content();
    c.report(attempt_result::completed);
    client left;
    open(left, facts());
    next(left);  // and is destroyed without a report
  }
  EXPECT_THAT(plan().chosen, ElementsAre(0u, 0u));
  ASSERT_EQ(plan().outcomes.size(), 3u);
  EXPECT_EQ(plan().outcomes[0].phase, static_cast<uint32_t>(HIVE_PHASE_FIRST_TOKEN));
  EXPECT_EQ(plan().outcomes[1].phase, static_cast<uint32_t>(HIVE_PHASE_END));
  EXPECT_EQ(plan().outcomes[1].status, HIVE_OK);
  EXPECT_EQ(plan().outcomes[2].status, HIVE_GONE);
  EXPECT_EQ(plan().outcomes[2].agent_key, a.key());
  EXPECT_EQ(a.slots.load().first, 0u);
  EXPECT_EQ(recorder_.attempts.back().effect, standing_effect::neutral);

  client c;
  open(c, facts());
  next(c);
  pool_->leave(a);
  c.report(attempt_result::link_lost);
  EXPECT_EQ(plan().outcomes.back().index, UINT32_MAX);
}

TEST_F(sessions, the_owner_may_destroy_the_session_in_a_callback) {
  start(plain);
  fleet::agent &a = fleet_.add(pool_, "a", 1);
  client first, waiter, refused;
  first.leave_on_lease = waiter.leave_on_lease = refused.leave_on_lease = true;
  open(first, facts());
  next(first);
  EXPECT_FALSE(first.flow);
  open(waiter, facts());
  next(waiter);
  EXPECT_EQ(depth(), 1u);
  first.slot.reset();
  run();
  EXPECT_FALSE(waiter.flow);
  waiter.slot.reset();
  EXPECT_EQ(a.slots.load().first, 0u);
  request_facts f = facts();
  f.model = "nobody";
  open(refused, f);
  next(refused);
  EXPECT_FALSE(refused.flow);
}

TEST_F(sessions, instances_survive_a_reload_and_sessions_keep_their_policy) {
  start(plain);
  fleet_.add(pool_, "a", 2);
  EXPECT_EQ(plan().created, 1);
  load("routing_policy: {strategy: least-loaded, max_tries: 7, exclude_if: {srtt: {gt: 1000}}}");
  EXPECT_EQ(plan().created, 1) << "same strategy, options, step and pool";
  client before;
  open(before, facts());
  next(before);
  load("routing_policy: {strategy: liar}");
  EXPECT_EQ(plan().created, 2);
  EXPECT_EQ(plan().alive, 2) << "a session still runs on the old one";
  before.flow->first_content();
  EXPECT_EQ(plan().outcomes.size(), 1u);
  before.report(attempt_result::completed);
  before.flow.reset();
  router_->sweep();
  EXPECT_EQ(plan().alive, 1);
}

TEST_F(sessions, a_removed_pool_is_unknown_and_its_instances_go) {
  start(plain);
  fleet_.add(pool_, "a", 2);
  EXPECT_EQ(router_->add_pool(pool_).code(), errc::conflict);
  router_->remove_pool("qwen");
  router_->sweep();
  EXPECT_EQ(plan().alive, 0);
  client c;
  open(c, facts());
  next(c);
  ASSERT_TRUE(c.end);
  EXPECT_EQ(c.end->code, "model_not_found");
}

TEST_F(sessions, wrong_answers_of_a_component_are_warned_of_once) {
  start("routing_policy: {strategy: liar}");
  fleet_.add(pool_, "a", 2);
  client c;
  open(c, facts());
  next(c);
  router_->sweep();
  router_->sweep();
  ASSERT_EQ(recorder_.lines.size(), 1u);
  EXPECT_THAT(recorder_.lines[0], HasSubstr("liar"));
}

TEST_F(sessions, a_reload_with_an_error_changes_nothing) {
  start(plain);
  fleet_.add(pool_, "a", 1);
  const auto d = parse_policy("routing_policy: {strategy: liar}", source_);
  plan().create_fails = true;
  const status s = router_->set_policies(d->document);
  EXPECT_THAT(s.text(), HasSubstr("the component said no"));
  EXPECT_EQ(router_->policies()->global()->steps[0].strategy.name, "least-loaded");
  client c;
  open(c, facts());
  next(c);
  EXPECT_THAT(c.agents, ElementsAre("a"));
}

TEST_F(sessions, a_named_document_governs_its_models_alone) {
  start("routing_policy: {strategy: least-loaded}");
  fleet_.add(pool_, "a", 1);
  const auto named = parse_policy("models: [qwen]\nrouting_policy: {strategy: least-loaded, match: {region: x}}", source_,
                                  {"q.yaml", "q", false, true});
  ASSERT_TRUE(named) << named.why().text();
  ASSERT_TRUE(router_->set_policies(router_->policies()->global(), {{"q", named->document}}).ok());
  client c;
  open(c, facts());
  next(c);
  EXPECT_TRUE(c.end);
  ASSERT_TRUE(router_->set_policies(router_->policies()->global()).ok());
  client d;
  open(d, facts());
  next(d);
  EXPECT_THAT(d.agents, ElementsAre("a"));
}

}  // namespace
}  // namespace hive::routing
