#include "routing/session.hpp"

#include <gmock/gmock.h>

#include <set>

#include "routing/retry_pause.hpp"
#include "routing/session_bed.hpp"

namespace hive::routing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::client;
using testing::plain;
using testing::sessions;

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

TEST_F(sessions, a_sample_goes_to_the_estimate_of_the_requests_kind) {
  using fleet::request_kind;
  start(plain);
  fleet_.add(pool_, "a", 10);
  request_facts chat = facts(), stream = facts(), count = facts();
  stream.streaming = true;
  count.generates = false;
  for (const request_facts &each : {chat, stream, count}) {
    client c;
    open(c, each);
    next(c);
    c.report(attempt_result::completed, 12);
  }
  EXPECT_THAT(recorder_.kinds, ElementsAre(request_kind::chat, request_kind::stream, request_kind::other));
  request_facts embedding = facts();
  embedding.capability = "embedding";
  EXPECT_EQ(kind_of(embedding), request_kind::other);
}

TEST_F(sessions, the_estimated_tokens_of_a_request_count_while_it_holds_its_slot) {
  start(plain);
  fleet_.add(pool_, "a", 10);
  const auto tokens = [&] {
    const std::lock_guard lock(pool_->mutex());
    return pool_->value(fleet_.kernel.active_tokens, 0);
  };
  request_facts known = facts(), half = facts();
  known.prompt_tokens = 100;
  known.output_tokens = 50;
  half.prompt_tokens = 7;
  half.output_tokens = HIVE_TOKENS_UNKNOWN;
  client one, two;
  open(one, known);
  next(one);
  EXPECT_EQ(tokens(), 150);
  open(two, half);
  next(two);
  EXPECT_EQ(tokens(), 157);
  one.report(attempt_result::completed);
  EXPECT_EQ(tokens(), 7);
  two.report(attempt_result::retryable);
  EXPECT_EQ(tokens(), 0);
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

TEST(retry_pause, doubles_up_to_eight_times_and_differs_from_request_to_request) {
  const struct { uint32_t failures; uint64_t whole; } cases[] = {{1, 1000}, {2, 2000}, {3, 4000}, {4, 8000}, {5, 8000}, {100, 8000}};
  for (const auto &c : cases) {
    std::set<uint64_t> pauses;
    for (uint64_t seed = 0; seed < 100; ++seed) {
      const uint64_t ns = retry_pause_ns(1000, c.failures, seed);
      EXPECT_GE(ns, c.whole / 2);
      EXPECT_LE(ns, c.whole);
      EXPECT_EQ(ns, retry_pause_ns(1000, c.failures, seed));
      pauses.insert(ns);
    }
    EXPECT_GT(pauses.size(), 60u) << "requests that failed together do not come back together";
  }
  EXPECT_EQ(retry_pause_ns(0, 3, 1), 0u);
}

// Naive variant: every request of a failed agent is at the next one in the same turn of the loop.
TEST_F(sessions, a_charged_failure_is_followed_by_a_pause_and_a_free_one_is_not) {
  router_options options;
  options.retry_delay_ns = 400 * ns_per_ms;
  start("routing_policy: {strategy: least-loaded, max_tries: 2}\nfallback_chain: [{name: last, strategy: least-loaded, max_tries: 1}]", options);
  for (const char *name : {"a", "b", "c"}) fleet_.add(pool_, name, 10);
  for (const attempt_result free : {attempt_result::refused, attempt_result::link_lost}) {
    client c;
    ask(c);
    c.report(free);
    next(c);
    EXPECT_EQ(c.agents.size(), 2u) << "at once";
    EXPECT_EQ(c.parked, 0);
  }
  {
    client refused;
    ask(refused);
    refused.report(attempt_result::overloaded);
    next(refused);
    EXPECT_EQ(refused.agents.size(), 1u) << "the engine's refusal costs no try, but the next engine is likely as full";
    ASSERT_TRUE(run_until([&] { return refused.agents.size() == 2; }));
    EXPECT_EQ(refused.parked, 1);
  }
  client c;
  ask(c);
  for (const size_t forwards : {size_t{2}, size_t{3}}) {
    c.report(attempt_result::retryable);
    const uint64_t failed_ns = now_ns();
    next(c);
    next(c);
    EXPECT_EQ(c.agents.size(), forwards - 1);
    EXPECT_EQ(c.parked, static_cast<int>(forwards) - 1) << "once a pause, so that its forward slot serves others meanwhile";
    EXPECT_FALSE(c.end);
    ASSERT_TRUE(run_until([&] { return c.agents.size() == forwards; }));
    EXPECT_GE(now_ns() - failed_ns, (forwards - 1) * 200 * ns_per_ms) << "into another step as well";
  }
  c.report(attempt_result::retryable);
  next(c);
  ASSERT_TRUE(c.end) << "nobody is left, so nobody waits for nothing";
}

TEST_F(sessions, a_pause_that_outlives_the_request_is_not_kept_and_one_that_is_left_ends) {
  router_options options;
  options.retry_delay_ns = 10 * ns_per_s;
  start(plain, options);
  for (const char *name : {"a", "b"}) fleet_.add(pool_, name, 10);
  request_facts hurried = facts();
  hurried.deadline_ns = now_ns() + ns_per_s;
  client c;
  open(c, hurried);
  next(c);
  c.report(attempt_result::retryable);
  next(c);
  EXPECT_EQ(c.agents.size(), 2u) << "there is no time for it";
  client gone;
  ask(gone);
  gone.report(attempt_result::retryable);
  next(gone);
  EXPECT_EQ(gone.agents.size(), 1u);
  gone.flow.reset();
  run();
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
  c.flow->report({attempt_result::refused, 0, 0, true});
  c.slot.reset();
  next(c);
  EXPECT_EQ(c.agents.size(), 1u);
  ASSERT_TRUE(c.end);
  EXPECT_EQ(c.end->code, "no_agents_available");
  EXPECT_THAT(recorder_.lines[0], HasSubstr("gate[5] prev_failures [prev_failed=1]"));
}

TEST_F(sessions, the_effect_on_the_agent_follows_the_cause) {
  start(plain);
  fleet_.add(pool_, "a", 10);
  const std::pair<attempt_result, standing_effect> cases[] = {
      {attempt_result::completed, standing_effect::success},  {attempt_result::terminal, standing_effect::neutral},
      {attempt_result::refused, standing_effect::neutral},    {attempt_result::overloaded, standing_effect::neutral},
      {attempt_result::cancelled, standing_effect::neutral},
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
  // Naive variant: whoever is asked last is blamed for the time that others took.
  client late;
  open(late, facts());
  next(late);
  late.flow->report({.what = attempt_result::timed_out, .prompt_tokens = 0, .output_tokens = 0, .exclude = false, .had_its_time = false});
  late.slot.reset();
  EXPECT_EQ(recorder_.attempts.back().effect, standing_effect::neutral);
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

// Naive variant: a refusal is free, so that a client's request to a fleet whose engines take no more is forwarded to all of them.
TEST_F(sessions, what_an_engine_refuses_costs_a_retry_of_the_budget_and_no_try) {
  router_options options;
  options.retry_floor = 2;
  options.retry_share = 0;
  start("routing_policy: {strategy: least-loaded, max_tries: 1}", options);
  for (char name = 'a'; name < 'k'; ++name) fleet_.add(pool_, std::string(1, name), 100);
  client all[50];
  for (client &c : all) ask(c);
  for (int round = 0; round < 12; ++round)
    for (client &c : all) {
      if (!c.slot) continue;
      c.report(attempt_result::overloaded);
      next(c);
    }
  size_t forwards = 0;
  for (const client &c : all) {
    EXPECT_TRUE(c.end);
    forwards += c.agents.size();
  }
  EXPECT_EQ(forwards, 50u + 2 * 9) << "two retries at a time; each may ask all the others, for no try was charged";
  EXPECT_EQ(router_->lines().at(0).retries_refused, 48u);
  for (const auto &a : recorder_.attempts) EXPECT_EQ(a.effect, standing_effect::neutral);
  EXPECT_THAT(recorder_.lines[0], HasSubstr("routing_policy: retry budget exhausted"));
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

}  // namespace
}  // namespace hive::routing
