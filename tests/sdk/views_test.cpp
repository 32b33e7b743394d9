#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <vector>

#include "hive/check/sample_pool.hpp"
#include "hive/sdk/strategy.hpp"

namespace hive::sdk {
namespace {

using check::sample_pool;

TEST(least, takes_the_smallest_and_turns_over_ties) {
  sample_pool p(6);
  p.set("load", {0.5, 0.2, 0.2, missing, 0.2, 0.1});
  p.eligible(5, false);
  const hive_column id = p.column("load");
  const pool view(p.view());
  std::vector<uint32_t> picks;
  for (uint64_t seed = 0; seed < 6; ++seed) picks.push_back(*least(view, seed, [&](uint32_t i) { return view.signal(id)[i]; }));
  EXPECT_EQ(picks, (std::vector<uint32_t>{1, 2, 4, 1, 2, 4}));
}

TEST(least, puts_unknown_last_and_still_chooses_among_the_unknown) {
  for (uint32_t count = 1; count <= 9; ++count) {
    sample_pool p(count);
    std::vector<double> load(count, missing);
    p.set("load", load);
    const hive_column id = p.column("load"), nobody = p.column("nobody");
    std::set<uint32_t> seen;
    for (uint64_t seed = 0; seed < count; ++seed) seen.insert(*least(pool(p.view()), seed, [&](uint32_t i) { return pool(p.view()).signal(id)[i]; }));
    EXPECT_EQ(seen.size(), count);
    EXPECT_TRUE(std::isnan(pool(p.view()).signal(nobody)[count - 1]));
    load.back() = 1e300;
    p.set("load", load);
    EXPECT_EQ(least(pool(p.view()), 0, [&](uint32_t i) { return pool(p.view()).signal(id)[i]; }), count - 1);
  }
  sample_pool none(0);
  EXPECT_EQ(least(pool(none.view()), 3, [](uint32_t) { return 0.0; }), std::nullopt);
}

// Naive variants: NaN is the first to be compared and nothing is less; below the smallest normal number all is zero.
TEST(least, orders_whatever_a_cost_may_be) {
  constexpr double inf = std::numeric_limits<double>::infinity(), tiny = std::numeric_limits<double>::denorm_min();
  const struct {
    std::vector<double> costs;
    std::set<uint32_t> least;
  } cases[] = {{{missing, 1, inf}, {1}},      {{-inf, missing, -1e308}, {0}}, {{-inf, 0, -inf}, {0, 2}}, {{tiny, 0, 2 * tiny}, {1}},
               {{0.0, tiny, -0.0}, {0, 2}}, {{1e308, inf, -tiny}, {2}},     {{2 * tiny, missing, tiny}, {2}}};
  for (const uint32_t before : {0u, 3u, 70u}) {
    for (const auto &c : cases) {
      std::vector<double> costs(before, missing);
      costs.insert(costs.end(), c.costs.begin(), c.costs.end());
      sample_pool p(static_cast<uint32_t>(costs.size()));
      std::vector<double> table(costs.size());
      hive_choice choice{sizeof(hive_choice), 0, table.data(), static_cast<uint32_t>(table.size()), 0};
      std::set<uint32_t> seen, scored, wanted;
      for (const uint32_t i : c.least) wanted.insert(before + i);
      const auto cost = [&](uint32_t i) { return costs[i]; };
      for (uint64_t seed = 0; seed < 4; ++seed) {
        seen.insert(least(pool(p.view()), seed, cost).value());
        scored.insert(least_scored(pool(p.view()), seed, scores(&choice), cost).value());
      }
      EXPECT_EQ(seen, wanted) << before << " before " << c.costs[0] << " " << c.costs[1] << " " << c.costs[2];
      EXPECT_EQ(scored, wanted) << before << " before " << c.costs[0] << " " << c.costs[1] << " " << c.costs[2];
    }
  }
  sample_pool p(3);
  std::set<uint32_t> seen;
  for (uint64_t seed = 0; seed < 3; ++seed) seen.insert(least(pool(p.view()), seed, [](uint32_t i) { return i == 1 ? missing : inf; }).value());
  EXPECT_EQ(seen.size(), 3u) << "none is better than nothing known";
}

TEST(least, turns_over_ties_of_many_candidates_in_their_order) {
  for (const uint32_t count : {63u, 64u, 65u, 128u, 200u}) {
    sample_pool p(count);
    std::vector<double> load(count, 0.5);
    std::vector<uint32_t> ties;
    for (uint32_t i = 0; i < count; ++i) {
      if (i % 7 == 3) load[i] = missing;
      // None in the second block of 64.
      if (i % 5 != 2 || i / 64 == 1) continue;
      load[i] = 0.25;
      ties.push_back(i);
    }
    p.set("load", load);
    const hive_column id = p.column("load");
    const pool view(p.view());
    const auto cost = [&](uint32_t i) { return view.signal(id)[i]; };
    std::vector<double> table(count);
    for (uint64_t seed = 0; seed < 2 * ties.size(); ++seed) {
      hive_choice c{sizeof(hive_choice), 0, table.data(), count, 0};
      EXPECT_EQ(least(view, seed, cost), ties[seed % ties.size()]) << count;
      EXPECT_EQ(least_scored(view, seed, scores(&c), cost), ties[seed % ties.size()]) << count;
    }
  }
}

TEST(least_scored, publishes_what_it_compared) {
  sample_pool p(3);
  p.set("load", {3, 1, 2});
  double table[3] = {-1, -1, -1};
  hive_choice c{sizeof(hive_choice), 0, table, 3, 0};
  const hive_column id = p.column("load");
  const pool view(p.view());
  EXPECT_EQ(least_scored(view, 0, scores(&c), [&](uint32_t i) { return view.signal(id)[i]; }), 1u);
  EXPECT_EQ(c.scored, 1u);
  EXPECT_EQ(table[2], 2);
}

TEST(mix, spreads_small_seeds_evenly) {
  std::vector<int> hits(7);
  for (uint64_t i = 0; i < 70000; ++i) ++hits[bounded(mix(i), 7)];
  for (const int h : hits) EXPECT_NEAR(h, 10000, 400);
  EXPECT_EQ(bounded(UINT64_MAX, 5), 4u);
}

TEST(per_agent, starts_anew_when_another_agent_takes_the_slot) {
  sample_pool p(2);
  per_agent<int> state;
  state.sync(pool(p.view()));
  state.at(0) = 5;
  state.at(1) = 6;
  state.sync(pool(p.view()));
  EXPECT_EQ(state.at(0), 5);
  p.agent(0).agent_key = 77;
  p.agent(1).agent_key = 0;
  state.sync(pool(p.view()));
  EXPECT_EQ(state.at(0), 0);
  EXPECT_FALSE(state.has(1));
}

TEST(guarded, turns_exceptions_into_codes_and_words) {
  std::string words;
  const hive_error_sink sink{sizeof(hive_error_sink), 0, &words, [](void *c, hive_status, hive_str m) noexcept { *static_cast<std::string *>(c) = view(m); }};
  EXPECT_EQ(guarded(&sink, []() -> hive_status { throw failure(HIVE_E_CORRUPT, "torn"); }), HIVE_E_CORRUPT);
  EXPECT_EQ(words, "torn");
  EXPECT_EQ(guarded(&sink, []() -> hive_status { throw std::bad_alloc(); }), HIVE_E_EXHAUSTED);
  EXPECT_EQ(guarded(nullptr, []() -> hive_status { throw 7; }), HIVE_E_INTERNAL);
}

}  // namespace
}  // namespace hive::sdk
