#include "fleet/latency.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hive::fleet {
namespace {

struct step {
  double r, srtt, rttvar;
};

void walk(latency_estimator &e, std::initializer_list<step> steps) {
  for (const step &s : steps) {
    ASSERT_TRUE(e.add(s.r));
    EXPECT_DOUBLE_EQ(e.value()->srtt_ms, s.srtt) << "R = " << s.r;
    EXPECT_DOUBLE_EQ(e.value()->rttvar_ms, s.rttvar) << "R = " << s.r;
  }
}

TEST(latency, the_first_sample_is_the_estimate_and_half_of_it_the_variation) {
  latency_estimator e;
  EXPECT_FALSE(e.value());
  walk(e, {{200, 200, 100}});
}

TEST(latency, a_spike_moves_it_slowly_and_fast_answers_bring_it_back_quickly) {
  latency_estimator e;
  e.restore({200, 50});
  walk(e, {{5000, 800, 1237.5},
           {200, 500, 1078.125},
           {200, 350, 883.59375},
           {200, 275, 700.1953125},
           {200, 237.5, 543.896484375},
           {200, 218.75, 417.29736328125}});
}

TEST(latency, a_fast_answer_moves_the_estimate_by_half_and_a_slow_one_by_an_eighth) {
  latency_estimator e;
  walk(e, {{100, 100, 50}, {60, 80, 47.5}, {120, 85, 45.625}});
}

TEST(latency, a_restored_value_is_where_the_next_sample_starts_from) {
  latency_estimator e;
  e.restore({42, 5});
  walk(e, {{10, 26, 11.75}});
  latency_estimator f;
  f.restore({195, 0});
  ASSERT_TRUE(f.add(190));
  EXPECT_DOUBLE_EQ(f.value()->srtt_ms, 192.5);
}

TEST(latency, a_sample_equal_to_the_estimate_takes_the_slow_branch) {
  latency_estimator e;
  e.restore({100, 40});
  walk(e, {{100, 100, 30}});
}

TEST(latency, samples_that_are_no_durations_are_ignored) {
  latency_tracker t;
  for (double r : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) EXPECT_FALSE(t.add(r, request_kind::chat));
  EXPECT_FALSE(t.value());
  t.add(7, request_kind::chat);
  for (double r : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) EXPECT_FALSE(t.add(r, request_kind::chat));
  EXPECT_DOUBLE_EQ(t.value()->srtt_ms, 7);
  EXPECT_DOUBLE_EQ(t.values().of(request_kind::chat)->srtt_ms, 7);
}

TEST(latency, restoring_nothing_keeps_it_unknown_and_reset_forgets) {
  latency_tracker t;
  t.restore({0, 0});
  EXPECT_FALSE(t.value());
  t.restore({30, 15});
  EXPECT_DOUBLE_EQ(t.value()->srtt_ms, 30);
  t.add(20, request_kind::other);
  t.reset();
  EXPECT_FALSE(t.value());
  for (const request_kind k : all_kinds) EXPECT_FALSE(t.values().of(k));
}

// Naive variants: one number for all; a kind's estimate continues from the blended one; a kind without samples is unknown.
TEST(latency, each_kind_has_its_own_estimate_and_goes_by_the_blended_one_until_its_first_sample) {
  latency_tracker t;
  t.restore({42, 5});
  for (const request_kind k : all_kinds) EXPECT_DOUBLE_EQ(t.values().of(k)->srtt_ms, 42);
  EXPECT_DOUBLE_EQ(t.add(10, request_kind::stream)->srtt_ms, 26) << "the blended value is what is told";
  EXPECT_DOUBLE_EQ(t.values().of(request_kind::stream)->srtt_ms, 10);
  EXPECT_DOUBLE_EQ(t.values().of(request_kind::stream)->rttvar_ms, 5);
  EXPECT_DOUBLE_EQ(t.values().of(request_kind::chat)->srtt_ms, 26);
  t.add(5018, request_kind::chat);
  EXPECT_DOUBLE_EQ(t.values().of(request_kind::stream)->srtt_ms, 10);
  EXPECT_DOUBLE_EQ(t.values().of(request_kind::chat)->srtt_ms, 5018);
  EXPECT_DOUBLE_EQ(t.value()->srtt_ms, 650);
  EXPECT_DOUBLE_EQ(t.values().of(request_kind::other)->srtt_ms, 650);
  EXPECT_DOUBLE_EQ(t.values().of(request_kind::other)->rttvar_ms, t.value()->rttvar_ms);
}

}  // namespace
}  // namespace hive::fleet
