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
    reg.record_outcome(*who, {.generation = who->generation(), .success = success, .rtt_ms = 5, .input_tokens = 0, .output_tokens = 0, .request_id = {}, .kind = request_kind::chat});
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
  EXPECT_FALSE(reg.set_aside("B", true)) << "nobody of that name";
  EXPECT_TRUE(reg.set_aside("A", true));
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
  EXPECT_TRUE(reg.set_aside("A", false));
  EXPECT_TRUE(a()->routable());
  EXPECT_TRUE(reg.set_aside("A", true));
  reg.goodbye("A");
  EXPECT_TRUE(reg.set_aside("A", false)) << "also of one that has left";
  EXPECT_FALSE(reg.set_aside("A", false)) << "now nobody knows of it";
  connect(3);
  EXPECT_TRUE(a()->routable());
}

}  // namespace
}  // namespace hive::fleet
