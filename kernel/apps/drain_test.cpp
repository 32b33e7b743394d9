#include "apps/drain.hpp"

#include <gtest/gtest.h>

namespace hive::apps {
namespace {

using act = drain_plan::act;

TEST(survey, nobody_is_idle_before_everybody_has_said_so) {
  survey s(2);
  EXPECT_EQ(s.total(), std::nullopt);
  const uint64_t round = s.ask();
  s.answer(0, round, 0);
  EXPECT_EQ(s.total(), std::nullopt);
  s.answer(1, round, 3);
  EXPECT_EQ(s.total(), 3u);
}

TEST(survey, an_answer_to_an_older_question_says_nothing) {
  survey s(1);
  const uint64_t before = s.ask();
  const uint64_t after = s.ask();
  s.answer(0, before, 0);
  EXPECT_EQ(s.total(), std::nullopt);
  s.answer(0, after, 1);
  EXPECT_EQ(s.total(), 1u);
}

constexpr drain_limits limits{.delay_ns = 100, .timeout_ns = 1000, .cut_ns = 50, .close_ns = 20};

TEST(drain_plan, announces_then_refuses_then_closes_when_the_last_request_is_done) {
  drain_plan plan(limits);
  EXPECT_EQ(plan.step(0, 0), act::none) << "not begun";
  plan.begin(1000);
  EXPECT_EQ(plan.step(1050, 0), act::none) << "idle, but balancers have not seen it yet";
  EXPECT_EQ(plan.step(1100, 5), act::refuse);
  EXPECT_EQ(plan.step(1200, 5), act::none);
  EXPECT_EQ(plan.step(1201, std::nullopt), act::none) << "a silent worker is not an idle one";
  EXPECT_EQ(plan.step(1300, 0), act::close);
  EXPECT_EQ(plan.step(1301, 1), act::none) << "a connection came in last";
  EXPECT_EQ(plan.step(1302, 0), act::stop);
  EXPECT_EQ(plan.step(1303, 0), act::none);
}

TEST(drain_plan, is_bounded_whatever_the_workers_say) {
  for (const std::optional<size_t> busy : {std::optional<size_t>(1), std::optional<size_t>()}) {
    drain_plan plan(limits);
    plan.begin(0);
    EXPECT_EQ(plan.step(100, busy), act::refuse);
    EXPECT_EQ(plan.step(1099, busy), act::none);
    EXPECT_EQ(plan.step(1100, busy), act::cut);
    EXPECT_EQ(plan.step(1149, busy), act::none);
    EXPECT_EQ(plan.step(1150, busy), act::close);
    EXPECT_EQ(plan.step(1170, busy), act::stop);
  }
}

TEST(drain_plan, a_second_begin_does_not_start_anew) {
  drain_plan plan(limits);
  plan.begin(0);
  EXPECT_EQ(plan.step(100, 1), act::refuse);
  plan.begin(200);
  EXPECT_EQ(plan.step(1100, 1), act::cut);
}

}  // namespace
}  // namespace hive::apps
