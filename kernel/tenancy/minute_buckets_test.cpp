#include "tenancy/minute_buckets.hpp"

#include <gtest/gtest.h>

namespace hive::tenancy {
namespace {

struct buckets : ::testing::Test {
  manual_clock clock;
  minute_buckets some{clock};
};

TEST_F(buckets, a_full_bucket_gives_its_limit_once_and_other_keys_have_their_own) {
  EXPECT_TRUE(some.take("a", 1000, 600));
  EXPECT_FALSE(some.take("a", 1000, 600));
  EXPECT_TRUE(some.take("a", 1000, 400)) << "a denial takes nothing";
  EXPECT_TRUE(some.take("b", 1000, 600));
  EXPECT_TRUE(some.take("c", 519'540, 262'144));
  EXPECT_FALSE(some.take("d", 10, 14)) << "more than the bucket holds is never allowed";
}

TEST_F(buckets, it_fills_continuously) {
  ASSERT_TRUE(some.take("a", 600, 600));
  clock.advance(ns_per_s);
  EXPECT_FALSE(some.take("a", 600, 11));
  EXPECT_TRUE(some.take("a", 600, 10));
  clock.advance(600 * ns_per_s);
  EXPECT_FALSE(some.take("a", 600, 601)) << "never above its limit";
}

// Naive variant: the sum of many small fills is a hair below the limit, and whoever waited as long as it was told is refused.
TEST_F(buckets, many_small_fills_make_exactly_a_full_one) {
  for (const uint64_t limit : {600u, 700u, 1000u, 519'540u}) {
    const std::string name = std::to_string(limit);
    ASSERT_TRUE(some.take(name, limit, limit));
    for (int i = 0; i < 6000; ++i) {
      clock.advance(10 * ns_per_ms);
      some.exhausted(name, limit);
    }
    EXPECT_EQ(some.wait_s(name, limit, limit), 1u) << limit;
    EXPECT_TRUE(some.take(name, limit, limit)) << limit;
    EXPECT_TRUE(some.exhausted(name, limit)) << limit;
    EXPECT_FALSE(some.take(name, limit, 1)) << "the slack is no token";
  }
}

TEST_F(buckets, who_waits_as_long_as_it_was_told_is_let_in) {
  ASSERT_TRUE(some.take("a", 7, 7));
  for (int i = 0; i < 20; ++i) {
    clock.advance(some.wait_s("a", 7, 3) * ns_per_s);
    EXPECT_TRUE(some.take("a", 7, 3)) << i;
  }
}

TEST_F(buckets, no_limit_denies_and_keeps_nothing) {
  EXPECT_TRUE(some.take("a", 0, UINT64_MAX));
  EXPECT_FALSE(some.exhausted("a", 0));
  some.charge("a", 0, 5);
  some.give_back("a", 0, 5);
  EXPECT_EQ(some.size(), 0u);
}

// The naive variant that charges all of it would lock the key out for fifty minutes.
TEST_F(buckets, one_long_answer_drains_a_minute_at_most) {
  EXPECT_FALSE(some.exhausted("a", 1000));
  some.charge("a", 1000, 50'000);
  EXPECT_TRUE(some.exhausted("a", 1000));
  clock.advance(ns_per_s / 10);
  EXPECT_FALSE(some.exhausted("a", 1000));
  some.charge("a", 1000, 1000);
  some.charge("a", 1000, 1000);
  clock.advance(60 * ns_per_s);
  EXPECT_TRUE(some.exhausted("a", 1000)) << "two together go below zero";
}

TEST_F(buckets, a_changed_limit_acts_at_the_next_call) {
  ASSERT_TRUE(some.take("a", 2, 2));
  EXPECT_FALSE(some.take("a", 60'000, 1)) << "the time so far counts at the old rate";
  clock.advance(15 * ns_per_ms);
  EXPECT_TRUE(some.take("a", 60'000, 1));
  EXPECT_FALSE(some.take("a", 2, 1 + 13)) << "what is above the new limit is gone";
}

TEST_F(buckets, what_is_given_back_can_be_taken_again) {
  ASSERT_TRUE(some.take("a", 100, 80));
  some.give_back("a", 100, 80);
  EXPECT_TRUE(some.take("a", 100, 100));
  some.give_back("a", 100, 1'000'000);
  EXPECT_FALSE(some.take("a", 100, 101));
}

TEST_F(buckets, full_ones_are_forgotten_and_partly_drained_ones_are_not) {
  ASSERT_TRUE(some.take("half", 100, 50));
  EXPECT_FALSE(some.exhausted("full", 100));
  EXPECT_EQ(some.sweep(), 1u);
  EXPECT_EQ(some.sweep(), 0u);
  clock.advance(31 * ns_per_s);
  EXPECT_EQ(some.sweep(), 1u);
  EXPECT_TRUE(some.take("half", 100, 100)) << "it works again";
}

TEST_F(buckets, many_small_requests_pass_a_large_input_limit) {
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(some.take("a", 520'000, 100)) << i;
}

}  // namespace
}  // namespace hive::tenancy
