#include "hivenet_bench/percentile.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace hive::bench {
namespace {

std::vector<uint64_t> shuffled(uint64_t n) {
  std::vector<uint64_t> v(n);
  std::iota(v.begin(), v.end(), 1);
  std::shuffle(v.begin(), v.end(), std::mt19937(7));
  return v;
}

// Samples 1..n: the percentile is the rank itself.
TEST(percentile, is_the_sample_at_the_nearest_rank) {
  const struct {
    uint64_t n;
    uint32_t permille;
    uint64_t rank;
  } cases[] = {{1, 500, 1},   {1, 990, 1},    {2, 500, 1},     {2, 501, 2},   {3, 500, 2},       {4, 500, 2},  {10, 900, 9},
               {10, 910, 10}, {100, 990, 99}, {100, 991, 100}, {101, 990, 100}, {1000, 999, 999}, {20, 550, 11}, {100, 550, 55},
               {7, 1000, 7},  {1000, 1, 1}};
  for (const auto &c : cases) {
    auto samples = shuffled(c.n);
    EXPECT_EQ(percentile(samples, c.permille), c.rank) << c.n << " samples, " << c.permille << " permille";
  }
}

TEST(percentile, of_nothing_is_zero) {
  std::vector<uint64_t> none;
  EXPECT_EQ(percentile(none, 500), 0u);
}

TEST(percentile, may_be_asked_again_of_the_same_samples) {
  auto samples = shuffled(1000);
  EXPECT_EQ(percentile(samples, 990), 990u);
  EXPECT_EQ(percentile(samples, 500), 500u);
  EXPECT_EQ(percentile(samples, 1000), 1000u);
}

TEST(percentile, counts_equal_samples_one_by_one) {
  std::vector<uint64_t> samples(99, 5);
  samples.push_back(1000);
  EXPECT_EQ(percentile(samples, 990), 5u);
  EXPECT_EQ(percentile(samples, 1000), 1000u);
}

}  // namespace
}  // namespace hive::bench
