#include "gateway/forward_line.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "base/clock.hpp"
#include "base/loop.hpp"

namespace hive::gateway {
namespace {

struct waiter : forward_waiter {
  waiter(loop &l, std::vector<int> &o, int i) : forward_waiter(l), order(o), id(i) {}
  void on_forward_slot() override { order.push_back(id); }
  void on_forward_refused() override { order.push_back(-id); }
  std::vector<int> &order;
  int id;
};

void run_ready(loop &l) {
  l.io().restart();
  l.io().poll();
}

// docs/waiting.md, P12; and no slot is free beside a request that holds a lease and waits for one.
TEST(forward_line, slots_go_in_order_and_those_with_a_lease_first) {
  loop l;
  std::vector<int> order;
  forward_line line(1, 10);
  waiter a(l, order, 1), b(l, order, 2), c(l, order, 3), d(l, order, 4);
  EXPECT_EQ(line.acquire(a, false), forward_line::answer::granted);
  EXPECT_EQ(line.acquire(b, false), forward_line::answer::waiting);
  EXPECT_EQ(line.acquire(c, true), forward_line::answer::waiting);
  EXPECT_EQ(line.acquire(d, true), forward_line::answer::waiting);
  for (waiter *w : {&a, &c, &d, &b}) {
    EXPECT_TRUE(w->holds_slot());
    line.release(*w);
    run_ready(l);
  }
  EXPECT_EQ(order, (std::vector<int>{3, 4, 2}));
  EXPECT_EQ(line.in_use(), 0u);
}

TEST(forward_line, a_newcomer_does_not_pass_those_who_wait) {
  loop l;
  std::vector<int> order;
  forward_line line(1, 10);
  waiter a(l, order, 1), b(l, order, 2), c(l, order, 3);
  line.acquire(a, false);
  line.acquire(b, false);
  line.release(a);  // the slot is on its way to b
  EXPECT_EQ(line.acquire(c, false), forward_line::answer::waiting);
  run_ready(l);
  EXPECT_TRUE(b.holds_slot());
  EXPECT_FALSE(c.holds_slot());
}

TEST(forward_line, a_slot_on_its_way_to_one_who_left_is_passed_on) {
  loop l;
  std::vector<int> order;
  forward_line line(1, 10);
  waiter a(l, order, 1), c(l, order, 3);
  {
    waiter b(l, order, 2);
    line.acquire(a, false);
    line.acquire(b, false);
    line.acquire(c, false);
    line.release(a);
  }
  run_ready(l);
  run_ready(l);
  EXPECT_EQ(order, (std::vector<int>{3}));
  EXPECT_EQ(line.in_use(), 1u);
}

TEST(forward_line, the_line_is_bounded_and_the_overflow_waits_only_a_while) {
  loop l;
  std::vector<int> order;
  forward_line line(1, 1, 20 * ns_per_ms);
  waiter a(l, order, 1), b(l, order, 2), c(l, order, 3), d(l, order, 4);
  line.acquire(a, false);
  EXPECT_EQ(line.acquire(b, false), forward_line::answer::waiting);
  EXPECT_EQ(line.acquire(c, false), forward_line::answer::waiting);
  EXPECT_EQ(line.acquire(d, false), forward_line::answer::full);
  for (const uint64_t end = now_ns() + 10 * ns_per_s; order.empty() && now_ns() < end;) l.io().run_one_for(std::chrono::milliseconds(5));
  run_ready(l);
  EXPECT_EQ(order, (std::vector<int>{-3}));
  EXPECT_EQ(line.waiting(), 1u);
}

// Who is refused is told to come back after that.
TEST(forward_line, knows_its_own_speed_by_those_who_waited) {
  loop l;
  manual_clock clock;
  std::vector<int> order;
  forward_line line(1, 10, 5 * ns_per_s, &clock);
  waiter a(l, order, 1), b(l, order, 2), c(l, order, 3), d(l, order, 4), e(l, order, 5), leased(l, order, 6);
  for (waiter *w : {&a, &b, &c, &d, &e}) line.acquire(*w, false);
  for (waiter *w : {&a, &b}) {
    clock.advance(3 * ns_per_s);
    line.release(*w);
    run_ready(l);
  }
  EXPECT_EQ(line.gap_ns(), 0u) << "two are no measurement";
  clock.advance(3 * ns_per_s);
  line.release(c);
  run_ready(l);
  ASSERT_TRUE(d.holds_slot());
  EXPECT_EQ(line.gap_ns(), 3 * ns_per_s);
  line.acquire(leased, true);
  clock.advance(ns_per_s);
  line.release(d);
  run_ready(l);
  ASSERT_TRUE(leased.holds_slot());
  EXPECT_EQ(line.gap_ns(), 3 * ns_per_s) << "a slot that goes past the line moves nobody in it";
  clock.advance(2 * ns_per_s);
  line.release(leased);
  run_ready(l);
  ASSERT_TRUE(e.holds_slot());
  EXPECT_EQ(line.gap_ns(), 3 * ns_per_s);
  // An hour in which nobody waited is no gap.
  clock.advance(3600 * ns_per_s);
  EXPECT_EQ(line.gap_ns(), 0u) << "old";
  line.acquire(a, false);
  clock.advance(3 * ns_per_s);
  line.release(e);
  run_ready(l);
  EXPECT_EQ(line.gap_ns(), 3 * ns_per_s);
}

}  // namespace
}  // namespace hive::gateway
