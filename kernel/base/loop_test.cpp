#include "base/loop.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace hive {
namespace {

struct counting_task : turn_task {
  int runs = 0;
  void on_turn_end() override { ++runs; }
};

TEST(loop, a_turn_task_runs_once_after_the_handlers_that_were_ready) {
  loop l;
  counting_task task;
  int at_second_handler = -1;
  l.post([&] {
    l.at_turn_end(task);
    l.at_turn_end(task);
  });
  l.post([&] { at_second_handler = task.runs; });
  l.post([&] { l.post([&] { l.post([&] { l.stop(); }); }); });
  l.run();
  EXPECT_EQ(at_second_handler, 0);
  EXPECT_EQ(task.runs, 1);
}

TEST(loop, what_turn_tasks_schedule_runs_in_the_same_turn_and_each_of_them_once) {
  struct chained final : turn_task {
    chained(loop &home, std::vector<int> &o, int n) : l(home), order(o), number(n) {}
    void on_turn_end() override {
      order.push_back(number);
      for (turn_task *t : schedules) l.at_turn_end(*t);
    }
    loop &l;
    std::vector<int> &order;
    const int number;
    std::vector<turn_task *> schedules;
  };
  loop l;
  std::vector<int> order;
  chained first(l, order, 1), second(l, order, 2), third(l, order, 3);
  first.schedules = {&second};
  second.schedules = {&third, &first};  // first has run: it is for the next turn
  size_t after_one_turn = 0;
  l.post([&] { l.at_turn_end(first); });
  // Stands behind the end of the first turn, and before that of the second.
  l.post([&] {
    l.post([&] {
      after_one_turn = order.size();
      first.schedules.clear();
      l.post([&] { l.post([&] { l.stop(); }); });
    });
  });
  l.run();
  EXPECT_EQ(after_one_turn, 3u);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 1}));
}

TEST(loop, a_turn_task_that_throws_takes_no_other_with_it) {
  struct thrower final : turn_task {
    void on_turn_end() override { throw std::runtime_error("on purpose"); }
  };
  loop l;
  thrower bad;
  counting_task good;
  std::string heard;
  l.post([&] {
    l.at_turn_end(bad);
    l.at_turn_end(good);
  });
  callback_timer limit([&] { l.stop(); });
  l.arm_in(limit, 50 * ns_per_ms);
  l.run([&](const char *what) { heard = what; });
  EXPECT_EQ(heard, "on purpose");
  EXPECT_EQ(good.runs, 1);
}

TEST(loop, timers_fire_in_order_and_not_early_also_beyond_one_turn_of_the_wheel) {
  loop l;
  const uint64_t start = now_ns();
  std::vector<int> order;
  uint64_t late_at = 0;
  callback_timer near([&] { order.push_back(1); });
  callback_timer cancelled([&] { order.push_back(2); });
  callback_timer later([&] {
    order.push_back(3);
    late_at = now_ns();
    l.stop();
  });
  l.arm(later, start + 60 * ns_per_ms);
  l.arm(cancelled, start + 30 * ns_per_ms);
  l.arm(near, start + 20 * ns_per_ms);
  cancelled.disarm();
  callback_timer far([&] { order.push_back(4); });
  l.arm(far, start + 3600 * ns_per_s);
  l.run();
  EXPECT_EQ(order, (std::vector<int>{1, 3}));
  EXPECT_GE(late_at, start + 60 * ns_per_ms);
  EXPECT_TRUE(far.armed());
}

TEST(loop, a_timer_armed_while_the_loop_sleeps_towards_a_later_one_is_not_late) {
  loop l;
  callback_timer far([] {});
  l.arm_in(far, 3 * ns_per_s);
  uint64_t due = 0, fired = 0;
  callback_timer near([&] {
    fired = now_ns();
    l.stop();
  });
  boost::asio::steady_timer later(l.io(), std::chrono::milliseconds(30));  // by then the driver is asleep
  later.async_wait([&](const boost::system::error_code &) {
    due = now_ns() + 20 * ns_per_ms;
    l.arm(near, due);
  });
  l.run();
  EXPECT_GE(fired, due);
  EXPECT_LT(fired, due + ns_per_s);
}

TEST(loop, an_exception_in_a_handler_is_reported_and_the_loop_goes_on) {
  loop l;
  std::string seen;
  l.post([] { throw std::runtime_error("boom"); });
  l.post([&] { l.stop(); });
  l.run([&](const char *what) { seen = what; });
  EXPECT_EQ(seen, "boom");
}

TEST(loop, a_timer_that_a_timer_destroys_does_not_fire) {
  loop l;
  bool fired = false;
  auto victim = std::make_unique<callback_timer>([&] { fired = true; });
  callback_timer killer([&] { victim.reset(); });
  callback_timer end([&] { l.stop(); });
  const uint64_t due = now_ns() + 10 * ns_per_ms;
  l.arm(killer, due);
  l.arm(*victim, due);
  l.arm(end, due + 30 * ns_per_ms);
  l.run();
  EXPECT_FALSE(fired);
}

}  // namespace
}  // namespace hive
