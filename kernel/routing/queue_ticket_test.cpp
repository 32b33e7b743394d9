// The life of a ticket: a retry keeps its place, and a wake finds the request that it was sent for or nobody.
#include "routing/queue.hpp"

#include "routing/queue_bed.hpp"

namespace hive::routing {
namespace {

using testing::bed;
using testing::request;
using state = request::state;

TEST(queue, a_retry_keeps_its_place) {
  bed b;
  b.add("A0", 1);
  b.add("A1", 1);
  request y(b, "m", {"A1"});
  y.enter();
  request first(b), second(b);
  first.enter();
  second.enter();
  first.retry();                              // A0 has failed it, only A1 is left
  second.cancel();
  request third(b, "m", {"A1"});
  third.enter();
  y.finish();
  b.deliver_all();
  EXPECT_EQ(first.agent(), "A1");
  EXPECT_EQ(third.now, state::waiting);
}

TEST(queue, a_wake_for_a_ticket_in_another_life_does_nothing) {
  bed b;
  b.add("A0", 1);
  request t0(b), t1(b);
  t0.enter();
  t1.enter();
  t0.finish();
  ASSERT_EQ(b.wakes.size(), 1u);
  t1.cancel();
  t0.enter();
  t1.enter();
  ASSERT_EQ(t1.now, state::waiting);
  b.deliver_all();
  EXPECT_EQ(t1.wakes, 0);
  EXPECT_EQ(t1.now, state::waiting);
}

// `first` takes the only slot and returns it; whoever is woken for it is gone before the wake arrives.
void wake_nobody(bed &b, request &first) {
  first.enter();
  request gone(b);
  gone.enter();
  first.finish();
  ASSERT_EQ(b.wakes.size(), 1u);
}

TEST(queue, a_wake_for_a_destroyed_ticket_does_nothing) {
  bed b;
  b.add("A0", 1);
  request t0(b);
  wake_nobody(b, t0);
  b.deliver_all();
  EXPECT_EQ(b.line("m").stats().depth, 0u);
}

// States of tickets are used again. Naive variant: one that a wake on its way still holds is, too, and the wake finds another's request.
TEST(queue, a_wake_for_a_destroyed_ticket_does_nothing_to_the_one_that_comes_after_it) {
  bed b;
  b.add("A0", 1);
  request t0(b);
  wake_nobody(b, t0);
  t0.enter();
  request t2(b);
  t2.enter();
  ASSERT_EQ(t2.now, state::waiting);
  b.deliver_all();
  EXPECT_EQ(t2.wakes, 0);
  t0.finish();
  b.deliver_all();
  EXPECT_EQ(t2.now, state::holding);
  EXPECT_EQ(t2.wakes, 1);
}

// Naive variant: with the state it takes the number, and so the place, of whoever had it before.
TEST(queue, a_ticket_that_takes_the_state_of_another_goes_behind_those_who_wait) {
  bed b;
  b.add("A0", 1);
  request t0(b);
  t0.enter();
  auto early = std::make_unique<request>(b);
  early->enter();
  request first(b), last(b);
  first.enter();
  early.reset();
  last.enter();
  t0.finish();
  b.deliver_all();
  EXPECT_EQ(first.now, state::holding);
  EXPECT_EQ(last.now, state::waiting);
}

}  // namespace
}  // namespace hive::routing
