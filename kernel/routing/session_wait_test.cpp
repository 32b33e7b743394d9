// Sessions that wait for a slot, and what ends the wait.
#include "routing/session.hpp"

#include <gmock/gmock.h>

#include "routing/session_bed.hpp"

namespace hive::routing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::client;
using testing::plain;
using testing::sessions;

TEST_F(sessions, a_full_pool_queues_and_a_freed_slot_goes_to_the_waiter) {
  start(plain);
  fleet_.add(pool_, "a", 1);
  client first, second;
  ask(first);
  ask(second);
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
  ask(first);
  ask(second);
  ASSERT_TRUE(second.end);
  EXPECT_EQ(second.end->code, "no_capacity");
  EXPECT_GT(second.end->retry_after_s, 0u);
  EXPECT_THAT(recorder_.lines[0], HasSubstr("routing_policy: gate[6] capacity [at_capacity=1] | none: gate[4]"));
  first.report(attempt_result::completed);
}

TEST_F(sessions, a_full_pool_counts_one_refusal_for_each_agent_that_only_lacks_a_slot) {
  start("routing_policy: {strategy: least-loaded, match: {engine: vllm}}");
  const auto vllm = [](auto &info) { info.engine = "vllm"; };
  fleet::agent &a = fleet_.add(pool_, "a", 1, vllm), &b = fleet_.add(pool_, "b", 1, vllm), &other = fleet_.add(pool_, "c", 1);
  fleet::agent &sick = fleet_.add(pool_, "d", 1, vllm);
  fleet_.set_standing(*pool_, "d", fleet::standing_engine_down);
  for (fleet::agent *full : {&a, &b, &other}) {
    ASSERT_TRUE(full->slots.try_take());
    pool_->refresh(*full);
  }
  client first, second;
  ask(first);
  ask(second);
  EXPECT_EQ(depth(), 2u);
  pool_->leave(b);
  run();
  EXPECT_EQ(b.counters.rejected, 2u) << "a leaving agent takes its count along";
  pool_->sweep(now_ns());
  pool_->sweep(now_ns());
  EXPECT_EQ(a.counters.rejected, 2u) << "waiting and being asked again are one refusal";
  EXPECT_EQ(other.counters.rejected, 0u);
  EXPECT_EQ(sick.counters.rejected, 0u);
}

TEST_F(sessions, the_deadline_ends_a_wait) {
  start(plain);
  fleet_.add(pool_, "a", 1);
  client first, second;
  open(first, facts());
  next(first);
  request_facts f = facts();
  f.deadline_ns = now_ns() + 200 * ns_per_ms;
  open(second, f);
  next(second);
  EXPECT_EQ(depth(), 1u);
  const uint64_t waiting_ns = now_ns();
  ASSERT_TRUE(run_until([&] { return second.end.has_value(); }));
  EXPECT_EQ(second.end->code, "request_timeout");
  EXPECT_EQ(depth(), 0u);
  EXPECT_GE(second.flow->queue_ns() + waiting_ns, f.deadline_ns) << "all of the wait, from before `waiting_ns` to the end";
  EXPECT_EQ(recorder_.waits, 0) << "the histogram has successful waits only";
  first.report(attempt_result::completed);
}

// A wait that lasts as long as the request would leave the later steps no time.
TEST_F(sessions, a_step_may_bound_its_wait_and_the_next_one_has_the_rest_of_the_time) {
  start("routing_policy: {strategy: least-loaded, match: {region: eu}, max_queue_wait: 200ms}\n"
        "fallback_chain: [{name: any, strategy: least-loaded}]");
  fleet_.add(pool_, "a", 1, [](auto &i) { i.region = "eu"; });
  client first, second, third;
  open(first, facts());
  next(first);
  fleet_.add(pool_, "b", 1);
  open(second, facts());
  next(second);
  EXPECT_EQ(depth(), 1u);
  ASSERT_TRUE(run_until([&] { return !second.agents.empty(); }));
  EXPECT_EQ(second.steps[0], "any");
  EXPECT_GE(second.flow->queue_ns(), 200 * ns_per_ms);
  EXPECT_EQ(recorder_.waits, 0) << "no slot came of it";
  // Nobody is left: it waits in both steps, and in the last one for as long as it lives.
  open(third, facts());
  next(third);
  ASSERT_TRUE(run_until([&] { return third.flow->queue_ns() >= 200 * ns_per_ms && depth() == 1; }));
  EXPECT_FALSE(third.end);
  second.report(attempt_result::completed);
  run();
  EXPECT_THAT(third.agents, ElementsAre("b"));
  third.report(attempt_result::completed);
  first.report(attempt_result::completed);
}

TEST_F(sessions, the_last_steps_bounded_wait_ends_as_no_capacity) {
  start("routing_policy: {strategy: least-loaded, max_queue_wait: 10ms}");
  fleet_.add(pool_, "a", 1);
  client first, second;
  ask(first);
  ask(second);
  ASSERT_TRUE(run_until([&] { return second.end.has_value(); }));
  EXPECT_EQ(second.end->code, "no_capacity");
  EXPECT_EQ(second.end->retry_after_s, 1u) << "nothing is known of the line's speed";
  EXPECT_THAT(recorder_.lines[0], HasSubstr("gate[6] capacity [max_queue_wait]"));
  EXPECT_EQ(depth(), 0u);
  first.report(attempt_result::completed);
}

// Naive variant: 1, whatever the line's speed.
TEST_F(sessions, a_full_line_tells_how_long_a_slot_takes) {
  router_options options;
  options.line.depth = 2;
  options.line_clock = &clock_;
  start(plain, options);
  fleet_.add(pool_, "a", 1);
  client c[7];
  for (int i = 0; i < 3; ++i) ask(c[i]);
  for (int i = 0; i < 3; ++i) {
    clock_.advance(3 * ns_per_s);
    c[i].report(attempt_result::completed);
    run();
    ASSERT_THAT(c[i + 1].agents, ElementsAre("a"));
    ask(c[i + 3]);
  }
  EXPECT_EQ(depth(), 2u);
  ask(c[6]);
  ASSERT_TRUE(c[6].end);
  EXPECT_EQ(c[6].end->code, "no_capacity");
  EXPECT_EQ(c[6].end->retry_after_s, 3u);
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
  ask(first);
  ask(second);
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
  ask(first);
  ask(second);
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
  ask(first);
  ask(second);
  EXPECT_EQ(depth(), 1u);
  fleet_.signal(*pool_, "b", "kv_cache_utilization", 0.5);
  EXPECT_TRUE(run_until([&] {
    pool_->tick(now_ns());
    return !second.agents.empty();
  }));
  EXPECT_THAT(second.agents, ElementsAre("b"));
}

// b comes back by time alone: nothing is written when a value grows too old.
TEST_F(sessions, a_value_past_its_max_age_lets_a_waiter_in) {
  start("routing_policy: {strategy: least-loaded, exclude_if: {kv_cache_utilization: {gt: 0.9, max_age: 500ms}}}");
  fleet_.add(pool_, "a", 1);
  fleet_.add(pool_, "b", 1);
  pool_->write(*fleet_.agents["b"], fleet_.columns.intern("kv_cache_utilization"), 0.95, now_ns(), 0);
  client first, second;
  ask(first);
  ask(second);
  EXPECT_EQ(depth(), 1u);
  EXPECT_TRUE(run_until([&] {
    pool_->tick(now_ns());
    return !second.agents.empty();
  }));
  EXPECT_THAT(second.agents, ElementsAre("b"));
}

// A value written again as it was is no change, but for whoever counted the old one as missing.
TEST_F(sessions, the_same_value_sampled_again_lets_in_who_waited_for_a_fresh_one) {
  start("routing_policy: {strategy: least-loaded, exclude_if: {kv_cache_utilization: {gt: 0.9, max_age: 1s, on_missing: exclude}}}");
  const hive_column kv = fleet_.columns.intern("kv_cache_utilization");
  for (const char *name : {"a", "b"}) fleet_.add(pool_, name, 1);
  pool_->write(*fleet_.agents["a"], kv, 0.5, now_ns(), 0);
  pool_->write(*fleet_.agents["b"], kv, 0.5, now_ns() - 5 * ns_per_s, 0);
  client first, second;
  open(first, facts());
  next(first);
  EXPECT_THAT(first.agents, ElementsAre("a"));
  open(second, facts());
  next(second);
  EXPECT_EQ(depth(), 1u);
  pool_->write(*fleet_.agents["b"], kv, 0.5, now_ns(), 0);
  EXPECT_TRUE(run_until([&] {
    pool_->tick(now_ns());
    return !second.agents.empty();
  }));
  EXPECT_THAT(second.agents, ElementsAre("b"));
}

// Kept out at 0.85 by what it was before; let in below 0.8.
TEST_F(sessions, who_is_kept_out_until_leave_lets_a_waiter_in_there) {
  start("routing_policy: {strategy: least-loaded, exclude_if: {kv_cache_utilization: {gt: 0.9, leave: 0.8}}}");
  for (const char *name : {"a", "b"}) fleet_.add(pool_, name, 1);
  fleet_.signal(*pool_, "b", "kv_cache_utilization", 0.95);
  client first, second;
  ask(first);
  ask(second);
  const uint64_t begin = now_ns();
  fleet_.signal(*pool_, "b", "kv_cache_utilization", 0.85);
  run_until([&] {
    pool_->tick(now_ns());
    return now_ns() - begin > 2 * fleet::pool::recheck_gap_ns;  // the time in which a re-check would have come
  });
  EXPECT_EQ(depth(), 1u);
  fleet_.signal(*pool_, "b", "kv_cache_utilization", 0.8);
  EXPECT_TRUE(run_until([&] {
    pool_->tick(now_ns());
    return !second.agents.empty();
  }));
  EXPECT_THAT(second.agents, ElementsAre("b"));
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

}  // namespace
}  // namespace hive::routing
