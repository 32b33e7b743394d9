#include "agent/windows.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "base/clock.hpp"

namespace hive::agent {
namespace {

histogram_totals totals(std::vector<double> cumulative, double sum, double total) {
  return {{0.1, 0.5, 1.0}, std::move(cumulative), sum, total};
}

TEST(windows, the_mean_is_the_sum_over_the_count_and_the_p90_lies_inside_its_bucket) {
  const histogram_totals h = totals({0, 5, 10}, 3, 10);
  EXPECT_DOUBLE_EQ(*mean_of(h), 0.3);
  EXPECT_DOUBLE_EQ(*quantile_of(h, 0.9), 0.9);
  EXPECT_FALSE(mean_of(totals({0, 0, 0}, 0, 0)));
  EXPECT_DOUBLE_EQ(*quantile_of(totals({0, 0, 1}, 30, 10), 0.9), 1.0) << "beyond the last finite bound: that bound";
}

TEST(windows, only_the_last_minute_counts_once_it_is_known) {
  histogram_window w(60 * ns_per_s);
  w.add(1 * ns_per_s, totals({100, 100, 100}, 5, 100));
  EXPECT_DOUBLE_EQ(*mean_of(*w.recent()), 0.05) << "a fresh agent shows the engine's life so far";
  for (uint64_t at = 2; at <= 90; ++at)
    w.add(at * ns_per_s, totals({100, 100, 100 + double(at)}, 5 + 0.8 * double(at), 100 + double(at)));
  EXPECT_NEAR(*mean_of(*w.recent()), 0.8, 1e-9);
  EXPECT_NEAR(w.recent()->total, 60, 1.5);
}

TEST(windows, a_restarted_engine_starts_the_window_again_and_no_delta_is_negative) {
  histogram_window w(60 * ns_per_s);
  w.add(1 * ns_per_s, totals({10, 10, 10}, 1, 10));
  w.add(2 * ns_per_s, totals({2, 2, 2}, 0.2, 2));
  EXPECT_DOUBLE_EQ(w.recent()->total, 2);
  rate_meter r;
  EXPECT_FALSE(r.add(1 * ns_per_s, 100));
  EXPECT_DOUBLE_EQ(*r.add(3 * ns_per_s, 110), 5);
  EXPECT_FALSE(r.add(4 * ns_per_s, 3));
}

TEST(windows, a_quiet_minute_has_no_average) {
  histogram_window w(60 * ns_per_s);
  for (uint64_t at = 1; at <= 200; ++at) w.add(at * ns_per_s, totals({10, 10, 10}, 1, 10));
  EXPECT_FALSE(w.recent());
}

}  // namespace
}  // namespace hive::agent
