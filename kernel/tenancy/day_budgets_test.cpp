#include "tenancy/day_budgets.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace hive::tenancy {
namespace {

constexpr uint64_t hour_ms = 3'600'000, hour_ns = 3600 * ns_per_s;

struct budgets : ::testing::Test {
  manual_clock clock;            // 2023-11-14T22:13:21Z
  day_budgets some{clock};
  day_charge charge;

  bool take(std::string_view budget, uint64_t limit, uint64_t prompt, uint64_t declared = 0) { return some.take(budget, limit, prompt, declared, charge); }
};

TEST_F(budgets, each_has_its_own_and_what_is_left_is_told) {
  using namespace std::string_view_literals;
  EXPECT_TRUE(take("acme\0a"sv, 100, 90));
  EXPECT_EQ(some.remaining("acme\0a"sv, 100), 10u);
  EXPECT_TRUE(take("acme\0b"sv, 100, 90));
  EXPECT_TRUE(take("flat", 100, 60));
  EXPECT_EQ(some.remaining("flat", 100), 40u);
  EXPECT_EQ(some.remaining("nobody", 7), 7u);
}

TEST_F(budgets, a_refused_request_leaves_the_budget_as_it_was) {
  struct {
    uint64_t left, prompt, declared;
    bool fits;
  } const cases[] = {{10, 4, 1000, false}, {10, 11, 0, false}, {2, 4, 1000, false}, {0, 4, 0, false}, {0, 0, 0, false},  {10, 0, 1000, false},
                     {10, 4, 6, true},     {10, 10, 0, true},  {10, 0, 10, true},   {10, 4, UINT64_MAX, false},          {10, UINT64_MAX, 5, false}};
  for (const auto &c : cases) {
    day_budgets fresh(clock);
    day_charge all;
    ASSERT_TRUE(fresh.take("a", 100, 100 - c.left, 0, all));
    EXPECT_EQ(fresh.take("a", 100, c.prompt, c.declared, all), c.fits) << c.left << " " << c.prompt << " " << c.declared;
    EXPECT_EQ(fresh.remaining("a", 100), c.fits ? c.left - c.prompt : c.left) << "only a prompt is taken before";
  }
}

TEST_F(budgets, what_an_answer_really_cost_counts) {
  struct {
    uint64_t limit, prompt;
    std::optional<uint64_t> real;
    uint64_t output;
    bool in_budget;
    uint64_t used;
  } const cases[] = {
      {100, 10, 12, 20, true, 32},           {100, 10, 4, 20, true, 24},   {100, 10, std::nullopt, 20, true, 30},
      {100, 10, std::nullopt, 90, true, 100},  {100, 10, std::nullopt, 91, false, 100},
      {100, 10, 95, 6, false, 100},          {100, 10, 500, 0, true, 100},  // a prompt that was served refuses nothing
      {100, 10, UINT64_MAX, UINT64_MAX, false, 100}, {UINT64_MAX, 10, UINT64_MAX, 0, true, UINT64_MAX}, {100, 10, 0, 0, true, 0}};
  for (const auto &c : cases) {
    day_budgets fresh(clock);
    day_charge taken;
    ASSERT_TRUE(fresh.take("a", c.limit, c.prompt, 0, taken));
    EXPECT_EQ(fresh.settle("a", c.limit, taken, c.real, c.output), c.in_budget) << c.limit << " " << c.output;
    EXPECT_EQ(fresh.used("a"), c.used) << c.output;
  }
}

TEST_F(budgets, what_is_given_back_can_be_used_again_once) {
  ASSERT_TRUE(take("a", 100, 100));
  some.give_back("a", charge);
  EXPECT_EQ(some.used("a"), 0u);
  some.give_back("a", charge);
  EXPECT_EQ(some.used("a"), 0u) << "never below zero";
}

TEST_F(budgets, a_lowered_limit_leaves_nothing_and_gives_nothing_back) {
  ASSERT_TRUE(take("a", 1000, 500));
  EXPECT_EQ(some.remaining("a", 100), 0u);
  EXPECT_FALSE(take("a", 100, 1));
  EXPECT_FALSE(some.settle("a", 100, {charge.day, 500}, 500, 3));
  EXPECT_EQ(some.remaining("a", 1000), 500u) << "the usage is still known";
}

TEST_F(budgets, the_day_ends_at_midnight_utc) {
  ASSERT_TRUE(take("a", 100, 100));
  const uint64_t left = some.seconds_left();
  EXPECT_EQ(left, 86'400 - (clock.wall_ms() / 1000) % 86'400);
  clock.advance((left - 1) * ns_per_s);
  EXPECT_FALSE(take("a", 100, 1));
  clock.advance(ns_per_s);
  EXPECT_EQ(some.used("a"), 0u);
  const day_charge yesterday = charge;
  EXPECT_TRUE(take("a", 100, 30));
  EXPECT_TRUE(some.settle("a", 100, yesterday, 200, 50)) << "the prompt was yesterday's, the answer is today's";
  EXPECT_EQ(some.used("a"), 80u);
  some.give_back("a", yesterday);
  EXPECT_EQ(some.used("a"), 80u);
}

TEST_F(budgets, todays_survive_a_sweep_and_yesterdays_do_not) {
  ASSERT_TRUE(take("a", 100, 1));
  EXPECT_EQ(some.sweep(), 0u);
  EXPECT_EQ(some.used("a"), 1u);
  clock.advance(24 * hour_ns);
  EXPECT_EQ(some.sweep(), 1u);
  EXPECT_EQ(some.size(), 0u);
}

// Naive variants: a counter that compares its day with the wall clock refills on the way there and again on the way back.
TEST_F(budgets, a_wall_clock_that_jumps_neither_refills_nor_locks) {
  for (const int64_t hours : {2, -3, 24 * 30, -24 * 60}) {
    day_budgets fresh(clock);
    day_charge all;
    ASSERT_TRUE(fresh.take("a", 100, 100, 0, all));
    ASSERT_TRUE(fresh.take("free", 100, 10, 0, all));
    clock.step_wall(hours * static_cast<int64_t>(hour_ms));
    EXPECT_EQ(fresh.used("a"), 100u) << hours;
    EXPECT_EQ(fresh.remaining("free", 100), 90u) << hours;
    clock.advance(ns_per_s);
    EXPECT_EQ(fresh.used("a"), 100u) << hours;
    clock.step_wall(-hours * static_cast<int64_t>(hour_ms));
    EXPECT_EQ(fresh.used("a"), 100u) << hours;
    EXPECT_EQ(fresh.seconds_left(), 86'400 - (clock.wall_ms() / 1000) % 86'400) << hours;
  }
}

TEST_F(budgets, a_jump_that_holds_for_an_hour_is_believed) {
  ASSERT_TRUE(take("a", 100, 100));
  clock.step_wall(24 * 10 * static_cast<int64_t>(hour_ms));
  for (int minutes = 0; minutes < 60; ++minutes) {
    EXPECT_EQ(some.today(), 19'675u) << minutes;
    clock.advance(60 * ns_per_s);
  }
  EXPECT_EQ(some.today(), 19'685u);
  EXPECT_EQ(some.used("a"), 0u);
}

TEST_F(budgets, a_clock_put_back_over_midnight_by_a_moment_does_not_empty_the_new_day) {
  clock.advance(some.seconds_left() * ns_per_s);
  ASSERT_TRUE(take("a", 100, 70));
  clock.step_wall(-1500);
  EXPECT_EQ(some.used("a"), 70u);
  EXPECT_FALSE(take("a", 100, 31));
  clock.step_wall(1500);
  EXPECT_EQ(some.used("a"), 70u);
}

TEST_F(budgets, what_changed_is_told_once_and_what_was_stored_is_added) {
  ASSERT_TRUE(take("a", 100, 7));
  ASSERT_TRUE(take("b", 100, 8));
  auto changed = some.take_changed();
  std::sort(changed.begin(), changed.end(), [](const auto &x, const auto &y) { return x.budget < y.budget; });
  ASSERT_EQ(changed.size(), 2u);
  EXPECT_EQ(changed[1].budget, "b");
  EXPECT_EQ(changed[1].used, 8u);
  EXPECT_EQ(changed[1].day, some.today());
  EXPECT_TRUE(some.take_changed().empty());
  some.changed_again({changed[0]});
  EXPECT_EQ(some.take_changed().size(), 1u);

  const uint64_t today = some.today();
  some.restore({{"a", today, 50}, {"c", today, 9}, {"c", today - 1, 1000}, {"huge", today, INT64_MAX}});
  EXPECT_EQ(some.used("a"), 57u);
  EXPECT_EQ(some.used("c"), 9u);
  EXPECT_EQ(some.remaining("huge", 100), 0u);
  changed = some.take_changed();
  ASSERT_EQ(changed.size(), 1u) << "what is stored as it is needs no writing";
  EXPECT_EQ(changed[0].used, 57u);
}

}  // namespace
}  // namespace hive::tenancy
