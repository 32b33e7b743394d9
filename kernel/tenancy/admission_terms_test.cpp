// What a policy and a fleet come to for one request: replicas and pressure as they are now.
#include "tenancy/admission_terms.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "routing/session_bed.hpp"

namespace hive::tenancy {
namespace {

struct terms : routing::testing::sessions {
  uint64_t at = now_ns();
  // Later than any verdict that was kept.
  admission_terms read(const std::string &model = "qwen") {
    at += routing::pressure::keep_ns;
    return terms_of(*router_->policies(), model, at);
  }
  void signals(double kv, double waiting) {
    fleet_.signal(*pool_, "a", "kv_cache_utilization", kv);
    fleet_.signal(*pool_, "a", "waiting_requests", waiting);
  }
};

constexpr double none = std::numeric_limits<double>::quiet_NaN();

TEST_F(terms, limits_are_the_policys_and_replicas_are_healthy_agents) {
  start("mode: serverless\nmax_input_tokens: 10\nimages_max: 2\nadmit_budget_tokens: 50\nmax_inflight: 3\n"
        "routing_policy: {strategy: least-loaded}");
  EXPECT_EQ(read().replicas, 1u) << "without agents the limits of one";
  fleet_.add(pool_, "a", 1);
  fleet_.add(pool_, "b", 1);
  admission_terms t = read();
  EXPECT_EQ(t.max_input_tokens, 10u);
  EXPECT_EQ(t.images_max, 2u);
  EXPECT_EQ(t.budget_tokens, 50u);
  EXPECT_EQ(t.max_inflight, 3u);
  EXPECT_EQ(t.replicas, 2u);
  EXPECT_TRUE(t.serverless);
  EXPECT_TRUE(t.known);
  fleet_.set_standing(*pool_, "b", fleet::standing_engine_down);
  EXPECT_EQ(read().replicas, 1u);
  fleet_.add(pool_, "c", 1);
  EXPECT_EQ(read().replicas, 2u);
  pool_->leave(*fleet_.agents["c"]);
  EXPECT_EQ(read().replicas, 1u);
  fleet_.set_standing(*pool_, "b", 0);
  EXPECT_EQ(read().replicas, 2u) << "an agent that comes back counts once";
  t = read("nobody");
  EXPECT_FALSE(t.known);
  EXPECT_EQ(t.budget_tokens, 50u) << "the global policy holds for unknown models too";
  EXPECT_EQ(t.replicas, 1u);
}

// Any name goes to the global document's provider: without `known` a key's limits would not hold there, with a count of its own for
// each name they would hold for nobody.
TEST_F(terms, names_that_only_the_global_provider_serves_are_limited_as_one) {
  start("mode: serverless\nadmit_budget_tokens: 50\nrouting_policy: {strategy: least-loaded}\nfallback_provider: {engine: openai, model: m}");
  for (const char *name : {"made-up", "another"}) {
    EXPECT_TRUE(read(name).known);
    EXPECT_EQ(read(name).counted_as, "provider:openai");
  }
  EXPECT_EQ(read().counted_as, "") << "a model with a pool counts by its name";
  EXPECT_EQ(read("provider:openai").counted_as, "provider:openai") << "as whoever reviews those that park asks";
}

// A provider may serve it without any agent: the limits of keys count there.
TEST_F(terms, a_model_that_a_document_names_is_known_without_agents) {
  start("routing_policy: {strategy: least-loaded}");
  const auto d = routing::parse_policy("models: [paid]\nmode: serverless\nrouting_policy: {strategy: least-loaded}", source_, {"p", "paid", false, true});
  ASSERT_TRUE(d) << d.why().text();
  auto named = *d->document;
  named.name = "paid";
  ASSERT_TRUE(router_->set_policies(routing::default_policy(), {{"paid", std::make_shared<routing::policy_document>(named)}}).ok());
  EXPECT_TRUE(read("paid").known);
  EXPECT_TRUE(read("paid").serverless);
  EXPECT_FALSE(read("nobody").known);
}

TEST_F(terms, pressure_is_any_violated_mean_and_missing_passes) {
  start("shed_if: {kv_cache_utilization: {gt: 0.90}, waiting_requests: {gt: 20}}\n"
        "routing_policy: {strategy: least-loaded, exclude_if: {kv_cache_utilization: {gt: 0.10}}}");
  fleet_.add(pool_, "a", 1);
  EXPECT_EQ(read().pressed, "") << "nobody reports";
  struct { double kv, waiting; const char *want; } cases[] = {{0.91, 0, "kv_cache_utilization gt 0.9"}, {0.5, 21, "waiting_requests gt 20"},
                                                              {0.5, 5, ""}, {none, 21, "waiting_requests gt 20"}, {none, none, ""}};
  for (const auto &c : cases) {
    signals(c.kv, c.waiting);
    EXPECT_EQ(read().pressed, c.want) << c.kv << " " << c.waiting;
  }
}

TEST_F(terms, without_shed_if_nothing_is_shed) {
  start(routing::testing::plain);
  fleet_.add(pool_, "a", 1);
  signals(0.99, 100);
  EXPECT_EQ(read().pressed, "");
}

TEST_F(terms, means_are_over_the_healthy_agents_that_report) {
  start(routing::testing::plain);
  const hive_column kv = fleet_.columns.intern("kv_cache_utilization"), waiting = fleet_.columns.intern("waiting_requests");
  const auto mean = [&](hive_column id) {
    const std::lock_guard lock(pool_->mutex());
    return routing::mean_signal(*pool_, id);
  };
  EXPECT_FALSE(mean(kv));
  for (const char *name : {"a", "b", "c", "sick"}) fleet_.add(pool_, name, 1);
  EXPECT_FALSE(mean(kv));
  fleet_.signal(*pool_, "a", "kv_cache_utilization", 0.8);
  fleet_.signal(*pool_, "b", "kv_cache_utilization", 0.9);
  fleet_.signal(*pool_, "c", "kv_cache_utilization", 0.7);
  fleet_.signal(*pool_, "a", "waiting_requests", 10);
  fleet_.signal(*pool_, "c", "waiting_requests", 30);
  fleet_.signal(*pool_, "sick", "waiting_requests", 1000);
  fleet_.set_standing(*pool_, "sick", fleet::standing_engine_down);
  EXPECT_NEAR(*mean(kv), 0.80, 1e-12);
  EXPECT_NEAR(*mean(waiting), 20, 1e-12);
}

TEST_F(terms, a_value_that_has_gone_stale_is_missing) {
  start("shed_if: {waiting_requests: {gt: 20}}\nrouting_policy: {strategy: least-loaded}");
  fleet::agent &a = fleet_.add(pool_, "a", 1);
  const uint64_t sampled = now_ns();
  pool_->write(a, fleet_.columns.intern("waiting_requests"), 21, sampled, 10 * ns_per_s);
  EXPECT_NE(read().pressed, "");
  pool_->sweep(sampled + 11 * ns_per_s);
  EXPECT_EQ(read().pressed, "");
}

// A flood of requests reads the signals ten times a second, not each.
TEST_F(terms, a_verdict_is_kept_for_a_moment) {
  start("shed_if: {waiting_requests: {gt: 20}}\nrouting_policy: {strategy: least-loaded}");
  fleet_.add(pool_, "a", 1);
  fleet_.signal(*pool_, "a", "waiting_requests", 21);
  ASSERT_NE(read().pressed, "");
  fleet_.signal(*pool_, "a", "waiting_requests", 0);
  EXPECT_NE(terms_of(*router_->policies(), "qwen", at + routing::pressure::keep_ns - 1).pressed, "");
  EXPECT_EQ(terms_of(*router_->policies(), "qwen", at + routing::pressure::keep_ns).pressed, "");
}

}  // namespace
}  // namespace hive::tenancy
