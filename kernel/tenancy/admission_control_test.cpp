#include "tenancy/admission_control.hpp"

#include <gtest/gtest.h>

#include "tenancy/parking_bed.hpp"

namespace hive::tenancy {
namespace {

using testing::run_until;

struct entrant final : admittance {
  using admittance::admittance;
  void on_admitted() override { ++let_in; }
  void on_refused(const refusal &r) override { why = r; }
  int let_in = 0;
  refusal why;
};

struct door : ::testing::Test {
  manual_clock clock;
  loop home;
  admission_settings settings{.fraction = 1, .park_ns = 0};
  std::unique_ptr<admission_control> control;
  admission_terms terms;
  std::shared_ptr<client_key> key = std::make_shared<client_key>();

  door() {
    terms.known = true;
    key->id = "k1";
  }
  admission_control &start() {
    if (!control) control = std::make_unique<admission_control>(settings, clock);
    return *control;
  }
  std::unique_ptr<entrant> entry() { return std::make_unique<entrant>(start(), home); }
  admission_ask ask(uint64_t prompt, std::optional<uint64_t> declared = std::nullopt, uint64_t images = 0) {
    admission_ask a;
    a.model = "m";
    a.who = key;
    a.prompt_tokens = prompt;
    a.declared_output = declared;
    a.images = images;
    a.streaming = true;
    return a;
  }
  // By whom, "" = let in. What was let in is kept until the test ends.
  std::string try_in(const admission_ask &a) {
    refusal why;
    kept.push_back(entry());
    const admitted got = kept.back()->ask(a, terms, why);
    EXPECT_EQ(got == admitted::no, why.by != refused_by::none);
    last = why;
    if (got == admitted::no) {
      EXPECT_EQ(kept.back()->held(), 0u);
      kept.pop_back();
    }
    return got == admitted::parked ? "parked" : std::string(to_string(why.by));
  }
  uint64_t held() {
    const auto rows = start().room().rows();
    return rows.empty() ? 0 : rows.front().tokens;
  }
  refusal last;
  std::vector<std::unique_ptr<entrant>> kept;
};

TEST_F(door, caps_bound_one_request) {
  struct { uint64_t prompt, images; const char *want; } cases[] = {{10, 2, ""}, {11, 0, "b1"}, {10, 3, "b1"}, {4, 2, ""}, {4, 4, "b1"}};
  terms.max_input_tokens = 10;
  terms.images_max = 2;
  for (const auto &c : cases) {
    EXPECT_EQ(try_in(ask(c.prompt, 200'000, c.images)), c.want) << c.prompt << " " << c.images;
    if (*c.want == '\0') continue;
    EXPECT_EQ(last.code, "input_too_long");
    EXPECT_EQ(last.retry_after_s, 0u) << "waiting does not help";
  }
  terms.max_input_tokens = terms.images_max = 0;
  EXPECT_EQ(try_in(ask(1'000'000, {}, 100)), "");
}

TEST_F(door, a_pressed_fleet_sheds_after_the_caps_and_before_the_budget) {
  terms.pressed = "kv_cache_utilization gt 0.9";
  terms.budget_tokens = 1;
  EXPECT_EQ(try_in(ask(100)), "b3");
  EXPECT_EQ(last.code, "concurrency_limit_exceeded");
  EXPECT_EQ(last.retry_after_s, 1u);
  terms.max_input_tokens = 10;
  EXPECT_EQ(try_in(ask(100)), "b1");
}

TEST_F(door, the_budget_is_a_fraction_of_all_replicas) {
  struct { double fraction; uint64_t budget, replicas, want; } cases[] = {
      {0.90, 408'987, 1, 368'088}, {0.90, 408'987, 2, 736'176}, {0.85, 1000, 1, 850}, {0.85, 1, 1, 1}, {0.9, 0, 4, 0}, {0.40, 1000, 1, 400},
      {0.40, 1000, 2, 800}, {0.0001, 1000, 1, 1}};
  for (const auto &c : cases) {
    admission_terms t;
    t.budget_tokens = c.budget;
    t.replicas = c.replicas;
    EXPECT_EQ(share_of_budget(c.fraction, t), c.want) << c.fraction << " of " << c.budget;
  }
}

// Naive variants: the fraction is read and not used; it rounds the smallest budget to nothing; it is taken of a key's share as well.
TEST_F(door, what_is_given_away_is_the_fraction_and_a_share_is_of_the_whole) {
  settings.fraction = 0.85;
  terms.budget_tokens = 1000;
  EXPECT_EQ(try_in(ask(900, 0)), "b2");
  EXPECT_EQ(held(), 0u);
  EXPECT_EQ(try_in(ask(850, 0)), "");
  EXPECT_EQ(try_in(ask(1, 0)), "b2");
  kept.clear();
  terms.budget_tokens = 1;
  EXPECT_EQ(try_in(ask(2, 0)), "b2");
  EXPECT_EQ(try_in(ask(1, 0)), "");
  kept.clear();
  terms.budget_tokens = 1000;
  terms.serverless = true;
  key->max_occupancy_share = 0.40;
  EXPECT_EQ(try_in(ask(401, 0)), "b4_occupancy");
  EXPECT_EQ(try_in(ask(400, 0)), "") << "of 1000, not of 850";
}

TEST_F(door, a_request_is_its_estimate_and_what_it_declares) {
  terms.budget_tokens = 50;
  EXPECT_EQ(try_in(ask(4, 100)), "b2");
  EXPECT_EQ(last.code, "concurrency_limit_exceeded");
  EXPECT_EQ(last.retry_after_s, 1u);
  EXPECT_EQ(held(), 0u);
  terms.replicas = 2;
  EXPECT_EQ(try_in(ask(4, 80)), "") << "84 of 100";
  EXPECT_EQ(held(), 84u);
  kept.clear();
  terms.budget_tokens = 1000;
  EXPECT_EQ(try_in(ask(4, 100)), "");
  EXPECT_EQ(held(), 104u);
  EXPECT_EQ(try_in(ask(4)), "");
  EXPECT_EQ(held(), 108u);
  EXPECT_EQ(try_in(ask(4, 0)), "");
  EXPECT_EQ(held(), 112u);
}

TEST_F(door, requests_in_flight_are_bounded_a_replica) {
  terms.max_inflight = 1;
  terms.replicas = 2;
  EXPECT_EQ(try_in(ask(1)), "");
  EXPECT_EQ(try_in(ask(1)), "");
  EXPECT_EQ(try_in(ask(1)), "b2");
}

// A buffered answer cannot be watched while it grows. The guess must never be what keeps a request out.
TEST_F(door, an_undeclared_buffered_answer_reserves_a_default) {
  terms.budget_tokens = 1000;
  admission_ask a = ask(4);
  a.streaming = false;
  EXPECT_EQ(try_in(a), "");
  EXPECT_EQ(held(), 516u);
  kept.clear();
  terms.budget_tokens = 50;
  EXPECT_EQ(try_in(a), "");
  EXPECT_EQ(held(), 50u);
  kept.clear();
  a.declared_output = 10;
  EXPECT_EQ(try_in(a), "");
  EXPECT_EQ(held(), 14u);
}

TEST_F(door, a_model_that_nobody_serves_is_judged_and_leaves_no_trace) {
  terms.known = false;
  terms.budget_tokens = 50;
  EXPECT_EQ(try_in(ask(4, 100)), "b2");
  EXPECT_EQ(try_in(ask(4, 10)), "");
  EXPECT_TRUE(start().room().rows().empty());
}

// Counted by each name a caller thinks of, nobody's tokens would ever run out.
TEST_F(door, names_that_are_counted_as_one_share_a_keys_limits_and_the_budget) {
  terms.serverless = true;
  terms.counted_as = "provider:openai";
  terms.max_inflight = 2;
  auto limited = std::make_shared<client_key>(*key);
  limited->input_tokens_per_minute = 100;
  key = limited;
  admission_ask first = ask(60, 1), second = ask(60, 1), small = ask(30, 1);
  second.model = "another";
  small.model = "a third";
  EXPECT_EQ(try_in(first), "");
  EXPECT_EQ(try_in(second), "b4_itpm");
  EXPECT_EQ(try_in(small), "");
  ASSERT_EQ(start().room().rows().size(), 1u);
  EXPECT_EQ(start().room().rows()[0].model, "provider:openai");
  EXPECT_EQ(try_in(small), "b2");
}

TEST_F(door, who_parks_is_judged_anew_when_the_policy_changes) {
  settings.park_ns = 60 * ns_per_s;
  terms.budget_tokens = 100;
  EXPECT_EQ(try_in(ask(80, 0)), "");
  EXPECT_EQ(try_in(ask(80, 0)), "parked");
  terms.replicas = 2;
  start().review("m", terms);
  ASSERT_TRUE(testing::run_until(home, [&] { return kept.back()->let_in == 1; }));
  EXPECT_EQ(held(), 160u);
}

TEST_F(door, a_stream_grows_by_the_learned_ratio_of_all_its_text) {
  terms.budget_tokens = 10'000;
  struct { double ratio; std::optional<uint64_t> declared; uint64_t want; } cases[] = {{0.25, {}, 175}, {0.3125, {}, 193}, {0.5, {}, 250}, {0.25, 200, 300}};
  for (const auto &c : cases) {
    admission_ask a = ask(100, c.declared);
    a.ratio = {c.ratio, true};
    ASSERT_EQ(try_in(a), "");
    for (uint64_t bytes = 3; bytes <= 300; bytes += 3) kept.back()->saw_output(bytes);
    EXPECT_EQ(kept.back()->held(), c.want) << "floors of single pieces would count none of it";
    kept.back()->saw_output(100'000);
    if (c.declared) {
      EXPECT_EQ(kept.back()->held(), 300u) << "declared output is counted already";
    }
    kept.back()->settle(0);
    kept.back()->saw_output(200'000);
    EXPECT_EQ(held(), 0u);
  }
}

TEST_F(door, the_engines_own_counts_replace_the_estimate_when_they_come) {
  terms.budget_tokens = 10'000;
  ASSERT_EQ(try_in(ask(1000)), "");
  entrant &e = *kept.back();
  e.saw_usage(1200, 0);
  EXPECT_EQ(held(), 1200u);
  e.saw_usage(1200, 0);
  EXPECT_EQ(held(), 1200u) << "the same report twice is one";
  e.saw_usage(600, 50);
  EXPECT_EQ(held(), 650u);
  e.saw_usage(0, 90);
  EXPECT_EQ(held(), 690u);
  ASSERT_EQ(try_in(ask(1000, 200)), "");
  kept.back()->saw_usage(1100, 900);
  EXPECT_EQ(kept.back()->held(), 1300u) << "declared output stays as declared";
}

TEST_F(door, a_correction_below_lets_a_parked_request_in) {
  settings.park_ns = ns_per_s;
  terms.budget_tokens = 1000;
  ASSERT_EQ(try_in(ask(900)), "");
  entrant &first = *kept.back();
  ASSERT_EQ(try_in(ask(300)), "parked");
  entrant &parked = *kept.back();
  first.saw_usage(500, 0);
  ASSERT_TRUE(run_until(home, [&] { return parked.let_in == 1; }));
  EXPECT_EQ(held(), 800u);
}

TEST_F(door, who_waited_for_the_budget_meets_the_limits_of_its_key_then) {
  settings.park_ns = ns_per_s;
  terms.budget_tokens = 1000;
  terms.serverless = true;
  ASSERT_EQ(try_in(ask(900)), "");
  key->input_tokens_per_minute = 100;
  ASSERT_EQ(try_in(ask(300)), "parked");
  entrant &parked = *kept.back();
  kept.front()->settle(0);
  ASSERT_TRUE(run_until(home, [&] { return parked.why.by != refused_by::none; }));
  EXPECT_EQ(to_string(parked.why.by), "b4_itpm");
  EXPECT_EQ(parked.let_in, 0);
  EXPECT_EQ(held(), 0u);
}

TEST_F(door, a_parked_request_is_refused_when_its_time_is_up_and_not_called_once_it_settled) {
  settings.park_ns = 20 * ns_per_ms;
  terms.budget_tokens = 1000;
  ASSERT_EQ(try_in(ask(900)), "");
  ASSERT_EQ(try_in(ask(300)), "parked");
  ASSERT_EQ(try_in(ask(300)), "parked");
  entrant &left = *kept[2];
  left.settle(0);
  ASSERT_TRUE(run_until(home, [&] { return kept[1]->why.by != refused_by::none; }));
  EXPECT_EQ(to_string(kept[1]->why.by), "b2");
  EXPECT_EQ(left.why.by, refused_by::none);
  EXPECT_EQ(left.let_in, 0);
}

TEST_F(door, a_keys_share_is_of_the_whole_budget_and_waits_for_nobody) {
  settings.park_ns = ns_per_s;
  terms.serverless = true;
  terms.budget_tokens = 1000;
  key->max_occupancy_share = 0.40;
  EXPECT_EQ(try_in(ask(4, 500)), "b4_occupancy");
  EXPECT_EQ(last.code, "rate_limit_exceeded");
  EXPECT_EQ(last.retry_after_s, 1u);
  EXPECT_EQ(held(), 0u) << "what it held of the model's budget came back";
  EXPECT_EQ(try_in(ask(4, 300)), "");
  kept.clear();
  terms.replicas = 2;
  EXPECT_EQ(try_in(ask(4, 500)), "");
}

TEST_F(door, keys_fill_their_shares_independently_and_shares_may_add_up_to_more_than_all) {
  settings.fraction = 1;
  terms.serverless = true;
  terms.budget_tokens = 1200;
  key->max_occupancy_share = 1.0 / 3;
  for (const char *id : {"a", "b", "c"}) {
    key = std::make_shared<client_key>(*key);
    key->id = id;
    EXPECT_EQ(try_in(ask(0, 400)), "") << id;
    EXPECT_EQ(try_in(ask(0, 1)), id == std::string("c") ? "b2" : "b4_occupancy") << id;
  }
}

// With these numbers three shares are more than all: the third key is stopped by the model's budget, and by its own share only
// when that is full. What another key holds takes nothing of it.
TEST_F(door, three_keys_of_0_40_each_fill_400_of_1000) {
  terms.serverless = true;
  terms.budget_tokens = 1000;
  key->max_occupancy_share = 0.40;
  const auto next_key = [this](const char *id) {
    key = std::make_shared<client_key>(*key);
    key->id = id;
  };
  for (const char *id : {"a", "b"}) {
    next_key(id);
    EXPECT_EQ(try_in(ask(0, 400)), "") << id;
    EXPECT_EQ(try_in(ask(0, 1)), "b4_occupancy") << id;
  }
  next_key("c");
  EXPECT_EQ(try_in(ask(0, 200)), "");
  EXPECT_EQ(held(), 1000u);
  EXPECT_EQ(try_in(ask(0, 1)), "b2");
  kept.front()->settle(0);
  EXPECT_EQ(try_in(ask(0, 200)), "");
  EXPECT_EQ(try_in(ask(0, 1)), "b4_occupancy");
  EXPECT_EQ(held(), 800u);
}

// floor(0.0001 * 1000) is 0, and 0 must not mean "no limit".
TEST_F(door, the_smallest_share_is_one_token) {
  terms.serverless = true;
  terms.budget_tokens = 1000;
  key->max_occupancy_share = 0.0001;
  EXPECT_EQ(try_in(ask(0, 2)), "b4_occupancy");
  EXPECT_EQ(try_in(ask(0, 1)), "");
}

TEST_F(door, tokens_a_minute_are_checked_output_first) {
  terms.serverless = true;
  key->input_tokens_per_minute = 10;
  key->output_tokens_per_minute = 1000;
  EXPECT_EQ(try_in(ask(14)), "b4_itpm");
  EXPECT_EQ(last.code, "rate_limit_exceeded");
  EXPECT_EQ(try_in(ask(4)), "");
  EXPECT_EQ(try_in(ask(10)), "b4_itpm");
  EXPECT_EQ(last.retry_after_s, 24u) << "four tokens are missing, and there are ten a minute";
  kept.back()->reached_agent();
  kept.back()->settle(50'000);
  EXPECT_EQ(try_in(ask(14)), "b4_otpm");
  EXPECT_EQ(last.retry_after_s, 1u);
  clock.advance(ns_per_s);
  EXPECT_EQ(try_in(ask(4)), "");
}

TEST_F(door, reserved_models_ask_nothing_of_the_key) {
  terms.budget_tokens = 1000;
  key->max_occupancy_share = 0.0001;
  key->input_tokens_per_minute = key->output_tokens_per_minute = 2;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(try_in(ask(100, 100)), "");
    kept.back()->settle(5000);
  }
}

TEST_F(door, input_is_charged_once_an_agent_has_it) {
  terms.serverless = true;
  key->input_tokens_per_minute = 100;
  ASSERT_EQ(try_in(ask(80)), "");
  kept.back()->settle(0);
  EXPECT_EQ(try_in(ask(80)), "") << "no agent saw it";
  kept.back()->reached_agent();
  kept.clear();
  EXPECT_EQ(try_in(ask(80)), "b4_itpm");
}

TEST_F(door, a_provider_takes_the_room_and_not_the_output_charge) {
  terms.serverless = true;
  terms.budget_tokens = 1000;
  key->input_tokens_per_minute = 100;
  key->output_tokens_per_minute = 100;
  ASSERT_EQ(try_in(ask(80, 100)), "");
  kept.back()->hand_over();
  EXPECT_EQ(held(), 0u);
  kept.back()->settle(5000);
  EXPECT_EQ(try_in(ask(80)), "b4_itpm") << "and not b4_otpm";
}

TEST_F(door, output_is_charged_once_whatever_settles_it_again) {
  terms.serverless = true;
  key->output_tokens_per_minute = 100;
  ASSERT_EQ(try_in(ask(4)), "");
  kept.back()->settle(60);
  kept.back()->settle(60);
  kept.clear();
  EXPECT_EQ(try_in(ask(4)), "") << "40 are left";
}

TEST_F(door, keys_and_models_have_buckets_of_their_own) {
  terms.serverless = true;
  key->input_tokens_per_minute = 100;
  EXPECT_EQ(try_in(ask(80)), "");
  admission_ask other_model = ask(80);
  other_model.model = "n";
  EXPECT_EQ(try_in(other_model), "");
  key = std::make_shared<client_key>(*key);
  key->id = "k2";
  EXPECT_EQ(try_in(ask(80)), "");
  EXPECT_EQ(try_in(ask(80)), "b4_itpm");
}

TEST_F(door, what_has_no_limit_is_not_concerned) {
  admission_terms none;
  EXPECT_FALSE(admission_control::concerns(none, *key));
  none.serverless = true;
  EXPECT_FALSE(admission_control::concerns(none, *key));
  key->output_tokens_per_minute = 1;
  EXPECT_TRUE(admission_control::concerns(none, *key));
  none.serverless = false;
  EXPECT_FALSE(admission_control::concerns(none, *key));
  none.pressed = "x";
  EXPECT_TRUE(admission_control::concerns(none, *key));
}

}  // namespace
}  // namespace hive::tenancy
