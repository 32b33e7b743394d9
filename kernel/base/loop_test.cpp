#include "base/loop.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

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

TEST(loop, what_a_turn_task_schedules_runs_in_the_same_turn_and_itself_in_the_next) {
  struct chained : turn_task {
    chained(loop &on, turn_task *following, std::string &record, char letter) : l(on), next(following), told(record), name(letter) {}
    void on_turn_end() override {
      told += name;
      if (next != nullptr) l.at_turn_end(*next);
      if (again-- > 0) l.at_turn_end(*this);
      if (fails) throw std::runtime_error("x");
    }
    loop &l;
    turn_task *next;
    std::string &told;
    const char name;
    int again = 0;
    bool fails = false;
  };
  loop l;
  std::string told;
  chained c(l, nullptr, told, 'c'), b(l, &c, told, 'b'), a(l, &b, told, 'a');
  chained f(l, &c, told, 'f');
  f.fails = true;
  a.again = 1;
  l.post([&] {
    l.at_turn_end(a);
    l.at_turn_end(f);
    l.post([&] { told += '1'; });  // behind this turn, before the next
  });
  l.post([&] { l.post([&] { l.post([&] { l.post([&] { l.stop(); }); }); }); });
  int thrown = 0;
  l.run([&](const char *) { ++thrown; });
  // f throws: what was scheduled is not lost, it runs in the turn after.
  EXPECT_EQ(told.substr(0, 2), "af");
  EXPECT_EQ(std::count(told.begin(), told.end(), 'b'), 2);
  EXPECT_EQ(std::count(told.begin(), told.end(), 'c'), 2);
  EXPECT_EQ(thrown, 1);

  told.clear();
  loop m;
  chained z(m, nullptr, told, 'z'), y(m, &z, told, 'y');
  y.again = 1;
  m.post([&] {
    m.at_turn_end(y);
    m.post([&] { told += '1'; });
  });
  m.post([&] { m.post([&] { m.post([&] { m.post([&] { m.stop(); }); }); }); });
  m.run();
  EXPECT_EQ(told, "yz1yz");
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

TEST(loop, a_timer_that_throws_takes_no_other_with_it) {
  loop l;
  int fired = 0, thrown = 0;
  const uint64_t due = now_ns() + 10 * ns_per_ms;
  callback_timer bad([&] { throw std::runtime_error("bad"); });
  callback_timer beside([&] { ++fired; });
  callback_timer later([&] {
    ++fired;
    l.stop();
  });
  boost::asio::steady_timer limit(l.io(), std::chrono::seconds(10));
  limit.async_wait([&](const boost::system::error_code &error) {
    if (!error) l.stop();
  });
  l.arm(bad, due);
  l.arm(beside, due);
  l.arm(later, due + 60 * ns_per_ms);
  l.run([&](const char *) { ++thrown; });
  EXPECT_EQ(thrown, 1);
  EXPECT_EQ(fired, 2);
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
