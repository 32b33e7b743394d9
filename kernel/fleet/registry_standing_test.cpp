#include "fleet/registry_bed.hpp"

namespace hive::fleet {
namespace {

// Naive variants: the streak is only a gate field, and without a gate an agent that fails at once draws all the load; it is shut out
// and nothing brings it back; it is let go at the first success of a request that began before the failures, or never.
TEST_F(registry_of_two_workers, an_agent_that_fails_again_and_again_gets_one_request_at_a_time_until_one_succeeds) {
  connect(1);
  const auto who = a();
  const auto p = reg.find_pool("m");
  const auto outcome = [&](bool success) {
    reg.record_outcome(*who, {.generation = who->generation(), .success = success, .rtt_ms = 5, .input_tokens = 0, .output_tokens = 0,
                              .request_id = {}, .kind = request_kind::chat});
  };
  outcome(false);
  outcome(false);
  EXPECT_FALSE(who->on_probation());
  EXPECT_EQ(p->free_slots(), 2u);
  outcome(false);
  EXPECT_TRUE(who->on_probation() && who->routable());
  EXPECT_EQ(p->free_slots(), 1u);
  EXPECT_EQ(who->probe_at_ns, clock.now() + 250 * ns_per_ms);
  for (int i = 0; i < 10; ++i) outcome(false);
  EXPECT_EQ(who->probe_at_ns, clock.now() + 8 * ns_per_s) << "later and later, yet never too late";
  {
    pool_section section(*p);
    EXPECT_DOUBLE_EQ(p->value(reg.kernel().capacity, 0), 2) << "what it declared is what gates and people see";
    ASSERT_TRUE(p->take(0));
    EXPECT_FALSE(p->take(0));
  }
  who->slots.give_back();
  reg.heartbeat("A", false, "loading");
  reg.heartbeat("A", true, "");
  EXPECT_EQ(who->probe_at_ns, 0u) << "its engine is back: a probe is due at once";
  connect(1);
  EXPECT_TRUE(who->on_probation());
  outcome(true);
  EXPECT_FALSE(who->on_probation());
  EXPECT_EQ(p->free_slots(), 2u);
  for (int i = 0; i < 3; ++i) outcome(false);
  reg.record_content(*who, who->generation());
  EXPECT_FALSE(who->on_probation()) << "a stream that has content will take its time to end";
}

// Naive variant: the agent's own mark is set, which a new process clears and nobody can call back.
TEST_F(registry_of_two_workers, an_operators_drain_outlasts_reconnects_and_restarts_until_it_is_called_back) {
  connect(1);
  EXPECT_FALSE(reg.set_operator_drain("B", true)) << "nobody of that name";
  EXPECT_TRUE(reg.set_operator_drain("A", true));
  const auto p = reg.find_pool("m");
  {
    pool_section section(*p);
    EXPECT_FALSE(p->take(0));
  }
  EXPECT_EQ(describe_standing(a()->standing()), "drained by the operator");
  EXPECT_TRUE(a()->healthy());
  connect(1);
  EXPECT_FALSE(a()->routable()) << "the same process again";
  reg.goodbye("A");
  connect(2);
  EXPECT_EQ(describe_standing(a()->standing()), "drained by the operator") << "another process";
  EXPECT_TRUE(reg.set_operator_drain("A", false));
  EXPECT_TRUE(a()->routable());
  EXPECT_TRUE(reg.set_operator_drain("A", true));
  reg.goodbye("A");
  EXPECT_TRUE(reg.set_operator_drain("A", false)) << "also of one that has left";
  EXPECT_FALSE(reg.set_operator_drain("A", false)) << "now nobody knows of it";
  connect(3);
  EXPECT_TRUE(a()->routable());
}

struct slot_listener final : pool_watcher {
  void on_more_slots() override { ++more; }
  void on_standing_changed() override { ++changed; }
  bool settle() override { return false; }
  int more = 0, changed = 0;
};

class slow_starters : public registry_of_two_workers {
 protected:
  slow_starters() : registry_of_two_workers({.workers = 2, .slow_start_ns = 8 * ns_per_s}) {}
  void pass(uint64_t ns) {
    clock.advance(ns);
    reg.tick();
  }
  uint32_t capacity() { return a()->slots.load().second; }
};

// Naive variants: all slots at once; the row of the pool keeps what it was; whoever waits is told of none of them, or only of the last.
TEST_F(slow_starters, a_new_agent_gets_one_slot_after_another_and_who_waits_hears_of_each) {
  connect(1, 8);
  const auto p = reg.find_pool("m");
  slot_listener line;
  {
    pool_section section(*p);
    p->set_watcher(&line);
    EXPECT_EQ(p->free_slots(), 1u);
    EXPECT_EQ(p->value(reg.kernel().capacity, 0), 8) << "what it declared is what gates and people see";
    ASSERT_TRUE(p->take(0));
    EXPECT_FALSE(p->take(0));
  }
  EXPECT_TRUE(a()->starting());
  std::vector<uint32_t> each_second;
  for (int tenth = 1; tenth <= 80; ++tenth) {
    pass(100 * ns_per_ms);
    EXPECT_EQ(p->free_slots(), capacity() - 1) << tenth;
    if (tenth % 10 == 0) each_second.push_back(capacity());
  }
  EXPECT_EQ(each_second, (std::vector<uint32_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(line.more, 7);
  EXPECT_EQ(line.changed, 0);
  EXPECT_FALSE(a()->starting());
  {
    pool_section section(*p);
    p->set_watcher(nullptr);
  }
  a()->slots.give_back();
}

TEST_F(slow_starters, a_process_starts_once_however_often_it_connects_and_the_next_one_again) {
  connect(1, 8);
  pass(4 * ns_per_s);
  EXPECT_EQ(capacity(), 4u);
  connect(1, 8);
  EXPECT_EQ(capacity(), 4u);
  pass(4 * ns_per_s);
  EXPECT_EQ(capacity(), 8u);
  reg.link_lost({0, 10}, "");
  reg.link_lost({1, 11}, "");
  connect(1, 8);
  EXPECT_EQ(capacity(), 8u);
  reg.link_lost({0, 10}, "");
  reg.link_lost({1, 11}, "");
  connect(2, 8);
  EXPECT_EQ(capacity(), 1u) << "another process, and the same record";
  EXPECT_EQ(reg.find_pool("m")->free_slots(), 1u);
  pass(2 * ns_per_s);
  reg.goodbye("A");
  connect(3, 8);
  EXPECT_EQ(capacity(), 1u);
  pass(8 * ns_per_s);
  EXPECT_EQ(capacity(), 8u);
}

// Naive variants: a change of one number brings back all slots at once, or the time over counts for what it declared before.
TEST_F(slow_starters, what_else_bounds_the_capacity_holds_beside_it) {
  connect(1, 8);
  pass(4 * ns_per_s);
  reg.pong("A", {6, 0, 8}, {0, 10});
  EXPECT_EQ(capacity(), 2u) << "six of eight are other routers'";
  reg.pong("A", {0, 0, 8}, {0, 10});
  EXPECT_EQ(capacity(), 4u);
  reg.models("A", metadata("\"m\"", 16));
  EXPECT_EQ(capacity(), 8u) << "half of sixteen";
  const auto outcome = [&](bool success) {
    outcome_record o;
    o.generation = a()->generation();
    o.success = success;
    reg.record_outcome(*a(), o);
  };
  for (int i = 0; i < 3; ++i) outcome(false);
  EXPECT_EQ(capacity(), 1u);
  pass(2 * ns_per_s);
  EXPECT_EQ(capacity(), 1u) << "on probation";
  outcome(true);
  EXPECT_EQ(capacity(), 12u);
}

}  // namespace
}  // namespace hive::fleet
