#include "tenancy/request_rate.hpp"

#include <gtest/gtest.h>

namespace hive::tenancy {
namespace {

struct rates : ::testing::Test {
  manual_clock clock;
  request_rate some{clock};

  int allowed(request_rate &of, std::string_view bucket, uint64_t a_minute, int asked) {
    int yes = 0;
    for (int i = 0; i < asked; ++i) yes += of.take(bucket, a_minute).allowed;
    return yes;
  }
};

TEST_F(rates, a_bucket_gives_a_minutes_requests_at_once_and_others_have_their_own) {
  EXPECT_EQ(allowed(some, "a", 2, 3), 2);
  EXPECT_EQ(allowed(some, "b", 2, 1), 1);
  EXPECT_EQ(allowed(some, "c", 96, 300), 96);
}

TEST_F(rates, a_burst_window_lets_fewer_come_at_once) {
  struct {
    uint64_t seconds, a_minute;
    int asked, admitted;
  } const cases[] = {{10, 60, 20, 10}, {0, 60, 20, 20}, {60, 60, 80, 60}, {3600, 60, 80, 60}, {1, 10, 5, 1}, {59, 60, 80, 59}, {30, 7, 9, 3}};
  for (const auto &c : cases) {
    request_rate windowed(clock, c.seconds);
    EXPECT_EQ(allowed(windowed, "a", c.a_minute, c.asked), c.admitted) << c.seconds << " s of " << c.a_minute;
  }
  EXPECT_GT(some.take("huge", UINT64_MAX).remaining, 1u << 30);
  EXPECT_EQ(request_rate(clock, 59).burst(UINT64_MAX), UINT64_MAX / 60 * 59 + UINT64_MAX % 60 * 59 / 60) << "no limit overflows";
}

// The naive window that begins anew each minute would give a whole minute's at its start.
TEST_F(rates, it_fills_continuously_and_a_denial_takes_nothing) {
  ASSERT_EQ(allowed(some, "a", 60, 60), 60);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(some.take("a", 60).allowed);
  clock.advance(ns_per_s);
  EXPECT_EQ(allowed(some, "a", 60, 2), 1);
  clock.advance(3600 * ns_per_s);
  EXPECT_EQ(allowed(some, "a", 60, 100), 60) << "never more than a minute's";
}

TEST_F(rates, it_tells_what_is_left_and_when_the_next_may_come) {
  const auto first = some.take("a", 6);
  EXPECT_TRUE(first.allowed);
  EXPECT_EQ(first.remaining, 5u);
  EXPECT_EQ(first.retry_ns, 0u);
  EXPECT_EQ(first.full_ns, 10 * ns_per_s);
  allowed(some, "a", 6, 5);
  auto denied = some.take("a", 6);
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(denied.remaining, 0u);
  EXPECT_EQ(denied.retry_ns, 10 * ns_per_s);
  EXPECT_EQ(denied.full_ns, 60 * ns_per_s);
  clock.advance(7 * ns_per_s);
  denied = some.take("a", 6);
  EXPECT_NEAR(static_cast<double>(denied.retry_ns), 3e9, 1e3);
  clock.advance(denied.retry_ns);
  EXPECT_TRUE(some.take("a", 6).allowed) << "the time that was told suffices";
}

TEST_F(rates, a_changed_limit_acts_at_the_next_call) {
  ASSERT_EQ(allowed(some, "a", 2, 2), 2);
  EXPECT_FALSE(some.take("a", 60'000).allowed) << "the time so far counts at the old rate";
  clock.advance(15 * ns_per_ms);
  EXPECT_EQ(allowed(some, "a", 60'000, 13), 13);
  EXPECT_EQ(allowed(some, "a", 2, 5), 2) << "what was there is kept";
  clock.advance(15 * ns_per_ms);
  EXPECT_FALSE(some.take("a", 2).allowed);
  clock.advance(600 * ns_per_s);
  EXPECT_EQ(allowed(some, "a", 60'000, 1), 1);
  EXPECT_EQ(allowed(some, "a", 2, 5), 1) << "a smaller limit keeps what it can hold";
}

TEST_F(rates, a_smaller_limit_clips_what_is_stored_when_the_bucket_next_fills) {
  ASSERT_EQ(allowed(some, "a", 60, 10), 10);
  const auto dip = some.take("a", 20);
  EXPECT_TRUE(dip.allowed);
  EXPECT_EQ(dip.remaining, 20u) << "never more than the limit";
  EXPECT_EQ(dip.full_ns, 0u);
  EXPECT_EQ(some.take("a", 60).remaining, 48u) << "back in the same moment";
  some.take("a", 20);
  clock.advance(1);
  EXPECT_EQ(allowed(some, "a", 20, 60), 20);
}

TEST_F(rates, full_ones_are_forgotten_and_partly_drained_ones_are_not) {
  some.take("a", 60);
  EXPECT_EQ(some.sweep(), 0u);
  clock.advance(2 * ns_per_s);
  EXPECT_EQ(some.sweep(), 1u);
  EXPECT_EQ(some.size(), 0u);
  EXPECT_EQ(some.take("a", 60).remaining, 59u) << "it works again";
}

TEST_F(rates, the_wall_clock_does_not_matter) {
  ASSERT_EQ(allowed(some, "a", 2, 2), 2);
  for (const int64_t hours : {5, -10, 24 * 400}) {
    clock.step_wall(hours * 3'600'000);
    EXPECT_FALSE(some.take("a", 2).allowed) << hours;
  }
  clock.advance(60 * ns_per_s);
  EXPECT_EQ(allowed(some, "a", 2, 3), 2);
}

}  // namespace
}  // namespace hive::tenancy
