#include "fleet/history.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <future>

#include "fleet/map_store.hpp"
#include "fleet/registry.hpp"

namespace hive::fleet {
namespace {

struct no_control final : link_control {
  void probe(uint32_t, std::string, std::function<void(bool)> reply) override { reply(false); }
  void kick_link(link::link_id, std::string, std::string, uint64_t, bool) override {}
};

class history_of_an_agent : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(storage.open().ok()); }
  void TearDown() override { storage.stop(); }
  void connect(uint64_t boot = 1) {
    link::auth_request r;
    r.peer_id = "A";
    r.boot_id = boot;
    r.link = {0, boot};
    r.metadata = R"({"model":"m","capacity":2,"version":"1","engine":"vllm","region":"eu","organization":"org"})";
    std::promise<link::auth_decision> answer;
    reg.authenticate(std::move(r), [&](link::auth_decision d) { answer.set_value(std::move(d)); });
    ASSERT_EQ(answer.get_future().get().what, link::auth_decision::kind::welcome);
  }
  void settle() {  // all storage jobs posted so far are done
    std::promise<void> done;
    ASSERT_TRUE(storage.post([&](storage_client &) { done.set_value(); }));
    done.get_future().get();
  }
  void outcome(bool success, double rtt, uint64_t in = 0, uint64_t out = 0) {
    const auto a = reg.find("A");
    reg.record_outcome(*a, {.generation = a->generation(), .success = success, .rtt_ms = rtt, .input_tokens = in, .output_tokens = out,
                            .request_id = {}, .kind = request_kind::chat});
  }
  void flush() {
    reg.flush_history();
    settle();
  }
  history_record stored() {
    std::lock_guard lock(store.mutex);
    return parse_history(store.records.at("universalHistory:A").first).value();
  }

  map_store store;
  manual_clock clock;
  no_control links;
  storage_thread storage{{&map_store::table, &store}};
  history h{storage, clock, {}};
  registry reg{{}, clock, links, &h, nullptr, nullptr};
};

TEST_F(history_of_an_agent, a_known_agent_starts_where_it_was) {
  store.records["universalHistory:A"] = {R"({"successful_requests":1000,"failed_requests":100,"success_rate":0.909,"srtt_ms":42,"rttvar_ms":5})", 0};
  connect();
  const auto a = reg.find("A");
  EXPECT_EQ(a->counters.successful, 1000u);
  EXPECT_EQ(a->latency.value()->srtt_ms, 42);
  EXPECT_EQ(a->counters.streak, 0u);
  {
    const auto p = reg.find_pool("m");
    std::lock_guard lock(p->mutex());
    EXPECT_EQ(p->value(reg.kernel().srtt_ms, 0), 42);
    for (const request_kind kind : all_kinds) {
      const hive_pool v = p->view(kind);
      EXPECT_EQ(hive_column_at(&v, reg.kernel().srtt_ms)[0], 42);
    }
  }
  outcome(true, 10);
  EXPECT_EQ(a->counters.successful, 1001u);
  EXPECT_EQ(a->counters.failed, 100u);
  EXPECT_EQ(a->latency.value()->srtt_ms, 26);
  flush();
  EXPECT_EQ(stored().successful, 1001u);
  EXPECT_EQ(stored().latency->srtt_ms, 26);
}

TEST_F(history_of_an_agent, a_flush_stores_what_happened_with_its_expiry) {
  connect();
  outcome(true, 30, 1, 2);
  outcome(true, 30, 1, 2);
  flush();
  const history_record r = stored();
  EXPECT_EQ(r.successful, 2u);
  EXPECT_EQ(r.input_tokens, 2u);
  EXPECT_EQ(r.output_tokens, 4u);
  EXPECT_EQ(r.latency->srtt_ms, 30);
  EXPECT_EQ(store.records["universalHistory:A"].second, clock.wall_ms() + 30ull * 24 * 3600 * 1000);
  flush();
  EXPECT_EQ(store.writes, 1);                           // nothing changed
  clock.advance(31 * ns_per_s);
  outcome(false, 0);
  reg.heartbeat("A", true, "");
  reg.tick();
  settle();
  EXPECT_EQ(stored().failed, 1u);
}

TEST_F(history_of_an_agent, without_a_lifetime_a_record_never_expires) {
  history_settings forever;
  forever.ttl_ms = 0;
  history kept{storage, clock, forever};
  connect();
  outcome(true, 30);
  kept.flush({reg.find("A")});
  settle();
  EXPECT_EQ(store.records.at("universalHistory:A").second, 0u) << "0 is what the storage contract calls never";
}

TEST_F(history_of_an_agent, leaving_flushes_and_coming_back_restores) {
  connect();
  outcome(true, 195);
  reg.goodbye("A");
  settle();
  EXPECT_EQ(stored().successful, 1u);
  connect(2);
  outcome(true, 190);
  EXPECT_EQ(reg.find("A")->latency.value()->srtt_ms, 192.5);
  EXPECT_EQ(reg.find("A")->counters.successful, 2u);
}

TEST_F(history_of_an_agent, losing_the_link_flushes_and_reconnecting_reads_nothing_back) {
  connect();
  outcome(true, 20);
  reg.link_lost({0, 1}, "");
  settle();
  EXPECT_EQ(stored().successful, 1u);
  outcome(false, 20);
  connect(2);
  EXPECT_EQ(reg.find("A")->counters.successful, 1u);
  EXPECT_EQ(reg.find("A")->counters.failed, 1u);
  EXPECT_EQ(reg.find("A")->counters.streak, 1u);
}

TEST_F(history_of_an_agent, a_reset_zeroes_memory_and_store) {
  connect();
  outcome(true, 10);
  outcome(true, 10);
  outcome(false, 10);
  store.records["universalHistory:gone"] = {"{}", 0};
  store.records["other"] = {"x", 0};
  flush();
  const uint64_t online = reg.find("A")->online_since_unix_ms;
  std::promise<status> answer;
  reg.reset_counters([&](status s) { answer.set_value(std::move(s)); });
  ASSERT_TRUE(answer.get_future().get().ok());
  const auto a = reg.find("A");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->counters.successful + a->counters.failed + a->counters.streak, 0u);
  EXPECT_FALSE(a->latency.value());
  EXPECT_EQ(a->online_since_unix_ms, online);
  EXPECT_EQ(store.records.size(), 1u);
  flush();
  EXPECT_EQ(store.records.size(), 1u);                  // old totals do not come back
}

struct column_reader final : pool_watcher {
  explicit column_reader(hive_column c) : column(c) {}
  void on_more_slots() override {}
  void on_standing_changed() override { ++rechecks; }
  bool settle() override { return false; }
  bool reads(hive_column id, bool) const override { return id == column; }
  const hive_column column;
  int rechecks = 0;
};

TEST_F(history_of_an_agent, a_reset_rechecks_those_who_wait_by_what_it_zeroes) {
  connect();
  const auto pool_of_a = reg.find_pool("m");
  const auto watch = [&](pool_watcher *w) {
    const std::lock_guard lock(pool_of_a->mutex());
    pool_of_a->set_watcher(w);
  };
  for (const hive_column column : {reg.kernel().consecutive_failures, reg.kernel().srtt_ms}) {
    outcome(false, 10);
    clock.advance(ns_per_s);
    column_reader waits(column);
    watch(&waits);
    std::promise<status> answer;
    reg.reset_counters([&](status s) { answer.set_value(std::move(s)); });
    ASSERT_TRUE(answer.get_future().get().ok());
    watch(nullptr);
    EXPECT_EQ(waits.rechecks, 1) << column;
  }
}

TEST_F(history_of_an_agent, a_reset_the_store_refuses_changes_nothing) {
  connect();
  outcome(true, 10);
  flush();
  store.fail_writes = true;
  std::promise<status> answer;
  reg.reset_counters([&](status s) { answer.set_value(std::move(s)); });
  const status s = answer.get_future().get();
  EXPECT_EQ(s.code(), errc::exhausted);
  EXPECT_EQ(s.message(), "disk full");
  EXPECT_EQ(reg.find("A")->counters.successful, 1u);
}

TEST_F(history_of_an_agent, a_failed_write_is_made_up_for_later) {
  connect();
  outcome(true, 10);
  store.fail_writes = true;
  flush();
  EXPECT_EQ(h.stats().write_errors, 1u);
  store.fail_writes = false;
  flush();
  EXPECT_EQ(stored().successful, 1u);
}

TEST_F(history_of_an_agent, a_record_that_could_not_be_read_is_merged_not_overwritten) {
  store.records["universalHistory:A"] = {R"({"successful_requests":50,"srtt_ms":42,"rttvar_ms":5})", 0};
  store.fail_reads = true;
  connect();
  outcome(true, 10);
  flush();
  EXPECT_EQ(stored().successful, 50u);
  store.fail_reads = false;
  flush();
  EXPECT_EQ(stored().successful, 51u);
  EXPECT_EQ(stored().latency->srtt_ms, 10);             // the live value is newer
}

TEST_F(history_of_an_agent, what_is_not_a_record_counts_as_none) {
  for (const char *bad : {"", "[]", "{\"successful_requests\":-1}", "{\"successful_requests\":\"x\"}"}) EXPECT_FALSE(parse_history(bad)) << bad;
  store.records["universalHistory:A"] = {"garbage", 0};
  connect();
  EXPECT_EQ(h.stats().corrupt, 1u);
  EXPECT_EQ(reg.find("A")->counters.successful, 0u);
}

TEST(storage_thread, counts_sweeps_that_fail_and_goes_on) {
  map_store store;
  static int sweeps;                                    // of the storage's thread until `fourth` is told
  static std::promise<void> fourth;
  sweeps = 0;
  fourth = {};
  hive_storage_vtable table = map_store::table;
  table.sweep = [](void *, uint64_t) noexcept -> hive_status {
    if (++sweeps == 4) fourth.set_value();
    return sweeps == 2 ? HIVE_E_EXHAUSTED : HIVE_OK;
  };
  storage_thread t({&table, &store}, 4, ns_per_ms);
  ASSERT_TRUE(t.open().ok());
  EXPECT_EQ(fourth.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  t.stop();
  EXPECT_EQ(t.failed_sweeps(), 1u);
  EXPECT_EQ(t.sweep_failure(), errc::exhausted);
}

TEST(storage_thread, runs_what_was_posted_before_it_stops_and_is_bounded) {
  map_store store;
  storage_thread t({&map_store::table, &store}, 4);
  EXPECT_FALSE(t.post([](storage_client &) {}));        // not open yet
  ASSERT_TRUE(t.open().ok());
  std::promise<void> hold;
  std::shared_future<void> held = hold.get_future().share();
  std::promise<void> started;
  t.post([&](storage_client &) { started.set_value(), held.wait(); });
  started.get_future().wait();
  int ran = 0;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(t.post([&](storage_client &) { ++ran; }));
  EXPECT_FALSE(t.post([&](storage_client &) { ++ran; }));
  EXPECT_EQ(t.dropped(), 2u);
  hold.set_value();
  t.stop();
  EXPECT_EQ(ran, 4);
  EXPECT_TRUE(store.closed);
}

}  // namespace
}  // namespace hive::fleet
