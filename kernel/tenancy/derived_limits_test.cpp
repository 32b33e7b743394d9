#include "tenancy/derived_limits.hpp"

#include <gtest/gtest.h>

namespace hive::tenancy {
namespace {

// A budget of 1,000 tokens and a context of so many thousandths of it.
model_abilities of_context(uint64_t max_model_len) {
  model_abilities m;
  m.admit_budget_tokens = 1000;
  m.max_model_len = max_model_len;
  return m;
}

TEST(derived_limits, the_share_holds_one_longest_context_and_at_least_four_tenths) {
  EXPECT_DOUBLE_EQ(derive_limits(of_context(250)).max_occupancy_share, 0.40);
  EXPECT_DOUBLE_EQ(derive_limits(of_context(600)).max_occupancy_share, 0.60);
  EXPECT_DOUBLE_EQ(derive_limits(of_context(1700)).max_occupancy_share, 1);
}

TEST(derived_limits, input_is_the_share_at_least_two_longest_prompts_and_never_more_than_there_is) {
  const struct { uint64_t max_input, ceiling, want; const char *why; } cases[] = {
      {250'000, 800'000, 500'000, "two prompts"}, {100'000, 800'000, 320'000, "the share"}, {300'000, 500'000, 500'000, "the ceiling wins"}};
  for (const auto &c : cases) {
    model_abilities m = of_context(400);
    m.max_input_tokens = c.max_input;
    m.input_tokens_a_minute = c.ceiling;
    EXPECT_EQ(derive_limits(m).input_tokens_per_minute, c.want) << c.why;
  }
}

TEST(derived_limits, output_is_the_share_and_requests_are_two_a_slot) {
  model_abilities m = of_context(400);
  m.output_tokens_a_minute = 120'000;
  m.sellable_requests = 48;
  EXPECT_EQ(derive_limits(m).output_tokens_per_minute, 48'000u);
  EXPECT_EQ(derive_limits(m).requests_per_minute, 96u);
}

TEST(derived_limits, of_a_real_deployment) {
  const derived_limits d = derive_limits({408'987, 262'144, 262'144, 519'540, 74'000, 48});
  EXPECT_EQ(d.input_tokens_per_minute, 519'540u);
  EXPECT_EQ(d.requests_per_minute, 96u);
  EXPECT_NEAR(d.max_occupancy_share, 0.64, 0.005);
  EXPECT_NEAR(static_cast<double>(d.output_tokens_per_minute), 47'424, 500);
}

TEST(derived_limits, what_is_not_known_is_not_proposed) {
  model_abilities m;
  m.max_model_len = 1000;
  m.input_tokens_a_minute = m.output_tokens_a_minute = 1000;
  const derived_limits d = derive_limits(m);
  EXPECT_EQ(d.max_occupancy_share, 0);
  EXPECT_EQ(d.input_tokens_per_minute, 0u);
  EXPECT_EQ(d.output_tokens_per_minute, 0u);
  EXPECT_EQ(d.requests_per_minute, 0u);
}

}  // namespace
}  // namespace hive::tenancy
