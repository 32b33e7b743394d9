#include "base/byte_budget.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace hive {
namespace {

constexpr size_t mib = 1 << 20;

TEST(byte_budget, counts_what_its_claims_hold_and_forgets_what_they_gave_back) {
  byte_budget budget(10 * mib);
  byte_share here(budget), there(budget);
  auto body = std::make_unique<byte_claim>(&here);
  byte_claim answer(&there);
  body->set(3 * mib);
  answer.set(2 * mib);
  EXPECT_EQ(budget.held(), 5 * mib);
  answer.set(mib);
  EXPECT_EQ(budget.held(), 4 * mib);
  body.reset();
  answer.set(0);
  EXPECT_EQ(budget.held(), 0u);
}

TEST(byte_budget, small_changes_are_told_late_but_never_lost) {
  byte_budget budget(mib);
  byte_share share(budget);
  {
    byte_claim few(&share), more(&share);
    few.set(100);
    EXPECT_EQ(budget.held(), 0u) << "below the step nothing is told";
    more.set(byte_share::step);
    EXPECT_EQ(budget.held(), byte_share::step + 100u);
  }
  EXPECT_EQ(budget.held(), 0u);
}

TEST(byte_budget, says_what_fits) {
  const struct {
    uint64_t limit, held, more;
    bool fits;
  } cases[] = {{mib, 0, mib, true},        {mib, 0, mib + 1, false},          {mib, mib / 2, mib / 2, true},
               {mib, mib / 2, mib, false}, {mib, mib, 0, true},               {mib, mib + 1, 0, false},
               {mib, 0, UINT64_MAX, false}, {0, 5 * mib, UINT64_MAX, true}};
  for (const auto &c : cases) {
    byte_budget budget(c.limit);
    byte_share share(budget);
    byte_claim claim(&share);
    claim.set(c.held);
    EXPECT_EQ(budget.fits(c.more), c.fits) << c.limit << " " << c.held << " " << c.more;
    EXPECT_EQ(budget.over(), c.limit != 0 && c.held > c.limit);
  }
}

TEST(byte_budget, a_claim_without_a_share_counts_nowhere) {
  byte_claim claim;
  claim.set(mib);
  EXPECT_EQ(claim.bytes(), mib);
}

}  // namespace
}  // namespace hive
