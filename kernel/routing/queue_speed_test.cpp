// How fast a line moves, and who is told at once that it moves too slowly for them.
#include "routing/turnover.hpp"

#include "routing/queue_bed.hpp"

namespace hive::routing {
namespace {

using testing::bed;
using testing::request;
using state = request::state;

TEST(turnover, gaps_count_while_somebody_waits_through_them) {
  turnover t;
  uint64_t now = ns_per_s;
  EXPECT_EQ(t.gap_ns(now), 0u);
  t.granted(now, 300 * ns_per_ms, true);   // nobody waited before: its own wait
  for (int i = 0; i < 2; ++i) t.granted(now += 300 * ns_per_ms, 5 * ns_per_s, true);
  EXPECT_EQ(t.gap_ns(now), 300 * ns_per_ms);
  // An hour in which nobody waited is no gap.
  t.emptied();
  now += 3600 * ns_per_s;
  t.granted(now, 300 * ns_per_ms, false);
  EXPECT_EQ(t.gap_ns(now), 300 * ns_per_ms);
  t.granted(now += 1000 * ns_per_s, 1100 * ns_per_ms, true);
  EXPECT_EQ(t.gap_ns(now), 400 * ns_per_ms) << "7/8 * 300 + 1/8 * 1100";
}

TEST(turnover, what_is_little_or_old_is_not_known) {
  turnover t;
  uint64_t now = ns_per_s;
  t.granted(now, ns_per_s, true);
  t.granted(now += ns_per_s, 0, true);
  EXPECT_EQ(t.gap_ns(now), 0u) << "two are no measurement";
  t.granted(now += ns_per_s, 0, true);
  EXPECT_EQ(t.gap_ns(now + turnover::fresh_ns), ns_per_s);
  EXPECT_EQ(t.gap_ns(now + turnover::fresh_ns + 1), 0u);
}

TEST(turnover, a_retry_after_is_whole_seconds_rounded_up_and_bounded) {
  EXPECT_EQ(retry_after_s(0), 1u) << "not known";
  EXPECT_EQ(retry_after_s(1), 1u);
  EXPECT_EQ(retry_after_s(3 * ns_per_s), 3u);
  EXPECT_EQ(retry_after_s(3 * ns_per_s + 1), 4u);
  EXPECT_EQ(retry_after_s(61 * ns_per_s), 60u);
  EXPECT_EQ(retry_after_s(UINT64_MAX), 60u);
}

// A fleet of one slot a second apart, on a clock of the test's.
struct slow_line : ::testing::Test {
  bed b{line_limits{.depth = 6, .bytes = 1 << 20, .tenant_fairness = false}};
  manual_clock clock{100 * ns_per_s};
  std::vector<std::unique_ptr<request>> all;

  void SetUp() override {
    b.add("A", 1);
    b.lines["m"].line = nullptr;
    b.lines["m"].line = std::make_unique<waiting_line>(*b.lines["m"].pool, b.limits, &clock);
  }
  request &ask(uint64_t time_s = 0, int32_t priority = 0) {
    ticket_class c;
    c.priority = priority;
    if (time_s != 0) c.deadline_ns = clock.now() + time_s * ns_per_s;
    all.push_back(std::make_unique<request>(b, "m", std::set<std::string>{}, c));
    return all.back()->enter();
  }
  request *holder() {
    for (auto &r : all)
      if (r->now == state::holding) return r.get();
    return nullptr;
  }
  void serve_one() {
    clock.advance(ns_per_s);
    holder()->finish();
    b.deliver_all();
  }
  void TearDown() override {
    for (auto &r : all) r->held.reset();
  }
};

TEST_F(slow_line, who_cannot_get_a_slot_in_time_is_told_at_once_and_when_it_could) {
  ask();
  for (int i = 0; i < 5; ++i) ask();
  for (int i = 0; i < 4; ++i) serve_one();
  ASSERT_EQ(b.line("m").stats().gap_ns, ns_per_s);
  ask(), ask(), ask();
  ASSERT_EQ(b.line("m").stats().depth, 4u);
  request &in_time = ask(6);
  EXPECT_EQ(in_time.now, state::waiting) << "four before it, its own, and the answer: six seconds";
  request &late = ask(3);
  EXPECT_EQ(late.now, state::advanced);
  EXPECT_EQ(late.t.refused(), line_refusal::late);
  EXPECT_EQ(late.t.retry_after_ns(), 4 * ns_per_s) << "seven seconds, of which it has three";
  EXPECT_EQ(b.line("m").stats().refused_late, 1u);
  EXPECT_EQ(b.line("m").stats().refused_full, 0u);
}

TEST_F(slow_line, without_a_measurement_or_a_deadline_everybody_may_wait) {
  ask();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(ask(1).now, state::waiting);
  for (int i = 0; i < 4; ++i) serve_one();
  EXPECT_EQ(ask().now, state::waiting);
  EXPECT_EQ(ask().now, state::waiting);
}

// Else a line whose speed was once measured as hopeless would refuse everybody and never learn better.
TEST_F(slow_line, the_first_in_the_line_may_always_wait) {
  ask();
  for (int i = 0; i < 5; ++i) ask();
  for (int i = 0; i < 5; ++i) serve_one();
  ASSERT_EQ(b.line("m").stats().depth, 0u);
  ticket_class c;
  c.deadline_ns = clock.now() + ns_per_s / 2;
  all.push_back(std::make_unique<request>(b, "m", std::set<std::string>{}, c));
  EXPECT_EQ(all.back()->enter().now, state::waiting);
  EXPECT_EQ(ask(1).now, state::advanced) << "the second one needs two seconds";
}

TEST_F(slow_line, a_full_line_says_when_its_next_place_is_due) {
  ask();
  for (int i = 0; i < 6; ++i) ask();
  request &unknown = ask();
  EXPECT_EQ(unknown.t.refused(), line_refusal::full);
  EXPECT_EQ(unknown.t.retry_after_ns(), 0u);
  for (int i = 0; i < 3; ++i) serve_one();
  for (int i = 0; i < 3; ++i) ask();
  request &refused = ask();
  EXPECT_EQ(refused.t.refused(), line_refusal::full);
  EXPECT_EQ(refused.t.retry_after_ns(), ns_per_s);
  request &fits_nobody = *all.emplace_back(std::make_unique<request>(b, "m", std::set<std::string>{"nobody"}));
  EXPECT_EQ(fits_nobody.enter().now, state::advanced);
  EXPECT_EQ(fits_nobody.t.refused(), line_refusal::none);
}

TEST_F(slow_line, a_higher_class_counts_only_those_before_it) {
  ask();
  for (int i = 0; i < 5; ++i) ask();
  for (int i = 0; i < 3; ++i) serve_one();
  ask(), ask();
  ASSERT_EQ(b.line("m").stats().depth, 4u);
  EXPECT_EQ(ask(2).now, state::advanced);
  EXPECT_EQ(ask(2, 7).now, state::waiting);
}

}  // namespace
}  // namespace hive::routing
