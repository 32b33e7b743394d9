#include "fleet/recent_outcomes.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "fleet/registry.hpp"

namespace hive::fleet {
namespace {

constexpr uint64_t start = 1000 * ns_per_s;
constexpr uint64_t minute = 60 * ns_per_s;

TEST(recent_outcomes, without_attempts_there_is_no_rate) {
  recent_outcomes r;
  EXPECT_FALSE(r.rate(0));
  EXPECT_FALSE(r.rate(start));
}

TEST(recent_outcomes, is_the_share_of_what_was_answered) {
  recent_outcomes r;
  for (int i = 0; i < 3; ++i) r.add(true, start + static_cast<uint64_t>(i) * minute);
  r.add(false, start + 3 * minute);
  EXPECT_DOUBLE_EQ(*r.rate(start + 3 * minute), 0.75);
}

// A lifetime rate of 10,000 : 100 is 0.99 and hides it.
TEST(recent_outcomes, old_successes_do_not_hide_an_outage) {
  recent_outcomes r;
  for (int i = 0; i < 10'000; ++i) r.add(true, start);
  for (int i = 0; i < 100; ++i) r.add(false, start + 6 * minute);
  EXPECT_DOUBLE_EQ(*r.rate(start + 6 * minute), 0.0);
}

// A decaying mean would say 0 for ever.
TEST(recent_outcomes, an_outage_is_forgotten_after_five_minutes_without_any_new_attempt) {
  recent_outcomes r;
  for (int i = 0; i < 100; ++i) r.add(false, start);
  EXPECT_DOUBLE_EQ(*r.rate(start + 4 * minute + 29 * ns_per_s), 0.0) << "at least four and a half minutes count";
  EXPECT_FALSE(r.rate(start + 5 * minute));
  r.add(true, start + 5 * minute);
  EXPECT_DOUBLE_EQ(*r.rate(start + 5 * minute), 1.0);
}

TEST(recent_outcomes, a_late_thread_changes_nothing_of_a_bucket_used_again) {
  recent_outcomes r;
  r.add(true, start + 5 * minute);
  r.add(false, start);
  EXPECT_DOUBLE_EQ(*r.rate(start + 5 * minute), 1.0);
}

struct no_links final : link_control {
  void probe(uint32_t, std::string, std::function<void(bool)> reply) override { reply(false); }
  void kick_link(link::link_id, std::string, std::string, uint64_t, bool) override {}
};

class recent_column : public ::testing::Test {
 protected:
  void SetUp() override {
    link::auth_request r;
    r.peer_id = "A";
    r.boot_id = 1;
    r.link = {0, 1};
    r.metadata = R"({"models":["m"],"capacity":2,"version":"1","engine":"vllm","region":"eu","organization":"org"})";
    reg_.authenticate(std::move(r), [](link::auth_decision d) { ASSERT_EQ(d.what, link::auth_decision::kind::welcome); });
  }
  void attempt(bool success) {
    const auto who = reg_.find("A");
    outcome_record o;
    o.generation = who->generation();
    o.success = success;
    reg_.record_outcome(*who, o);
  }
  void pass(uint64_t ns) {
    clock_.advance(ns);
    reg_.heartbeat("A", true, "");
    reg_.tick();
  }
  double value(const char *name) {
    const auto pool = reg_.find_pool("m");
    const std::lock_guard lock(pool->mutex());
    return pool->value(reg_.columns().find(name), 0);
  }
  manual_clock clock_{start};
  no_links links_;
  registry reg_{{}, clock_, links_, nullptr, nullptr, nullptr};
};

TEST_F(recent_column, is_written_with_each_outcome_and_goes_missing_by_the_sweep) {
  EXPECT_TRUE(std::isnan(value("success_rate_5m")));
  attempt(true);
  attempt(false);
  EXPECT_DOUBLE_EQ(value("success_rate_5m"), 0.5);
  EXPECT_DOUBLE_EQ(value("success_rate"), 0.5);
  pass(5 * minute);
  EXPECT_TRUE(std::isnan(value("success_rate_5m")));
  EXPECT_DOUBLE_EQ(value("success_rate"), 0.5) << "a lifetime rate stays";
}

TEST_F(recent_column, an_agent_may_not_publish_what_the_router_measures) {
  reg_.signals("A", {{"success_rate_5m", 1.0, 0}}, "");
  EXPECT_TRUE(std::isnan(value("success_rate_5m")));
  EXPECT_EQ(reg_.stats().refused_signal_names, 1u);
}

// What waits for the agent is told when it comes back by time alone.
TEST_F(recent_column, its_going_missing_rechecks_who_waits) {
  struct watcher final : pool_watcher {
    void on_more_slots() override {}
    void on_standing_changed() override { ++changes; }
    bool settle() override { return false; }
    bool reads(hive_column id, bool) const override { return id == column; }
    hive_column column = 0;
    int changes = 0;
  } w;
  attempt(false);
  w.column = reg_.columns().find("success_rate_5m");
  const auto pool = reg_.find_pool("m");
  {
    const std::lock_guard lock(pool->mutex());
    pool->set_watcher(&w);
  }
  pass(4 * minute);
  EXPECT_EQ(w.changes, 0);
  pass(minute);
  EXPECT_EQ(w.changes, 1);
  const std::lock_guard lock(pool->mutex());
  pool->set_watcher(nullptr);
}

}  // namespace
}  // namespace hive::fleet
