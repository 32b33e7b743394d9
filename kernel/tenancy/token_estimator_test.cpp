#include "tenancy/token_estimator.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace hive::tenancy {
namespace {

TEST(token_estimator, a_cold_model_makes_one_token_of_three_bytes_and_a_fifth) {
  const struct { uint64_t bytes, messages, want; } cases[] = {{3200, 1, 1000}, {100, 1, 32}, {0, 3, 12}, {2, 1, 4}, {0, 0, 0}, {400, 1, 125}};
  const token_estimator e;
  for (const auto &c : cases) EXPECT_EQ(prompt_tokens(e.ratio("m"), c.bytes, c.messages), c.want) << c.bytes;
  EXPECT_FALSE(e.ratio("m").learned);
}

TEST(token_estimator, reports_move_the_ratio_of_their_model_only) {
  token_estimator e;
  e.learn("m", 1000, 400);
  EXPECT_DOUBLE_EQ(e.ratio("m").tokens_per_byte, 0.2 * 0.4 + 0.8 * 0.3125) << "the first sample blends with the cold ratio";
  for (int i = 0; i < 50; ++i) e.learn("m", 1000, 400);
  EXPECT_NEAR(e.ratio("m").tokens_per_byte, 0.40, 0.01);
  EXPECT_TRUE(e.ratio("m").learned);
  EXPECT_DOUBLE_EQ(e.ratio("other").tokens_per_byte, 0.3125);
  EXPECT_FALSE(e.ratio("other").learned);
}

TEST(token_estimator, samples_are_clamped_and_zeros_are_none) {
  token_estimator e;
  e.learn("m", 0, 5);
  e.learn("m", 500, 0);
  EXPECT_FALSE(e.ratio("m").learned);
  e.learn("m", 1000, 400);
  const double learned = e.ratio("m").tokens_per_byte;
  e.learn("m", 0, 400);
  e.learn("m", 1000, 0);
  e.learn("m", 0, 0);
  EXPECT_DOUBLE_EQ(e.ratio("m").tokens_per_byte, learned) << "nor are they where something was learned";
  for (int i = 0; i < 100; ++i) e.learn("high", 100, 5000);
  EXPECT_LE(e.ratio("high").tokens_per_byte, 1);
  EXPECT_GT(e.ratio("high").tokens_per_byte, 0.99);
  for (int i = 0; i < 100; ++i) e.learn("low", 10'000, 1);
  EXPECT_GE(e.ratio("low").tokens_per_byte, 0.05);
  EXPECT_LT(e.ratio("low").tokens_per_byte, 0.051);
}

// With one weight for all, ten greetings make the model's ratio 0.92 and every estimate of a real prompt three times too large.
TEST(token_estimator, short_prompts_do_not_teach_what_the_template_adds) {
  token_estimator e;
  for (int i = 0; i < 1000; ++i) e.learn("hi", 2, 12);
  EXPECT_FALSE(e.ratio("hi").learned);
  for (int i = 0; i < 20; ++i) {
    for (int k = 0; k < 5; ++k) {
      e.learn("mixed", 2, 12);
      e.learn("mixed", 64, 30);
    }
    e.learn("mixed", 4000, 1010);
  }
  EXPECT_NEAR(static_cast<double>(prompt_tokens(e.ratio("mixed"), 4000, 1)), 1010, 500) << "although ten of eleven are short";
}

TEST(token_estimator, the_length_decides_how_much_a_report_weighs) {
  const struct { uint64_t bytes; double weight; } cases[] = {{1, 0}, {63, 0}, {64, 0.05}, {128, 0.1}, {256, 0.2}, {100'000, 0.2}};
  for (const auto &c : cases) {
    token_estimator e;
    e.learn("m", c.bytes, c.bytes);  // a sample of 1
    EXPECT_NEAR(e.ratio("m").tokens_per_byte, 0.3125 + c.weight * (1 - 0.3125), 1e-12) << c.bytes;
    EXPECT_EQ(e.ratio("m").learned, c.weight > 0) << c.bytes;
  }
}

TEST(token_estimator, models_are_bounded) {
  token_estimator e;
  for (size_t i = 0; i < token_estimator::most_models + 10; ++i) e.learn("m" + std::to_string(i), 100, 30);
  EXPECT_TRUE(e.ratio("m0").learned);
  EXPECT_FALSE(e.ratio("m" + std::to_string(token_estimator::most_models + 1)).learned);
}

TEST(token_estimator, threads_may_learn_and_ask_at_once) {
  token_estimator e;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&e] {
      for (int i = 0; i < 1000; ++i) {
        e.learn("m", 1000, 400);
        EXPECT_LE(e.ratio("m").tokens_per_byte, 0.41);
      }
    });
  for (auto &t : threads) t.join();
  EXPECT_NEAR(e.ratio("m").tokens_per_byte, 0.40, 0.001);
}

}  // namespace
}  // namespace hive::tenancy
