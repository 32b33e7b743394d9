// What each strategy is for, in numbers: driven through the C ABI over the fleet model. Every bar is between what the strategy
// reaches and what the rule it improves on does; the numbers are those of the pages in docs/strategies.
#include <gtest/gtest.h>

#include <algorithm>

#include "scenarios.hpp"

namespace hive::simulation {
namespace {

std::vector<double> firsts(const run_result &r, double from_s, double until_s) {
  std::vector<double> out;
  for (const answer &a : r.answers)
    if (a.at_s >= from_s && a.at_s < until_s) out.push_back(a.first_s);
  std::sort(out.begin(), out.end());
  return out;
}

double share_of(const run_result &r, uint32_t agent, double from_s, double until_s) {
  double all = 0, its = 0;
  for (const answer &a : r.answers) {
    if (a.at_s < from_s || a.at_s >= until_s) continue;
    ++all;
    its += a.agent == agent;
  }
  return its / all;
}

std::string told(const run_result &r) {
  return "hit " + std::to_string(r.hit_rate) + ", busiest " + std::to_string(r.busiest) + ", first token p50/p90/p99 " +
         std::to_string(r.first_p(0.5)) + "/" + std::to_string(r.first_p(0.9)) + "/" + std::to_string(r.first_p(0.99));
}

// It draws its ties, and its 90th percentile varies by some percent with them: the mean of five runs.
double first_p90_of_longest_match(const scenario &s, size_t blocks) {
  double sum = 0;
  for (unsigned seed = 1; seed <= 5; ++seed) {
    longest_match by(s.fleet.size(), blocks, seed);
    sum += simulate(s.requests, s.fleet, by).first_p(0.9);
  }
  std::cout << "longest match: p90 " << sum / 5 << "\n";
  return sum / 5;
}

struct means {
  double first_p90 = 0, hit_rate = 0, busiest = 0;
};

// Whose turn it is when agents are equal moves these by some percent, for plugins as well: the mean of six beginnings.
means of_conversations(size_t blocks, double speed, const std::string &strategy, const std::string &options = "") {
  means out;
  for (const uint32_t ahead : {0u, 1u, 2u, 3u, 5u, 7u}) {
    const run_result r = run(conversations(blocks, speed, ahead), strategy, options);
    out.first_p90 += r.first_p(0.9) / 6;
    out.hit_rate += r.hit_rate / 6;
    out.busiest = std::max(out.busiest, r.busiest);
  }
  std::cout << strategy << ": hit " << out.hit_rate << ", busiest " << out.busiest << ", first token p90 " << out.first_p90 << "\n";
  return out;
}

// With weight 1, with a backlog of requests instead of uncached tokens, or where a prompt under way counts whole until it answers
// (0.302 of the larger load's 0.3), the bars are missed.
TEST(prefix_affinity, on_a_real_trace_waits_half_as_long_as_both_usual_rules) {
  const means least = of_conversations(800, 1, "least-loaded"), it = of_conversations(800, 1, "prefix-affinity", R"({"blocks": 800})");
  EXPECT_LE(it.first_p90, 0.5 * least.first_p90);
  EXPECT_LE(it.first_p90, 0.52 * first_p90_of_longest_match(conversations(800, 1), 800));
  EXPECT_GE(it.hit_rate, 0.135);
  EXPECT_LT(it.busiest, 1.1);
}

TEST(prefix_affinity, with_larger_caches_and_more_load_gains_more) {
  const means least = of_conversations(2000, 1.6, "least-loaded"),
              it = of_conversations(2000, 1.6, "prefix-affinity", R"({"blocks": 2000})");
  EXPECT_LE(it.first_p90, 0.3 * least.first_p90);
  EXPECT_LE(it.first_p90, 0.45 * first_p90_of_longest_match(conversations(2000, 1.6), 2000));
}

// A memory that is four times what the engines hold believes in prefixes that are gone; the engines' counts say so.
TEST(prefix_affinity, learns_that_engines_hold_less_than_it_remembers) {
  const scenario s = conversations(400, 1);
  const run_result fitting = run(s, "prefix-affinity", R"({"blocks": 400})"),
                   boasting = run(s, "prefix-affinity", R"({"blocks": 1600})");
  std::cout << "fitting: " << told(fitting) << "\nboasting: " << told(boasting) << "\n";
  EXPECT_LE(boasting.first_p(0.9), 1.25 * fitting.first_p(0.9));
}

TEST(consistent_hash, keeps_chats_together_and_engines_warm) {
  const scenario s = long_chats();
  const run_result it = run(s, "consistent-hash"), least = run(s, "least-loaded");
  std::cout << "least-loaded: " << told(least) << "\nconsistent-hash: " << told(it) << "\n";
  EXPECT_GE(it.hit_rate, 1.5 * least.hit_rate);
  EXPECT_LE(it.first_p(0.9), 0.8 * least.first_p(0.9));
}

// Watches every choice: nobody takes more than 1.25 times its share, rounded up.
class bound_watch final : public rule {
 public:
  explicit bound_watch(rule &by) : by_(by) {}
  uint32_t choose(double now_s, const arrival &a, const std::vector<agent_state> &seen) override {
    double active = 1, slots = 0;
    for (const agent_state &one : seen) active += one.active, slots += one.capacity;
    const uint32_t i = by_.choose(now_s, a, seen);
    over += seen[i].active + 1 > std::ceil(1.25 * active * seen[i].capacity / slots);
    return i;
  }
  int over = 0;

 private:
  rule &by_;
};

TEST(consistent_hash, bounds_the_load_of_the_agent_of_a_popular_session) {
  scenario s = long_chats();
  for (size_t i = 0; i < s.requests.size(); i += 2) s.requests[i].session = "everybody";
  plugin_rule by("consistent-hash", "", 8);
  bound_watch watch(by);
  const run_result r = simulate(s.requests, s.fleet, watch);
  EXPECT_EQ(watch.over, 0);
  EXPECT_EQ(r.answers.size(), s.requests.size());
  const run_result unbound = run(s, "consistent-hash", R"({"load_factor": 1000})");
  EXPECT_GT(unbound.busiest, 1.5 * r.busiest) << "without a bound one agent would drown";
}

TEST(peak_ewma, leaves_an_agent_that_goes_bad_and_comes_back) {
  const scenario s = one_goes_bad();
  const run_result it = run(s, "peak-ewma"), least = run(s, "least-loaded");
  const auto mine = firsts(it, 105, 200), theirs = firsts(least, 105, 200);
  const double p99 = mine[mine.size() * 99 / 100], least_p99 = theirs[theirs.size() * 99 / 100];
  std::cout << "least-loaded: p99 " << least_p99 << " share " << share_of(least, 3, 105, 200) << "\npeak-ewma: p99 " << p99 << " share "
            << share_of(it, 3, 105, 200) << ", before " << share_of(it, 3, 0, 100) << ", after " << share_of(it, 3, 230, 300) << "\n";
  EXPECT_LE(p99, 0.6 * least_p99);
  EXPECT_LE(share_of(it, 3, 105, 200), 0.5 * share_of(least, 3, 105, 200));
  EXPECT_NEAR(share_of(it, 3, 0, 100), 0.125, 0.03);
  EXPECT_NEAR(share_of(it, 3, 230, 300), 0.125, 0.05);
}

TEST(token_load, keeps_small_requests_from_behind_large_ones) {
  const scenario s = mixed_lengths();
  const run_result it = run(s, "token-load"), least = run(s, "least-loaded");
  std::cout << "least-loaded: " << told(least) << "\ntoken-load: " << told(it) << "\n";
  EXPECT_LE(it.first_p(0.9), 0.6 * least.first_p(0.9));
  EXPECT_LE(it.first_p(0.5), least.first_p(0.5));
}

TEST(power_of_two, does_not_run_after_old_news) {
  const scenario s = plain_load();
  plugin_rule two("power-of-two", "", 16), least("least-loaded", "", 16);
  seen_late two_late(two, 1), least_late(least, 1);
  const run_result it = simulate(s.requests, s.fleet, two_late), herd = simulate(s.requests, s.fleet, least_late);
  std::cout << "least-loaded: " << told(herd) << "\npower-of-two: " << told(it) << "\n";
  EXPECT_LE(it.first_p(0.9), 0.7 * herd.first_p(0.9));
}

TEST(least_loaded, waits_less_than_taking_turns) {
  const scenario s = unequal_engines();
  in_turn turns;
  const run_result it = run(s, "least-loaded"), other = simulate(s.requests, s.fleet, turns);
  std::cout << "in turn: " << told(other) << "\nleast-loaded: " << told(it) << "\n";
  EXPECT_LE(it.first_p(0.9), 0.7 * other.first_p(0.9));
}

}  // namespace
}  // namespace hive::simulation
