#include "tenancy/occupancy.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "tenancy/parking_bed.hpp"

namespace hive::tenancy {
namespace {

using testing::run_until;
using answer = occupancy::answer;

struct parking final : occupancy_waiter {
  explicit parking(loop &home) : occupancy_waiter(home) {}
  void on_room(occupancy_hold h) override {
    hold = std::move(h);
    at_ns = now_ns();
  }
  void on_no_room() override {
    refused = true;
    at_ns = now_ns();
  }
  occupancy_hold hold;
  bool refused = false;
  uint64_t at_ns = 0;
};

struct budget : ::testing::Test {
  manual_clock clock;
  occupancy room{clock};
  loop home;

  answer take(occupancy_hold &out, uint64_t tokens, const occupancy_bounds &bounds, occupancy_waiter *waiter = nullptr, uint64_t park_ns = 0) {
    return room.take("m", bounds, tokens, out, waiter, park_ns);
  }
  std::pair<uint64_t, uint64_t> held() const {
    const auto rows = room.rows();
    return rows.empty() ? std::pair<uint64_t, uint64_t>() : std::pair(rows.front().tokens, rows.front().requests);
  }
};
using holding = std::pair<uint64_t, uint64_t>;

TEST_F(budget, what_does_not_fit_changes_nothing_and_fits_after_a_release) {
  const occupancy_bounds bounds{409'000, 64};
  occupancy_hold first, second;
  EXPECT_EQ(take(first, 250'000, bounds), answer::granted);
  EXPECT_EQ(take(second, 250'000, bounds), answer::refused);
  EXPECT_EQ(take(second, 250'000, bounds), answer::refused);
  EXPECT_EQ(held(), holding(250'000, 1));
  EXPECT_EQ(room.rows()[0].bounds.tokens, 409'000u);
  EXPECT_EQ(room.rows()[0].bounds.requests, 64u);
  first.grow(1000);
  EXPECT_EQ(held(), holding(251'000, 1));
  first.release();
  EXPECT_EQ(held(), holding(0, 0));
  EXPECT_EQ(take(second, 250'000, bounds), answer::granted);
}

// A change of policy: without rebound they would wait for their time to end, whatever the new bounds allow.
TEST_F(budget, who_parks_goes_on_by_new_bounds_at_once) {
  const occupancy_bounds small{1000, 0};
  occupancy_hold first, rest;
  ASSERT_EQ(take(first, 900, small), answer::granted);
  parking fits(home), waits(home), never(home);
  const uint64_t long_ns = 60 * ns_per_s;
  ASSERT_EQ(take(rest, 600, small, &fits, long_ns), answer::parked);
  ASSERT_EQ(take(rest, 700, small, &waits, long_ns), answer::parked);
  EXPECT_EQ(room.crowded(), std::vector<std::string>{"m"});
  room.rebound("other", {1, 0});
  room.rebound("m", {1600, 0});
  ASSERT_TRUE(run_until(home, [&] { return static_cast<bool>(fits.hold); }));
  EXPECT_FALSE(waits.hold) << "its turn, but no room by the new bounds either";
  EXPECT_FALSE(waits.refused);
  EXPECT_EQ(held(), holding(1500, 2));
  ASSERT_EQ(take(rest, 1600, {1600, 0}, &never, long_ns), answer::parked);
  room.rebound("m", {1500, 0});
  ASSERT_TRUE(run_until(home, [&] { return never.refused; })) << "it can never fit, so it need not wait";
  EXPECT_TRUE(waits.parked());
  room.rebound("m", {});
  ASSERT_TRUE(run_until(home, [&] { return static_cast<bool>(waits.hold); })) << "no bounds at all any more";
  EXPECT_TRUE(room.crowded().empty());
  EXPECT_EQ(held(), holding(2200, 3));
}

TEST_F(budget, a_waiter_that_leaves_while_its_refusal_is_on_its_way_hears_nothing) {
  occupancy_hold first, rest;
  ASSERT_EQ(take(first, 900, {1000, 0}), answer::granted);
  parking gone(home), behind(home);
  ASSERT_EQ(take(rest, 600, {1000, 0}, &gone, 60 * ns_per_s), answer::parked);
  ASSERT_EQ(take(rest, 100, {1000, 0}, &behind, 60 * ns_per_s), answer::parked);
  room.rebound("m", {500, 0});
  gone.leave();
  room.rebound("m", {1000, 0});
  ASSERT_TRUE(run_until(home, [&] { return static_cast<bool>(behind.hold); }));
  EXPECT_FALSE(gone.refused);
  EXPECT_EQ(held(), holding(1000, 2));
}

TEST_F(budget, requests_in_flight_are_bounded_by_themselves) {
  occupancy_hold a, b, c;
  EXPECT_EQ(take(a, 1, {0, 2}), answer::granted);
  EXPECT_EQ(take(b, 1, {0, 2}), answer::granted);
  EXPECT_EQ(take(c, 1, {0, 2}), answer::refused);
}

TEST_F(budget, without_bounds_everything_fits) {
  std::vector<occupancy_hold> all(100);
  for (auto &h : all) EXPECT_EQ(take(h, 1'000'000, {}), answer::granted);
  EXPECT_EQ(held(), holding(100'000'000, 100));
  all.clear();
  EXPECT_EQ(held(), holding(0, 0));
}

TEST_F(budget, growth_and_corrections_move_only_what_a_request_holds) {
  occupancy_hold one, other;
  take(one, 100, {});
  one.grow(30);
  one.grow(20);
  EXPECT_EQ(held(), holding(150, 1));
  one.release();
  one.grow(10);
  one.correct(-10);
  one.release();
  EXPECT_EQ(held(), holding(0, 0)) << "after the release nothing moves";

  take(one, 1000, {});
  one.correct(200);
  EXPECT_EQ(held(), holding(1200, 1));
  one.correct(-600);
  EXPECT_EQ(held(), holding(600, 1));
  one.release();

  take(one, 100, {});
  take(other, 300, {});
  one.correct(-1000);
  EXPECT_EQ(held(), holding(300, 2)) << "it may not free what another one holds";
  EXPECT_EQ(one.tokens(), 0u);
}

TEST_F(budget, a_hold_is_given_back_once_however_it_moves) {
  occupancy_hold a, other;
  take(a, 100, {});
  take(other, 400, {});
  occupancy_hold b = std::move(a);
  a.release();
  EXPECT_EQ(held(), holding(500, 2));
  b.release();
  b.release();
  EXPECT_EQ(held(), holding(400, 1));
  {
    const occupancy_hold c = std::move(other);
  }
  EXPECT_EQ(held(), holding(0, 0));
}

TEST_F(budget, a_share_follows_every_change_of_the_hold_and_its_release) {
  occupancy_hold a, b, c;
  take(a, 300, {1000, 0});
  EXPECT_TRUE(room.share(a, "key", 400));
  take(b, 300, {1000, 0});
  EXPECT_FALSE(room.share(b, "key", 400));
  a.correct(-250);
  EXPECT_EQ(held(), holding(350, 2));
  EXPECT_TRUE(room.share(b, "key", 400)) << "50 + 300";
  take(c, 100, {1000, 0});
  EXPECT_FALSE(room.share(c, "key", 400));
  EXPECT_TRUE(room.share(c, "another", 400)) << "shares are each key's own";
  b.release();
  a.release();
  c.release();
  take(a, 400, {1000, 0});
  EXPECT_TRUE(room.share(a, "key", 400));
  EXPECT_EQ(held(), holding(400, 1));
}

// Naive variant: what one key holds counts against the share of another.
TEST_F(budget, three_keys_fill_four_tenths_of_a_thousand_each) {
  std::vector<occupancy_hold> full(3);
  for (size_t i = 0; i < full.size(); ++i) {
    const std::string key = "key" + std::to_string(i);
    ASSERT_EQ(take(full[i], 400, {}), answer::granted);
    EXPECT_TRUE(room.share(full[i], key, 400)) << key;
    occupancy_hold more;
    ASSERT_EQ(take(more, 1, {}), answer::granted);
    EXPECT_FALSE(room.share(more, key, 400)) << key;
  }
  EXPECT_EQ(held(), holding(1200, 3)) << "shares may add up to more than all";
  full[0].release();
  occupancy_hold again;
  ASSERT_EQ(take(again, 400, {}), answer::granted);
  EXPECT_FALSE(room.share(again, "key1", 400));
  EXPECT_TRUE(room.share(again, "key0", 400));
}

TEST_F(budget, what_could_never_fit_does_not_park) {
  parking p(home);
  occupancy_hold out;
  EXPECT_EQ(take(out, 2000, {1000, 0}, &p, 2 * ns_per_s), answer::refused);
  EXPECT_FALSE(p.parked());
}

TEST_F(budget, a_parked_request_is_let_in_by_a_release) {
  parking p(home);
  occupancy_hold first, out;
  take(first, 800, {1000, 0});
  ASSERT_EQ(take(out, 500, {1000, 0}, &p, 2 * ns_per_s), answer::parked);
  EXPECT_EQ(room.rows()[0].parked, 1u);
  const uint64_t begin = now_ns();
  callback_timer later([&] { first.release(); });
  home.arm_in(later, 20 * ns_per_ms);
  ASSERT_TRUE(run_until(home, [&] { return bool(p.hold); }));
  EXPECT_GE(p.at_ns - begin, 20 * ns_per_ms);
  EXPECT_EQ(held(), holding(500, 1));
  EXPECT_EQ(room.rows()[0].parked, 0u);
  EXPECT_FALSE(p.parked());
}

TEST_F(budget, a_correction_lets_in_and_a_place_in_flight_is_waited_for_too) {
  parking p(home), q(home);
  occupancy_hold first, out;
  take(first, 800, {1000, 1});
  ASSERT_EQ(take(out, 500, {1000, 2}, &p, ns_per_s), answer::parked);
  first.correct(-300);
  ASSERT_TRUE(run_until(home, [&] { return bool(p.hold); }));
  ASSERT_EQ(take(out, 0, {0, 2}, &q, ns_per_s), answer::parked);
  p.hold.release();
  ASSERT_TRUE(run_until(home, [&] { return bool(q.hold); }));
}

TEST_F(budget, a_park_ends_no_earlier_than_its_time_and_leaves_nothing) {
  parking p(home);
  occupancy_hold first, out;
  take(first, 800, {1000, 0});
  const uint64_t begin = now_ns();
  ASSERT_EQ(take(out, 500, {1000, 0}, &p, 40 * ns_per_ms), answer::parked);
  ASSERT_TRUE(run_until(home, [&] { return p.refused; }));
  EXPECT_GE(p.at_ns - begin, 40 * ns_per_ms);
  EXPECT_EQ(held(), holding(800, 1));
  EXPECT_EQ(room.rows()[0].parked, 0u);
}

TEST_F(budget, who_leaves_is_not_called_and_its_place_is_the_next_ones) {
  auto gone = std::make_unique<parking>(home);
  parking next(home);
  occupancy_hold first, out;
  take(first, 600, {1000, 0});
  ASSERT_EQ(take(out, 900, {1000, 0}, gone.get(), ns_per_s), answer::parked);
  ASSERT_EQ(take(out, 300, {1000, 0}, &next, ns_per_s), answer::parked) << "it would fit, but somebody came before";
  gone.reset();
  ASSERT_TRUE(run_until(home, [&] { return bool(next.hold); }));
  EXPECT_EQ(held(), holding(900, 2));

  // Let in and gone before the message came: what was taken for it is given back.
  auto late = std::make_unique<parking>(home);
  ASSERT_EQ(take(out, 500, {1000, 0}, late.get(), ns_per_s), answer::parked);
  first.release();
  EXPECT_EQ(held(), holding(800, 2));
  late.reset();
  EXPECT_EQ(held(), holding(300, 1));
  testing::settle(home);
  EXPECT_EQ(held(), holding(300, 1));
}

// With a herd that is woken together the small ones, which fit at once, would pass the large one for ever.
TEST_F(budget, parked_requests_go_in_their_order) {
  parking large(home), small(home);
  occupancy_hold a, b, out;
  take(a, 500, {1000, 0});
  take(b, 400, {1000, 0});
  ASSERT_EQ(take(out, 800, {1000, 0}, &large, ns_per_s), answer::parked);
  ASSERT_EQ(take(out, 50, {1000, 0}, &small, ns_per_s), answer::parked);
  b.release();
  testing::settle(home);
  EXPECT_FALSE(small.hold);
  a.release();
  ASSERT_TRUE(run_until(home, [&] { return small.hold && large.hold; }));
  EXPECT_EQ(held(), holding(850, 2));
}

TEST_F(budget, as_many_park_as_may) {
  occupancy few(clock, 1);
  parking p(home);
  occupancy_hold first, out;
  few.take("m", {10, 0}, 10, first, nullptr, 0);
  EXPECT_EQ(few.take("m", {10, 0}, 5, out, &p, ns_per_s), answer::parked);
  parking q(home);
  EXPECT_EQ(few.take("m", {10, 0}, 5, out, &q, ns_per_s), answer::refused);
}

TEST_F(budget, a_release_on_another_thread_lets_in_on_the_waiters_own_loop) {
  parking p(home);
  occupancy_hold first, out;
  take(first, 10, {10, 0});
  ASSERT_EQ(take(out, 10, {10, 0}, &p, 2 * ns_per_s), answer::parked);
  std::thread other([&] { first.release(); });
  ASSERT_TRUE(run_until(home, [&] { return bool(p.hold); }));
  other.join();
}

TEST_F(budget, threads_at_once_end_at_nothing) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        occupancy_hold h;
        if (take(h, 300, {1000, 0}) == answer::granted) h.grow(7), h.correct(-3);
        const auto now = held();
        EXPECT_LE(now.second, 3u);
      }
    });
  for (auto &t : threads) t.join();
  EXPECT_EQ(held(), holding(0, 0));
}

TEST_F(budget, idle_entries_are_forgotten_and_busy_or_recent_ones_are_not) {
  occupancy_hold busy, idle;
  room.take("busy", {}, 1, busy, nullptr, 0);
  room.take("idle", {}, 1, idle, nullptr, 0);
  EXPECT_TRUE(room.share(idle, "key", 100));
  idle.release();
  clock.advance(occupancy::idle_ns - 1);
  EXPECT_EQ(room.sweep(), 0u);
  clock.advance(1);
  EXPECT_EQ(room.sweep(), 2u) << "the model and the key's share of it";
  ASSERT_EQ(room.rows().size(), 1u);
  EXPECT_EQ(room.rows()[0].model, "busy");
}

}  // namespace
}  // namespace hive::tenancy
