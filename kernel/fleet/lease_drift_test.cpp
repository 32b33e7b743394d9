#include "fleet/lease_drift.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace hive::fleet {
namespace {

TEST(lease_drift, is_what_stays_and_not_what_a_moment_showed) {
  const struct {
    const char *what;
    std::vector<int64_t> differences;
    int64_t drift;
  } cases[] = {
      {"nothing yet", {}, 0},
      {"at rest", {0, 0, 0}, 0},
      {"one reading between take and hand-over", {0, 1, 0, 0}, 0},
      {"noise of both signs", {2, -1, 3, -2, 1}, 0},
      {"too short to say", {1, 1}, 0},
      {"a lost slot", {1, 1, 1}, 1},
      {"a lost slot under load", {4, 1, 2}, 1},
      {"a slot returned twice", {-3, -2, -5}, -2},
      {"gone again", {1, 1, 1, 0}, 0},
  };
  for (const auto &c : cases) {
    lease_drift drift;
    for (const int64_t d : c.differences) drift.sample(10 + d, 10);
    EXPECT_EQ(drift.value(), c.drift) << c.what;
  }
}

}  // namespace
}  // namespace hive::fleet
