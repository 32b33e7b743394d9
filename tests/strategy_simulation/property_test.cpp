// What must hold of each strategy whatever the load; through the C ABI.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "scenarios.hpp"

namespace hive::simulation {
namespace {

const std::vector<agent_state> &idle(size_t n) {
  static std::map<size_t, std::vector<agent_state>> all;
  auto &fleet = all[n];
  if (fleet.empty()) {
    agent_state one;
    one.capacity = 64;
    fleet.assign(n, one);
  }
  return fleet;
}

arrival of_session(const std::string &name) {
  arrival a;
  a.session = name;
  return a;
}

std::vector<uint64_t> path(uint64_t root, size_t n) {
  std::vector<uint64_t> out;
  for (size_t i = 0; i < n; ++i) out.push_back(root * 1000 + i);
  return out;
}

arrival with_prompt(std::vector<uint64_t> blocks, uint32_t output = 10) {
  arrival a;
  a.prompt = static_cast<uint32_t>(static_cast<double>(blocks.size()) * tokens_a_block);
  a.output = output;
  a.blocks = std::move(blocks);
  return a;
}

// A lease that began at `at_s` is over, at once.
void finish(plugin_rule &by, uint32_t agent, double at_s, const arrival &a, double cached = 0) {
  by.tell(at_s + 0.1, {agent, 0.1, false, &a, 0});
  by.tell(at_s + 0.2, {agent, 0.2, true, &a, cached});
}

// To that one of two agents, wherever it would go by itself.
arrival send(plugin_rule &by, uint32_t agent, double at_s, uint64_t root, size_t blocks) {
  by.pool().eligible(1 - agent, false);
  const arrival a = with_prompt(path(root, blocks));
  EXPECT_EQ(by.choose(at_s, a, idle(2)), agent);
  by.pool().eligible(1 - agent, true);
  return a;
}

TEST(consistent_hash, sends_a_key_to_the_same_agent_on_every_router) {
  plugin_rule one("consistent-hash", "", 20), two("consistent-hash", R"({"load_factor": 3})", 20);
  std::map<uint32_t, int> share;
  for (int i = 0; i < 2000; ++i) {
    const arrival a = of_session("session-" + std::to_string(i));
    const uint32_t home = one.choose(0, a, idle(20));
    ASSERT_EQ(home, two.choose(0, a, idle(20)));
    ASSERT_EQ(home, one.choose(0, a, idle(20)));
    ++share[home];
  }
  ASSERT_EQ(share.size(), 20u);
  for (const auto &[agent, n] : share) EXPECT_NEAR(n, 100, 45) << agent;
}

TEST(consistent_hash, moves_the_keys_of_an_agent_that_leaves_and_no_others) {
  plugin_rule by("consistent-hash", "", 20);
  std::vector<uint32_t> before;
  for (int i = 0; i < 2000; ++i) before.push_back(by.choose(0, of_session(std::to_string(i)), idle(20)));
  by.let_go(7);
  std::map<uint32_t, int> heirs;
  for (int i = 0; i < 2000; ++i) {
    const uint32_t now = by.choose(0, of_session(std::to_string(i)), idle(20));
    ASSERT_NE(now, 7u);
    if (before[static_cast<size_t>(i)] == 7) ++heirs[now];
    else ASSERT_EQ(now, before[static_cast<size_t>(i)]) << i;
  }
  EXPECT_GE(heirs.size(), 15u) << "the keys of a leaver spread over all, they do not fall on one neighbour";
}

TEST(consistent_hash, without_a_session_goes_where_the_load_is_least) {
  plugin_rule by("consistent-hash", "", 3);
  std::vector<agent_state> fleet = idle(3);
  fleet[0].active = 5;
  fleet[2].active = 9;
  for (int i = 0; i < 50; ++i) EXPECT_EQ(by.choose(0, of_session(""), fleet), 1u);
}

TEST(consistent_hash, without_a_session_goes_with_its_tenant_where_that_is_asked_for) {
  plugin_rule by("consistent-hash", R"({"without_session": "tenant"})", 20);
  std::map<uint32_t, int> share;
  for (int i = 0; i < 400; ++i) {
    arrival a;
    a.tenant = "tenant-" + std::to_string(i);
    const uint32_t home = by.choose(0, a, idle(20));
    ASSERT_EQ(home, by.choose(0, a, idle(20)));
    ++share[home];
    a.session = "session";
    ASSERT_EQ(by.choose(0, a, idle(20)), by.choose(0, of_session("session"), idle(20))) << "a session comes first";
  }
  EXPECT_EQ(share.size(), 20u);
}

TEST(prefix_affinity, returns_to_where_the_prompt_is_and_only_there) {
  plugin_rule by("prefix-affinity", "", 8);
  for (uint64_t root = 1; root < 40; ++root) {
    const double t = static_cast<double>(root);
    const arrival first = with_prompt(path(root, 6)), second = with_prompt(path(root, 9));
    const uint32_t home = by.choose(t, first, idle(8));
    finish(by, home, t, first);
    ASSERT_EQ(by.choose(t + 0.5, second, idle(8)), home) << root;
    finish(by, home, t + 0.5, second, 6 * tokens_a_block);
  }
}

// A backlog ends with the lease and leaves nothing: otherwise an idle agent would be avoided for ever.
TEST(prefix_affinity, forgets_a_backlog_with_its_lease_in_whatever_order_they_end) {
  plugin_rule by("prefix-affinity", "", 2);
  chance c(9);
  for (int round = 0; round < 50; ++round) {
    const double t = round * 10.0;
    std::vector<std::pair<uint32_t, arrival>> open;
    std::vector<double> began;
    for (int k = 0; k < 20; ++k) {
      open.emplace_back(0, with_prompt(path(static_cast<uint64_t>(round * 100 + k), 1 + static_cast<size_t>(c.between(0, 20)))));
      began.push_back(t + k * 0.01);
      open.back().first = by.choose(began.back(), open.back().second, idle(2));
    }
    while (!open.empty()) {
      const auto k = static_cast<size_t>(c.between(0, static_cast<double>(open.size())));
      if (c.unit() < 0.5) by.tell(t + 5, {open[k].first, t + 5 - began[k], false, &open[k].second, 0});
      by.tell(t + 5, {open[k].first, t + 5 - began[k], true, &open[k].second, 0});
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(k));
      began.erase(began.begin() + static_cast<std::ptrdiff_t>(k));
    }
    // Both are idle, equal and cold for these: turns, and so both.
    std::map<uint32_t, int> seen;
    for (uint64_t k = 0; k < 8; ++k) {
      arrival plain;
      plain.output = 1;
      const uint32_t i = by.choose(t + 6, plain, idle(2));
      ++seen[i];
      finish(by, i, t + 6, plain);
    }
    ASSERT_EQ(seen.size(), 2u) << "round " << round;
  }
}

TEST(prefix_affinity, leaves_a_warm_agent_when_what_waits_there_is_worth_more) {
  // Eight blocks are cached there, and each counts `weight` times, four by default: what waits there may be 32 blocks, or 8.
  const std::tuple<const char *, size_t, bool> cases[] = {{"", 31, true}, {"", 33, false}, {R"({"weight": 1})", 7, true}, {R"({"weight": 1})", 9, false}};
  for (const auto &[options, waiting, stays] : cases) {
    plugin_rule by("prefix-affinity", options, 2);
    const arrival warm = with_prompt(path(1, 8)), cold = with_prompt(path(2, waiting));
    const uint32_t home = by.choose(0, warm, idle(2));
    finish(by, home, 0, warm);
    by.pool().eligible(1 - home, false);
    by.choose(1, cold, idle(2));
    by.pool().eligible(1 - home, true);
    EXPECT_EQ(by.choose(1, warm, idle(2)), stays ? home : 1 - home) << options << " " << waiting;
  }
}

// Naive variant: what is being computed counts whole until it answers, and half a minute of prompt looks as bad at its end as at its
// beginning.
TEST(prefix_affinity, knows_that_a_long_prompt_is_partly_computed) {
  plugin_rule by("prefix-affinity", "", 2);
  // A block in a tenth of a second, at both; one after the other, as the clock does not go back.
  for (const uint32_t agent : {0u, 1u}) finish(by, agent, agent, send(by, agent, agent, 1 + agent, 1));
  send(by, 0, 10, 3, 100);
  send(by, 1, 15, 4, 60);
  const arrival cold = with_prompt(path(5, 1));
  EXPECT_EQ(by.choose(15, cold, idle(2)), 0u) << "50 blocks are left there, 60 here";
  // Both take longer than they should, the first one most; what waits behind them, 41 blocks and 35, still counts whole.
  send(by, 0, 15, 6, 40);
  send(by, 1, 15, 8, 35);
  EXPECT_EQ(by.choose(40, with_prompt(path(7, 1)), idle(2)), 1u);
}

// Naive variant: prompts are told apart by the moment they came at, and the second one of a moment counts as computed with the first.
TEST(prefix_affinity, tells_prompts_of_the_same_moment_apart) {
  plugin_rule by("prefix-affinity", "", 2);
  finish(by, 0, 0, send(by, 0, 0, 1, 1));
  const arrival first = send(by, 0, 10, 2, 100);
  send(by, 0, 10, 3, 40);
  by.tell(20, {0, 10, false, &first, 0});
  send(by, 1, 20, 4, 30);
  EXPECT_EQ(by.choose(20, with_prompt(path(5, 1)), idle(2)), 1u) << "40 blocks have only just begun there, 30 here";
}

TEST(prefix_affinity, trusts_no_cache_that_engines_do_not_confirm) {
  plugin_rule by("prefix-affinity", "", 4);
  const arrival a = with_prompt(path(1, 8));
  std::map<uint32_t, int> late;
  for (int i = 0; i < 400; ++i) {
    const uint32_t at = by.choose(i, a, idle(4));
    finish(by, at, i, a, 0);
    if (i >= 300) ++late[at];
  }
  EXPECT_EQ(late.size(), 4u) << "engines without a prefix cache share what looks warm";
}

TEST(prefix_affinity, starts_anew_when_another_agent_takes_a_slot) {
  plugin_rule by("prefix-affinity", "", 2);
  const arrival a = with_prompt(path(1, 8));
  const uint32_t home = by.choose(0, a, idle(2));
  by.let_go(home);
  by.tell(1, {home, 1, true, &a, 0});   // of an agent that has left: nothing to correct
  const uint32_t other = 1 - home;
  EXPECT_EQ(by.choose(2, a, idle(2)), other);
  finish(by, other, 2, a);
  by.join(home, 77);
  for (int i = 3; i < 7; ++i) EXPECT_EQ(by.choose(i, a, idle(2)), other) << "the newcomer was taken for the one that was there before";
}

TEST(peak_ewma, gives_twice_the_load_to_who_is_twice_as_fast) {
  plugin_rule by("peak-ewma", "", 2);
  std::vector<agent_state> fleet = idle(2);
  fleet[0].srtt_ms = 100;
  fleet[1].srtt_ms = 200;
  for (int i = 0; i < 60; ++i) ++fleet[by.choose(i, {}, fleet)].active;
  EXPECT_NEAR(fleet[0].active, 40, 1);
}

TEST(peak_ewma, tries_an_agent_that_was_never_measured) {
  plugin_rule by("peak-ewma", "", 3);
  std::vector<agent_state> fleet = idle(3);
  fleet[0].srtt_ms = 50;
  fleet[1].srtt_ms = 80;
  std::map<uint32_t, int> seen;
  for (int i = 0; i < 10; ++i) ++seen[by.choose(i, {}, fleet)];
  EXPECT_GT(seen[2], 0);
  EXPECT_EQ(seen[1], 0);
}

TEST(peak_ewma, counts_a_late_answer_at_once_and_lets_it_wear_off) {
  plugin_rule by("peak-ewma", R"({"decay_s": 10})", 2);
  std::vector<agent_state> fleet = idle(2);
  fleet[0].srtt_ms = 100;
  fleet[1].srtt_ms = 150;
  const arrival a;
  EXPECT_EQ(by.choose(1, a, fleet), 0u);
  by.tell(3, {0, 2, false, &a, 0});     // 2,000 ms
  EXPECT_EQ(by.choose(3, a, fleet), 1u);
  EXPECT_EQ(by.choose(100, a, fleet), 1u) << "2,000 ms after ten half-lives are 187 ms";
  EXPECT_EQ(by.choose(200, a, fleet), 0u) << "and after twenty less than the other's 150";
}

TEST(token_load, counts_tokens_and_not_requests) {
  plugin_rule by("token-load", "", 2);
  arrival big, small;
  big.prompt = 10'000;
  big.output = small.output = 10;
  small.prompt = 100;
  const uint32_t first = by.choose(0, big, idle(2));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(by.choose(0.001 * i, small, idle(2)), 1 - first) << i;
  by.tell(5, {first, 5, false, &big, 0});  // its prompt is computed; ten tokens are left, and fifty requests at the other
  EXPECT_EQ(by.choose(6, small, idle(2)), first);
}

TEST(token_load, learns_which_agent_is_slow) {
  plugin_rule by("token-load", "", 2);
  arrival a;
  a.prompt = 100;
  a.output = 100;
  std::map<uint32_t, int> late;
  for (int i = 0; i < 400; ++i) {
    const double t = i * 10.0;
    const uint32_t at = by.choose(t, a, idle(2));
    const double takes = at == 0 ? 4 : 1;
    by.tell(t + takes / 2, {at, takes / 2, false, &a, 0});
    by.tell(t + takes, {at, takes, true, &a, 0});
    if (i >= 200) ++late[at];
  }
  EXPECT_GE(late[1], 195);
}

// Tokens over time would call the agent that has the documents the fastest, and give it the next one, too.
TEST(token_load, does_not_take_prompts_for_speed) {
  plugin_rule by("token-load", "", 2);
  arrival document, talk;
  document.prompt = 20'000;
  document.output = 10;
  talk.prompt = 10;
  talk.output = 500;
  for (int i = 0; i < 200; ++i) {
    const double t = i * 100.0;
    // Both take 8,000 tokens a second of prompts and 50 of answers; one after the other, and so in turn.
    for (const arrival *a : {&document, &talk}) {
      const uint32_t only = a == &document ? 0 : 1;
      by.pool().eligible(1 - only, false);
      const double start = t + only * 50;
      ASSERT_EQ(by.choose(start, *a, idle(2)), only);
      by.pool().eligible(1 - only, true);
      const double first = a->prompt / 8000.0, end = first + a->output / 50.0;
      by.tell(start + first, {only, first, false, a, 0});
      by.tell(start + end, {only, end, true, a, 0});
    }
  }
  std::map<uint32_t, int> seen;
  for (int i = 0; i < 40; ++i) {
    const uint32_t at = by.choose(1e6 + i, talk, idle(2));
    ++seen[at];
  }
  EXPECT_NEAR(seen[0], 20, 4);
}

// Clients declare 4,000 tokens and use 100: after a while a declaration counts for little and prompts decide.
TEST(token_load, learns_how_much_of_a_declared_length_is_used) {
  plugin_rule by("token-load", "", 2);
  arrival used;
  used.prompt = 100;
  used.output = 100;
  arrival declared = used;
  declared.output = 4000;
  for (int i = 0; i < 300; ++i) {
    const uint32_t at = by.choose(i, declared, idle(2));
    by.tell(i + 0.5, {at, 0.5, true, &used, 0});
  }
  arrival prompt;
  prompt.prompt = 2000;
  prompt.output = 1;
  const uint32_t busy = by.choose(1000, prompt, idle(2));
  by.choose(1001, declared, idle(2));
  EXPECT_NE(by.choose(1002, declared, idle(2)), busy) << "two declared answers are about 400 tokens, not 8,200";
}

}  // namespace
}  // namespace hive::simulation
