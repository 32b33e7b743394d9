#include "tenancy/parallel_limit.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tenancy/parking_bed.hpp"

namespace hive::tenancy {
namespace {

using answer = parallel_limit::answer;
using testing::settle;

struct one final : parallel_turn {
  explicit one(loop &home) : parallel_turn(home) {}
  void on_turn() override { ++turns; }
  int turns = 0;
};

struct turns : ::testing::Test {
  loop home;
  parallel_limit limit{3};
  one a{home}, b{home}, c{home}, d{home}, e{home};

  parallel_ask ask(std::string_view model = "m", uint32_t most = 2, bool waits = true, uint32_t of_model = 0) { return {"key", model, most, of_model, waits}; }
};

TEST_F(turns, one_too_many_is_refused_or_waits_and_other_keys_do_not_matter) {
  EXPECT_EQ(limit.take(a, ask()), answer::granted);
  EXPECT_EQ(limit.take(b, ask()), answer::granted);
  EXPECT_EQ(limit.take(c, ask("m", 2, false)), answer::refused);
  EXPECT_EQ(limit.take(d, {"other", "m", 1, 0, false}), answer::granted);
  EXPECT_EQ(limit.take(e, ask()), answer::waits);
  EXPECT_EQ(limit.running(), 3u);
  EXPECT_EQ(limit.waiting(), 1u);
  a.leave();
  EXPECT_EQ(e.turns, 0) << "never from inside a call";
  settle(home);
  EXPECT_EQ(e.turns, 1);
  EXPECT_TRUE(e.holds());
}

TEST_F(turns, who_came_first_goes_first_and_a_full_model_holds_up_no_other) {
  EXPECT_EQ(limit.take(a, ask("m", 2, true, 1)), answer::granted);
  EXPECT_EQ(limit.take(b, ask("m", 2, true, 1)), answer::waits) << "the model's limit";
  EXPECT_EQ(limit.take(c, ask("n", 2, true, 1)), answer::granted);
  EXPECT_EQ(limit.take(d, ask("m", 2, true, 1)), answer::waits);
  EXPECT_EQ(limit.take(e, ask("o", 2, true, 1)), answer::waits);
  c.leave();
  settle(home);
  EXPECT_EQ(std::vector<int>({b.turns, d.turns, e.turns}), std::vector<int>({0, 0, 1})) << "those of m may not go yet";
  a.leave();
  settle(home);
  EXPECT_EQ(std::vector<int>({b.turns, d.turns}), std::vector<int>({1, 0}));
  b.leave();
  settle(home);
  EXPECT_EQ(d.turns, 1);
}

TEST_F(turns, a_bounded_number_waits) {
  ASSERT_EQ(limit.take(a, ask("m", 1)), answer::granted);
  EXPECT_EQ(limit.take(b, ask("m", 1)), answer::waits);
  EXPECT_EQ(limit.take(c, ask("m", 1)), answer::waits);
  EXPECT_EQ(limit.take(d, ask("m", 1)), answer::waits);
  EXPECT_EQ(limit.take(e, ask("m", 1)), answer::refused);
}

// The naive variant that counts a grant when its owner hears of it loses the slot of one that left meanwhile.
TEST_F(turns, a_turn_that_is_on_its_way_to_one_who_left_goes_to_the_next) {
  ASSERT_EQ(limit.take(a, ask("m", 1)), answer::granted);
  std::optional<one> gone(home);
  ASSERT_EQ(limit.take(*gone, ask("m", 1)), answer::waits);
  ASSERT_EQ(limit.take(c, ask("m", 1)), answer::waits);
  a.leave();
  gone.reset();
  settle(home);
  EXPECT_EQ(c.turns, 1);
  c.leave();
  c.leave();
  EXPECT_EQ(limit.running(), 0u);
  EXPECT_EQ(limit.waiting(), 0u);
}

// Naive variant: a request waits under the limit that its key had when it came, and those that come later pass it.
TEST_F(turns, those_that_wait_have_the_limits_their_key_has_now) {
  EXPECT_EQ(limit.take(a, ask("m", 1)), answer::granted);
  EXPECT_EQ(limit.take(b, ask("m", 1)), answer::waits);
  EXPECT_EQ(limit.take(c, ask("m", 1)), answer::waits);
  const auto bounds_of = [this](uint32_t most, uint32_t of_model) {
    limit.rebound([=](std::string_view key_id) -> std::optional<parallel_limit::bounds> {
      if (key_id != "key") return std::nullopt;
      return parallel_limit::bounds{most, of_model};
    });
    settle(home);
  };
  bounds_of(8, 2);
  EXPECT_EQ(b.turns, 1);
  EXPECT_EQ(c.turns, 0) << "the model's limit";
  EXPECT_EQ(limit.take(d, ask("n", 8, true, 2)), answer::granted);
  bounds_of(2, 0);
  a.leave();
  settle(home);
  EXPECT_EQ(c.turns, 0) << "it fell: two of three run";
  bounds_of(0, 0);
  EXPECT_EQ(c.turns, 1) << "no limit any more";
  EXPECT_EQ(limit.running(), 3u);
  EXPECT_EQ(limit.waiting(), 0u);
}

// Its body came slowly. Naive variant: it takes its turn with what its key said when it was let in, and waits by that until its time is over.
TEST_F(turns, one_that_was_let_in_before_its_key_changed_has_the_limits_of_now) {
  const auto key_says = [this](parallel_limit::bounds now) {
    limit.rebound([=](std::string_view key_id) { return key_id == "key" ? std::optional(now) : std::nullopt; });
  };
  EXPECT_EQ(limit.take(a, ask("m", 1)), answer::granted);
  key_says({2, 0});
  EXPECT_EQ(limit.take(b, ask("m", 1)), answer::granted) << "it rose";
  key_says({8, 2});
  EXPECT_EQ(limit.take(c, ask("m", 8)), answer::waits) << "its model has a limit now";
  key_says({1, 0});
  EXPECT_EQ(limit.take(d, ask("n", 8)), answer::waits) << "it fell";
  EXPECT_EQ(limit.take(e, {"other", "m", 1, 0, false}), answer::granted) << "a key of which nothing is said";
}

TEST_F(turns, one_who_waits_may_leave) {
  ASSERT_EQ(limit.take(a, ask("m", 1)), answer::granted);
  ASSERT_EQ(limit.take(b, ask("m", 1)), answer::waits);
  EXPECT_TRUE(b.waits());
  b.leave();
  EXPECT_EQ(limit.waiting(), 0u);
  a.leave();
  settle(home);
  EXPECT_EQ(b.turns, 0);
  EXPECT_EQ(limit.running(), 0u);
}

TEST(parallel_limit_of_many_loops, never_lets_more_through_than_there_may_be) {
  constexpr int loops = 3, rounds = 300;
  constexpr uint32_t most = 2;
  parallel_limit limit(1000);
  std::atomic<int> inside{0}, worst{0}, done{0};
  struct visitor final : parallel_turn {
    visitor(loop &l, std::atomic<int> &i, std::atomic<int> &w, std::atomic<int> &d) : parallel_turn(l), home(l), inside(i), worst(w), done(d) {}
    void on_turn() override {
      const int now = ++inside;
      for (int seen = worst; now > seen && !worst.compare_exchange_weak(seen, now);) {
      }
      home.post([this] {
        --inside;
        ++done;
        leave();
      });
    }
    loop &home;
    std::atomic<int> &inside, &worst, &done;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < loops; ++i)
    threads.emplace_back([&] {
      loop home;
      std::vector<std::unique_ptr<visitor>> all;
      for (int r = 0; r < rounds; ++r) {
        all.push_back(std::make_unique<visitor>(home, inside, worst, done));
        if (limit.take(*all.back(), {"key", "m", most, most, true}) == answer::granted) all.back()->on_turn();
      }
      testing::run_until(home, [&] { return done == loops * rounds; }, 20 * ns_per_s);
    });
  for (std::thread &t : threads) t.join();
  EXPECT_EQ(done, loops * rounds);
  EXPECT_LE(worst, static_cast<int>(most));
  EXPECT_EQ(limit.running(), 0u);
  EXPECT_EQ(limit.waiting(), 0u);
}

}  // namespace
}  // namespace hive::tenancy
