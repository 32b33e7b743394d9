#include <cmath>
#include <map>
#include <set>

#include "loaded.hpp"

namespace hive::conformance {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

class bench {
 public:
  bench(const std::string &id, uint32_t agents, const std::string &json = "") : pool(agents), services_(pool) {
    const plugins::component *c = registry().find(HIVE_KIND_STRATEGY, id);
    EXPECT_NE(c, nullptr);
    auto made = plugins::instance::make(registry(), *c, {"test", "", json, {}}, services_);
    EXPECT_TRUE(made.ok()) << made.why().text();
    it_ = std::move(*made);
  }
  std::optional<uint32_t> choose(uint64_t seed) { return choose(check::sample_request(seed)); }
  std::optional<uint32_t> choose(const hive_request &r) {
    meet_pool();
    scores_.assign(pool.view()->count + 1, 0);
    hive_choice c{sizeof(hive_choice), UINT32_MAX, scores_.data(), pool.view()->count, 0};
    const hive_status st = it_->strategy()->select(it_->self(), &r, pool.view(), &c);
    EXPECT_TRUE(st == HIVE_OK || st == HIVE_NO_CHOICE) << st;
    return st == HIVE_OK ? std::optional(c.index) : std::nullopt;
  }
  void lease(const hive_request &r, uint32_t index) {
    meet_pool();
    if (it_->strategy()->on_choice) it_->strategy()->on_choice(it_->self(), &r, pool.view(), index);
  }
  void tell(const hive_outcome &o) {
    if (it_->strategy()->on_outcome) it_->strategy()->on_outcome(it_->self(), &o);
  }
  check::sample_pool pool;

 private:
  void meet_pool() {
    if (pool.view()->epoch == met_) return;
    met_ = pool.view()->epoch;
    if (it_->strategy()->on_pool) it_->strategy()->on_pool(it_->self(), pool.view());
  }
  uint64_t met_ = 0;
  pool_services services_;
  std::unique_ptr<plugins::instance> it_;
  std::vector<double> scores_;
};

class strategies : public testing::TestWithParam<const char *> {};

TEST_P(strategies, choose_only_candidates) {
  bench b(GetParam(), 40);
  std::vector<double> load(40);
  for (size_t i = 0; i < load.size(); ++i) load[i] = static_cast<double>(i) / 40;
  b.pool.set("load", load);
  for (uint32_t i = 0; i < 40; i += 2) b.pool.eligible(i, false);
  for (uint64_t seed = 0; seed < 500; ++seed) EXPECT_EQ(b.choose(seed).value() % 2, 1u);
}

TEST_P(strategies, choose_nothing_among_nothing_and_the_only_one_among_one) {
  bench empty(GetParam(), 0);
  EXPECT_EQ(empty.choose(0), std::nullopt);
  bench one(GetParam(), 5);
  for (uint32_t i = 0; i < 5; ++i) one.pool.eligible(i, i == 3);
  for (uint64_t seed = 0; seed < 10; ++seed) EXPECT_EQ(one.choose(seed), 3u);
  one.pool.eligible(3, false);
  EXPECT_EQ(one.choose(0), std::nullopt);
}

TEST_P(strategies, share_equal_agents_evenly) {
  bench b(GetParam(), 8);
  b.pool.set("load", std::vector<double>(8, 0.5));
  std::map<uint32_t, int> hits;
  for (uint64_t seed = 0; seed < 8000; ++seed) ++hits[b.choose(seed).value()];
  ASSERT_EQ(hits.size(), 8u);
  for (const auto &[index, n] : hits) EXPECT_NEAR(n, 1000, 150) << index;
}

TEST_P(strategies, answer_the_same_question_the_same_way) {
  bench b(GetParam(), 16);
  b.pool.set("load", {0.1, 0.9, 0.1, 0.3, nan, 0.1});
  for (uint64_t seed = 0; seed < 100; ++seed) EXPECT_EQ(b.choose(seed), b.choose(seed));
}

TEST_P(strategies, never_take_the_most_loaded_of_several) {
  bench b(GetParam(), 6);
  b.pool.set("load", {0.2, 0.4, 0.1, 1.0, 0.3, 0.5});
  for (uint64_t seed = 0; seed < 2000; ++seed) EXPECT_NE(b.choose(seed), 3u);
}

TEST_P(strategies, still_choose_when_no_load_is_known_and_prefer_a_known_one) {
  bench b(GetParam(), 2);
  EXPECT_TRUE(b.choose(0).has_value()) << "nobody publishes the column";
  b.pool.set("load", {nan, nan});
  std::set<uint32_t> seen;
  for (uint64_t seed = 0; seed < 64; ++seed) seen.insert(b.choose(seed).value());
  EXPECT_EQ(seen.size(), 2u);
  b.pool.set("load", {nan, 0.9});
  for (uint64_t seed = 0; seed < 64; ++seed) EXPECT_EQ(b.choose(seed), 1u);
}

// Explain asks as well, and more often than requests come: a question must leave no trace.
TEST_P(strategies, learn_nothing_from_being_asked) {
  bench asked(GetParam(), 6), quiet(GetParam(), 6);
  std::vector<uint64_t> blocks{1, 2, 3, 4};
  const hive_str one = HIVE_STR("one"), two = HIVE_STR("two");
  for (bench *b : {&asked, &quiet}) {
    b->pool.set("load", {0.2, 0.1, 0.2, 0.3, 0.1, 0.2});
    b->pool.set("srtt_ms", {20, 40, 30, 20, 50, 10});
    b->pool.set("capacity", {8, 8, 8, 8, 8, 8});
    b->pool.set("active_requests", {2, 1, 2, 3, 1, 2});
  }
  for (uint64_t step = 0; step < 40; ++step) {
    hive_request r = check::sample_request(step);
    r.session = step % 3 == 0 ? one : two;
    r.prefix_blocks = blocks.data();
    r.prefix_block_count = step % 5;
    r.prompt_tokens = 100 * step;
    for (int i = 0; i < 7; ++i) asked.choose(r);
    const auto index = asked.choose(r);
    ASSERT_EQ(index, quiet.choose(r)) << step;
    asked.lease(r, *index);
    quiet.lease(r, *index);
  }
}

// Outcomes of agents that have left, of leases made before the instance was, twice, and with counts that cannot be.
TEST_P(strategies, bear_any_outcome) {
  bench b(GetParam(), 4);
  b.pool.set("load", {0.5, 0.5, 0.5, 0.5});
  uint64_t blocks[2] = {1, 2};
  for (uint64_t step = 0; step < 200; ++step) {
    hive_request r = check::sample_request(step);
    r.prefix_blocks = blocks;
    r.prefix_block_count = 2;
    const auto index = b.choose(r);
    ASSERT_TRUE(index.has_value()) << step;
    b.lease(r, *index);
    hive_outcome o{};
    o.struct_size = sizeof o;
    o.phase = step % 3 == 0 ? HIVE_PHASE_FIRST_TOKEN : HIVE_PHASE_END;
    o.index = step % 7 == 0 ? UINT32_MAX : step % 11 == 0 ? 900 : *index;
    o.agent_key = step % 5 == 0 ? 4711 : 1000 + *index;
    o.status = step % 4 == 0 ? HIVE_E_TIMEOUT : HIVE_OK;
    o.since_lease_ns = step % 2 == 0 ? UINT64_MAX : 0;
    o.prompt_tokens = step % 6 == 0 ? HIVE_TOKENS_UNKNOWN : step % 13 == 0 ? 0 : uint64_t{1} << 40;
    o.output_tokens = step % 9 == 0 ? HIVE_TOKENS_UNKNOWN : step;
    o.cached_tokens = step % 10 == 0 ? HIVE_TOKENS_UNKNOWN : uint64_t{1} << 41;
    b.tell(o);
    b.tell(o);
  }
}

INSTANTIATE_TEST_SUITE_P(all, strategies,
                         testing::Values("least-loaded", "power-of-two", "peak-ewma", "token-load", "prefix-affinity", "consistent-hash", "weighted-c"),
                         [](const auto &one) {
                           std::string name = one.param;
                           for (char &c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST(least_loaded, takes_the_least_and_turns_over_ties_in_order) {
  bench b("least-loaded", 5);
  b.pool.set("load", {0.25, 0.5, 0.25, 0.75, 0.25});
  std::vector<uint32_t> picks;
  for (uint64_t seed = 0; seed < 6; ++seed) picks.push_back(b.choose(seed).value());
  EXPECT_EQ(picks, (std::vector<uint32_t>{0, 2, 4, 0, 2, 4}));
}

TEST(power_of_two, follows_the_load_and_its_seed) {
  bench b("power-of-two", 10), other("power-of-two", 10, R"({"seed": 7})");
  std::vector<double> load(10, 1.0);
  load[4] = 0;
  b.pool.set("load", load);
  other.pool.set("load", load);
  int idle = 0, same = 0;
  for (uint64_t seed = 0; seed < 10000; ++seed) {
    idle += b.choose(seed) == 4u;
    same += b.choose(seed) == other.choose(seed);
  }
  EXPECT_NEAR(idle, 2000, 200) << "an agent is among two of ten draws in one of five";
  EXPECT_LT(same, 5000);
}

TEST(weighted_c, adds_latency_to_the_load) {
  bench b("weighted-c", 3, R"({"weight": 2})");
  b.pool.set("load", {0.1, 0.5, 0.3});
  b.pool.set("srtt_ms", {400, 50, nan});
  EXPECT_EQ(b.choose(0), 2u);
  b.pool.eligible(2, false);
  EXPECT_EQ(b.choose(0), 1u);
}

}  // namespace
}  // namespace hive::conformance
