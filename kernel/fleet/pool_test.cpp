#include "fleet/pool.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <thread>

#include "fleet/lease.hpp"
#include "fleet/registry.hpp"

namespace hive::fleet {
namespace {

struct control final : link_control {
  void probe(uint32_t, std::string, std::function<void(bool)> reply) override { reply(false); }
  void kick_link(link::link_id, std::string, std::string, uint64_t, bool) override {}
};

struct house {
  void add(const std::string &name, uint32_t capacity, const std::string &models = "\"m\"") {
    link::auth_request r;
    r.peer_id = name;
    r.boot_id = 1;
    r.link = {0, ++peers};
    r.metadata = "{\"models\":[" + models + "],\"capacity\":" + std::to_string(capacity) +
                 R"(,"version":"1","engine":"vllm","region":"eu","organization":"org","tags":["a","b"]})";
    reg.authenticate(std::move(r), [](link::auth_decision d) { ASSERT_EQ(d.what, link::auth_decision::kind::welcome); });
  }
  double value(const std::string &agent, const char *column, const char *model = "m") {
    const auto p = reg.find_pool(model);
    const auto who = reg.find(agent);  // before the pool's lock: the registry's comes first
    std::lock_guard lock(p->mutex());
    const auto index = p->index_of(*who);
    return index ? p->value(reg.columns().find(column), *index) : -1;
  }
  manual_clock clock{1000 * ns_per_s};
  control links;
  registry reg{{}, clock, links, nullptr, nullptr, nullptr};
  uint64_t peers = 0;
};

TEST(slot_word, never_gives_more_than_the_capacity_and_survives_its_change) {
  slot_word w(2);
  EXPECT_TRUE(w.try_take());
  EXPECT_TRUE(w.try_take());
  EXPECT_FALSE(w.try_take());
  w.set_capacity(1);
  w.give_back();
  EXPECT_FALSE(w.try_take());
  w.set_capacity(3);
  EXPECT_TRUE(w.try_take());
  EXPECT_EQ(w.load(), (std::pair<uint32_t, uint32_t>{2, 3}));
}

TEST(slot_word, concurrent_takes_stay_within_the_capacity) {
  slot_word w(3);
  std::atomic<int> inside{0}, most{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) {
        if (!w.try_take()) continue;
        const int now = ++inside;
        int seen = most;
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        --inside;
        w.give_back();
      }
    });
  }
  for (auto &t : threads) t.join();
  EXPECT_LE(most, 3);
  EXPECT_EQ(w.load().first, 0u);
}

TEST(pool, an_agent_keeps_its_index_and_an_empty_slot_is_used_again) {
  house h;
  for (int i = 0; i < 40; ++i) h.add("A" + std::to_string(i), 1);
  const auto p = h.reg.find_pool("m");
  h.reg.goodbye("A7");
  const uint64_t epoch = p->epoch();
  {
    std::lock_guard lock(p->mutex());
    const hive_pool v = p->view();
    ASSERT_EQ(v.count, 40u);
    EXPECT_EQ(hive_agent_at(&v, 7)->agent_key, 0u);
    EXPECT_TRUE(std::isnan(hive_column_at(&v, h.reg.kernel().load)[7]));
    const hive_agent *nine = hive_agent_at(&v, 9);
    EXPECT_EQ(std::string(nine->peer_id.ptr, nine->peer_id.len), "A9");
    EXPECT_EQ(nine->agent_key, key_of("A9"));
    EXPECT_EQ(std::string(nine->model.ptr, nine->model.len), "m");
    EXPECT_EQ(nine->tag_count, 2u);
  }
  h.add("B", 2);
  EXPECT_GT(p->epoch(), epoch);
  const auto newcomer = h.reg.find("B");
  std::lock_guard lock(p->mutex());
  EXPECT_EQ(p->count(), 40u);
  EXPECT_EQ(p->index_of(*newcomer), 7u);
  EXPECT_EQ(p->free_slots(), 41u);
}

TEST(pool, kernel_columns_follow_leases_and_share_load_with_utilization) {
  house h;
  h.add("A", 4);
  const auto p = h.reg.find_pool("m");
  EXPECT_EQ(h.value("A", "active_requests"), 0);
  EXPECT_EQ(h.value("A", "capacity"), 4);
  EXPECT_TRUE(std::isnan(h.value("A", "srtt_ms")));
  EXPECT_TRUE(std::isnan(h.value("A", "success_rate")));
  EXPECT_TRUE(std::isnan(h.value("A", "consecutive_failures")));
  auto take = [&](uint64_t tokens) {
    {
      pool_section section(*p);
      EXPECT_TRUE(p->take(0, tokens));
      EXPECT_GE(p->value(h.reg.kernel().active_tokens, 0), static_cast<double>(tokens)) << "with the slot: whoever chooses next sees both";
    }
    const auto who = h.reg.find("A");
    return lease(who, who->info(), p, tokens);
  };
  lease one = take(0), two = take(700), three = take(50);
  EXPECT_EQ(h.value("A", "active_tokens"), 750);
  lease moved(std::move(three));
  moved.reset();
  EXPECT_EQ(h.value("A", "load"), 0.5);
  EXPECT_EQ(h.value("A", "active_tokens"), 700);
  std::lock_guard lock(p->mutex());
  const hive_pool v = p->view();
  EXPECT_EQ(hive_column_at(&v, h.reg.columns().find("load")), hive_column_at(&v, h.reg.columns().find("capacity_utilization")));
  EXPECT_EQ(v.sampled_ns[h.reg.kernel().load], nullptr);
  EXPECT_EQ(hive_column_at(&v, 0), nullptr);
}

TEST(pool, a_lease_is_returned_once_however_it_is_moved) {
  house h;
  h.add("A", 2, "\"m\",\"n\"");
  const auto p = h.reg.find_pool("m");
  const auto who = h.reg.find("A");
  {
    pool_section section(*p);
    ASSERT_TRUE(p->take(0));
  }
  lease a(who, who->info(), p);
  EXPECT_EQ(h.value("A", "active_requests", "n"), 1);
  lease b(std::move(a));
  a.reset();
  EXPECT_EQ(who->slots.load().first, 1u);
  lease c;
  c = std::move(b);
  c.reset();
  c.reset();
  EXPECT_EQ(who->slots.load().first, 0u);
  EXPECT_EQ(h.value("A", "active_requests", "n"), 0);
  EXPECT_EQ(h.value("A", "active_requests", "m"), 0);
}

TEST(pool, a_full_agent_cannot_be_taken_and_its_row_says_so) {
  house h;
  h.add("A", 1, "\"m\",\"n\"");
  const auto m = h.reg.find_pool("m"), n = h.reg.find_pool("n");
  const auto who = h.reg.find("A");
  {
    pool_section section(*m);
    ASSERT_TRUE(m->take(0));                            // n has not heard of it yet
  }
  pool_section section(*n);
  EXPECT_EQ(n->free_slots(), 1u);
  EXPECT_FALSE(n->take(0));
  EXPECT_EQ(n->free_slots(), 0u);
  EXPECT_EQ(who->counters.rejected, 1u);
  who->slots.give_back();
}

TEST(pool, signals_become_columns_and_expire) {
  house h;
  h.add("A", 1);
  h.reg.signals("A", {{"kv_cache_utilization", 0.5, 2000}, {"bad name", 1, 0}, {"srtt_ms", 1, 0}, {"nan", NAN, 0}}, R"({"gpu":[]})");
  EXPECT_EQ(h.value("A", "kv_cache_utilization"), 0.5);
  EXPECT_TRUE(std::isnan(h.value("A", "srtt_ms")));
  EXPECT_EQ(h.reg.stats().refused_signal_names, 2u);
  EXPECT_EQ(*h.reg.find("A")->structured(), R"({"gpu":[]})");
  h.reg.signals("A", {{"old", 1, 60'000}}, "");
  EXPECT_TRUE(std::isnan(h.value("A", "old")));
  h.clock.advance(7 * ns_per_s);
  h.reg.tick();
  EXPECT_EQ(h.value("A", "kv_cache_utilization"), 0.5);
  h.clock.advance(ns_per_s);
  h.reg.tick();
  EXPECT_TRUE(std::isnan(h.value("A", "kv_cache_utilization")));
}

TEST(pool, signal_names_are_bounded_an_agent_and_a_router) {
  house h;
  for (int a = 0; a < 6; ++a) {
    const std::string name = "A" + std::to_string(a);
    h.add(name, 1);
    std::vector<std::string> names;
    for (int i = 0; i < 70; ++i) names.push_back("s" + std::to_string(a) + "_" + std::to_string(i));
    std::vector<link::signal_value> values;
    for (const std::string &n : names) values.push_back({n, 1, 0});
    h.reg.signals(name, values, "");
    EXPECT_EQ(h.value(name, names[63].c_str()) == 1, a < 3);
    EXPECT_EQ(h.reg.columns().find(names[64]), 0u);
  }
  EXPECT_EQ(h.reg.columns().size(), column_table::limit);
  EXPECT_EQ(h.reg.stats().refused_signal_names, 6u * 70 - (column_table::limit - 10));
}

TEST(pool, outcomes_write_rate_streak_and_latency) {
  house h;
  h.add("A", 1);
  const auto a = h.reg.find("A");
  outcome_record ok{.generation = a->generation(), .success = true, .rtt_ms = 10, .input_tokens = 5, .output_tokens = 7,
                    .request_id = {}, .kind = request_kind::chat};
  for (int i = 0; i < 3; ++i) h.reg.record_outcome(*a, ok);
  outcome_record bad = ok;
  bad.success = false;
  bad.rtt_ms = 0;
  h.reg.record_outcome(*a, bad);
  EXPECT_EQ(h.value("A", "success_rate"), 0.75);
  EXPECT_EQ(h.value("A", "consecutive_failures"), 1);
  EXPECT_EQ(h.value("A", "srtt_ms"), 10);
  EXPECT_EQ(a->counters.successful, 3u);
  EXPECT_EQ(a->counters.input_tokens, 15u);
  EXPECT_EQ(a->counters.output_tokens, 21u);
  h.reg.record_outcome(*a, ok);
  EXPECT_EQ(h.value("A", "consecutive_failures"), 0);
}

// Naive variants: the tables of the kinds keep the arrays of a smaller pool, or those of an agent that has left.
TEST(pool, a_view_of_one_kind_has_its_latency_and_everything_else_in_common) {
  house h;
  h.add("A", 1);
  const auto p = h.reg.find_pool("m");
  const auto sample = [&](const char *name, double ms, request_kind kind) {
    const auto who = h.reg.find(name);
    outcome_record one;
    one.generation = who->generation();
    one.rtt_ms = ms;
    one.kind = kind;
    h.reg.record_sample(*who, one);
  };
  const auto seen = [&](request_kind kind, hive_column id, uint32_t index) {
    std::lock_guard lock(p->mutex());
    const hive_pool v = p->view(kind);
    return hive_column_at(&v, id)[index];
  };
  const kernel_columns &k = h.reg.kernel();
  EXPECT_TRUE(std::isnan(seen(request_kind::chat, k.srtt_ms, 0)));
  sample("A", 400, request_kind::stream);
  sample("A", 4000, request_kind::chat);
  for (int i = 0; i < 40; ++i) h.add("B" + std::to_string(i), 1);
  h.reg.signals("A", {{"heat", 60, 0}}, "");
  EXPECT_EQ(seen(request_kind::stream, k.srtt_ms, 0), 400);
  EXPECT_EQ(seen(request_kind::stream, k.rttvar_ms, 0), 200);
  EXPECT_EQ(seen(request_kind::chat, k.srtt_ms, 0), 4000);
  EXPECT_EQ(seen(request_kind::chat, k.rttvar_ms, 0), 2000);
  EXPECT_EQ(seen(request_kind::other, k.srtt_ms, 0), 850) << "the blended one";
  EXPECT_EQ(h.value("A", "srtt_ms"), 850);
  EXPECT_EQ(seen(request_kind::other, h.reg.columns().find("heat"), 0), 60);
  {
    std::lock_guard lock(p->mutex());
    const hive_pool all = p->view();
    for (const request_kind kind : all_kinds) {
      const hive_pool one = p->view(kind);
      ASSERT_EQ(one.column_count, all.column_count);
      for (hive_column id = 0; id < all.column_count; ++id) EXPECT_EQ(one.columns[id] != all.columns[id], p->varies_by_kind(id)) << id;
    }
  }
  sample("B39", 7, request_kind::other);
  EXPECT_EQ(seen(request_kind::other, k.srtt_ms, 40), 7);
  h.reg.goodbye("A");
  for (const request_kind kind : all_kinds) EXPECT_TRUE(std::isnan(seen(kind, k.srtt_ms, 0)));
}

}  // namespace
}  // namespace hive::fleet
