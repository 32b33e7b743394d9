#include "routing/scan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/clock.hpp"

namespace hive::routing {
namespace {

struct column_sample {
  std::vector<double> values;
  std::vector<uint64_t> sampled;  // 0 = live
};

// Against the words of the rule, one agent after another.
void expect_same(const threshold &t, const column_sample &c, std::vector<uint8_t> out) {
  constexpr uint64_t now = 100;
  const auto holds = [&t](double v, double limit) {
    return t.op == comparison::gt ? v > limit : t.op == comparison::gte ? v >= limit : t.op == comparison::lt ? v < limit : v <= limit;
  };
  const auto n = static_cast<uint32_t>(c.values.size());
  std::vector<uint8_t> keep(n, 1), want_out = out;
  if (n > 2) keep[2] = 0;
  std::vector<uint8_t> want = keep;
  uint64_t due = never_ns;
  for (uint32_t i = 0; i < n; ++i) {
    const bool gone = std::isnan(c.values[i]) || (t.max_age_ns && c.sampled[i] && now - c.sampled[i] > t.max_age_ns);
    const bool hit = gone ? t.exclude_missing : holds(c.values[i], t.leave && out[i] ? *t.leave : t.limit);
    EXPECT_EQ(scan::violated(t, c.values.data(), c.sampled.data(), now, i, t.leave && out[i]), hit);
    if (hit) want[i] = 0;
    if (!gone) want_out[i] = hit;
    if (!gone && t.max_age_ns && c.sampled[i]) due = std::min(due, c.sampled[i] + t.max_age_ns + 1);
  }
  EXPECT_EQ(scan::apply(t, c.values.data(), c.sampled.data(), now, keep.data(), t.leave ? out.data() : nullptr, n), due);
  EXPECT_EQ(keep, want);
  if (t.leave) {
    EXPECT_EQ(out, want_out);
  }
}

TEST(scan, rules_agree_with_their_scalar_form_at_every_length) {
  std::mt19937 chance(7);
  for (const uint32_t n : {0u, 1u, 3u, 4u, 7u, 8u, 31u, 33u, 100u, 257u}) {
    column_sample c;
    std::vector<uint8_t> out;
    for (uint32_t i = 0; i < n; ++i) {
      c.values.push_back(chance() % 4 == 0 ? NAN : chance() % 5);
      c.sampled.push_back(chance() % 100);
      out.push_back(chance() % 2);
    }
    for (const comparison op : {comparison::gt, comparison::gte, comparison::lt, comparison::lte})
      for (const bool exclude : {false, true})
        for (const uint64_t age : {0u, 50u}) {
          threshold t{op, 2, exclude, age};
          expect_same(t, c, out);
          t.leave = op == comparison::gt || op == comparison::gte ? 1 : 3;
          expect_same(t, c, out);
        }
  }
}

TEST(scan, a_column_nobody_publishes_is_missing_for_all) {
  std::vector<uint8_t> keep(5, 1);
  scan::apply({comparison::gt, 0, false, 0, {}}, nullptr, nullptr, 0, keep.data(), nullptr, 5);
  EXPECT_EQ(keep, std::vector<uint8_t>(5, 1));
  scan::apply({comparison::gt, 0, true, 0, {}}, nullptr, nullptr, 0, keep.data(), nullptr, 5);
  EXPECT_EQ(keep, std::vector<uint8_t>(5, 0));
}

TEST(scan, open_slots_are_those_that_fit_and_are_free_and_the_rest_is_held) {
  std::mt19937 chance(5);
  const uint8_t states[] = {fleet::slot_unusable, fleet::slot_full, fleet::slot_free};
  for (uint32_t n = 1; n < 70; ++n) {
    std::vector<uint8_t> state(n), fits(n), keep(n, 7), want(n);
    uint32_t held = 0;
    for (uint32_t i = 0; i < n; ++i) {
      state[i] = states[chance() % 3];
      fits[i] = chance() % 4 != 0;
      want[i] = fits[i] && state[i] == fleet::slot_free;
      held += fits[i] && state[i] == fleet::slot_full;
    }
    EXPECT_EQ(scan::open_slots(state.data(), fits.data(), keep.data(), n), held);
    EXPECT_EQ(keep, want);
  }
}

TEST(scan, gather_keeps_order) {
  std::mt19937 chance(3);
  for (uint32_t n = 0; n < 70; ++n) {
    std::vector<uint8_t> keep(n);
    std::vector<uint32_t> want;
    for (uint32_t i = 0; i < n; ++i) {
      keep[i] = (i / 8) % 3 == 0 ? 1 : (i / 8) % 3 == 1 ? 0 : chance() % 2;
      if (keep[i]) want.push_back(i);
    }
    std::vector<uint32_t> got(n);
    got.resize(scan::gather(keep.data(), n, got.data()));
    EXPECT_EQ(got, want);
  }
}

TEST(scan, gather_knows_every_pattern_of_eight_and_writes_no_further_than_the_last) {
  for (uint32_t bits = 0; bits < 256; ++bits) {
    std::vector<uint8_t> keep(16, 1);
    std::vector<uint32_t> want = {0, 1, 2, 3, 4, 5, 6, 7};
    for (uint32_t k = 0; k < 8; ++k) {
      keep[8 + k] = bits >> k & 1;
      if (keep[8 + k] != 0) want.push_back(8 + k);
    }
    std::vector<uint32_t> got(17, 77);
    const uint32_t count = scan::gather(keep.data(), 16, got.data());
    EXPECT_EQ(got.back(), 77u);
    got.resize(count);
    EXPECT_EQ(got, want);
  }
}

TEST(scan, least_loaded_shares_ties_and_puts_unknown_last) {
  const std::vector<double> load = {0.5, 0.25, NAN, 0.25, 0.25};
  const std::vector<uint32_t> all = {0, 1, 2, 3, 4};
  std::vector<uint32_t> got;
  for (uint64_t seed = 0; seed < 4; ++seed) got.push_back(scan::least_loaded(load.data(), all.data(), 5, seed));
  EXPECT_EQ(got, (std::vector<uint32_t>{1, 3, 4, 1}));
  const std::vector<uint32_t> unknown = {2};
  EXPECT_EQ(scan::least_loaded(load.data(), unknown.data(), 1, 5), 2u);
  EXPECT_EQ(scan::least_loaded(nullptr, all.data(), 5, 2), 2u);
}

}  // namespace
}  // namespace hive::routing
