#include "routing/queue.hpp"

#include "routing/queue_bed.hpp"

namespace hive::routing {
namespace {

using testing::bed;
using testing::request;
using state = request::state;

// Every schedule of docs/waiting.md runs with each way to order tickets and each order of arrival.
struct way {
  const char *name;
  bool fairness;
  bool many_tenants;
  bool newest_first;
};

class schedule : public ::testing::TestWithParam<way> {
 protected:
  schedule() : b(line_limits{.depth = 30, .bytes = 1 << 20, .tenant_fairness = GetParam().fairness}) {}
  std::unique_ptr<request> make(std::set<std::string> only = {}, std::string model = "m") {
    const std::string tenant = GetParam().many_tenants ? "tenant" + std::to_string(made++ % 3) : "";
    ticket_class c;
    c.tenant = tenant;
    return std::make_unique<request>(b, std::move(model), std::move(only), c);
  }
  std::unique_ptr<request> entered_one(std::set<std::string> only = {}, std::string model = "m") {
    auto r = make(std::move(only), std::move(model));
    r->enter();
    return r;
  }
  void deliver() {
    b.deliver_all(GetParam().newest_first);
    b.rows_match();
  }
  bed b;
  int made = 0;
};

INSTANTIATE_TEST_SUITE_P(queue, schedule,
                         ::testing::Values(way{"fifo", false, false, false}, way{"fifo_reversed", false, false, true},
                                           way{"one_tenant", true, false, false}, way{"one_tenant_reversed", true, false, true},
                                           way{"tenants", true, true, false}, way{"tenants_reversed", true, true, true}),
                         [](const auto &i) { return i.param.name; });

TEST_P(schedule, p1_two_releases_serve_two_requests) {
  b.add("A0", 1);
  b.add("A1", 1);
  auto t0 = entered_one(), t1 = entered_one(), t2 = entered_one();
  ASSERT_EQ(t2->now, state::waiting);
  t0->finish();
  t1->finish();
  auto t3 = entered_one();
  deliver();
  EXPECT_EQ(t2->now, state::holding);
  EXPECT_EQ(t3->now, state::holding);
}

TEST_P(schedule, p2_an_agent_the_first_cannot_use_goes_to_the_one_behind) {
  b.add("A0", 1);
  b.add("A1", 1);
  auto t0 = entered_one({"A0"}), t1 = entered_one({"A0"});
  t0->finish();
  auto t2 = entered_one({"A1"});
  deliver();
  EXPECT_EQ(t1->agent(), "A0");
  EXPECT_EQ(t2->agent(), "A1");
}

TEST_P(schedule, p3_a_cancelled_wake_does_not_strand_the_slot) {
  b.add("A0", 1);
  b.add("A1", 1);
  auto x = entered_one({"A1"});
  auto t0 = entered_one(), t2 = entered_one();
  ASSERT_EQ(t0->agent(), "A0");
  t0->retry();
  EXPECT_EQ(t0->now, state::waiting);
  t2->cancel();
  auto t3 = entered_one();
  deliver();
  EXPECT_EQ(t3->agent(), "A0");
  EXPECT_EQ(t2->now, state::idle);
  EXPECT_EQ(t2->wakes, 0);
}

TEST_P(schedule, p4_a_newcomer_behind_a_woken_one_is_not_forgotten_when_the_agents_go) {
  b.add("A0", 1);
  b.add("A1", 1);
  auto x = entered_one({"A0"}), y = entered_one({"A1"}), t1 = entered_one();
  x->finish();
  b.vanish("A1");
  auto t2 = entered_one();
  deliver();
  ASSERT_EQ(t1->now == state::holding, t2->now == state::waiting);
  ASSERT_NE(t1->now, t2->now);
  b.vanish("A0");
  deliver();
  EXPECT_EQ((t1->now == state::holding ? t2 : t1)->now, state::advanced);
}

TEST_P(schedule, p5_removal_lets_every_ticket_advance) {
  b.add("A0", 1);
  b.add("A1", 1);
  auto t0 = entered_one(), x = entered_one();
  std::vector<std::unique_ptr<request>> waiting;
  for (int i = 0; i < 5; ++i) waiting.push_back(entered_one());
  b.vanish("A0");
  b.vanish("A1");
  deliver();
  for (auto &w : waiting) EXPECT_EQ(w->now, state::advanced);
}

TEST_P(schedule, p6_the_release_of_a_gated_agent_lets_its_ticket_advance) {
  b.add("A0", 1);
  auto t0 = entered_one(), t1 = entered_one();
  ASSERT_EQ(t1->now, state::waiting);
  b.gated.insert("A0");
  t0->finish();
  deliver();
  EXPECT_EQ(t1->now, state::advanced);
}

TEST_P(schedule, p7_late_visits_write_what_is_true_now) {
  b.add("A0", 4, {"m", "n"});
  auto agent = b.agent("A0");
  for (const char *model : {"m", "n"}) {
    auto p = b.pool(model);
    fleet::pool_section section(*p);
    ASSERT_TRUE(p->take(0));
  }
  b.pool("n")->refresh(*agent);
  b.pool("m")->refresh(*agent);
  b.rows_match();
  agent->slots.give_back();
  agent->slots.give_back();
}

TEST_P(schedule, p8_a_freed_slot_is_noticed_whoever_writes_it) {
  b.add("A0", 2, {"m", "n"});
  auto agent = b.agent("A0");
  auto t0 = entered_one();
  {
    auto p = b.pool("n");
    fleet::pool_section section(*p);
    ASSERT_TRUE(p->take(0));                 // its visit to m is still to come
  }
  auto t2 = entered_one();
  ASSERT_EQ(t2->now, state::waiting);
  agent->slots.give_back();                  // and so is this one's
  b.pool("m")->refresh(*agent);
  auto t3 = entered_one();
  b.pool("m")->refresh(*agent);
  deliver();
  EXPECT_NE(t2->now == state::holding, t3->now == state::holding);
  EXPECT_EQ(t2->now == state::holding || GetParam().many_tenants, true);
  b.pool("n")->refresh(*agent);
  b.rows_match();
}

TEST_P(schedule, p9_a_picky_ticket_is_passed_at_most_once) {
  b.add("A0", 1);
  b.add("A1", 1);
  auto x = entered_one({"A0"}), y = entered_one({"A1"});
  auto picky = entered_one({"A0"});
  std::vector<std::unique_ptr<request>> others;
  for (int i = 0; i < 12; ++i) others.push_back(entered_one());
  x->finish();
  y->finish();
  int passed = 0;
  for (int round = 0; round < 10 && picky->now == state::waiting; ++round) {
    b.deliver_all(true);                     // the others always arrive first
    for (auto &o : others) {
      if (o->now != state::holding) continue;
      passed += o->agent() == "A0";
      o->finish();
    }
  }
  EXPECT_EQ(picky->now, state::holding);
  EXPECT_LE(passed, GetParam().many_tenants ? 4 : 1);
}

TEST_P(schedule, p10_two_pools_on_one_agent_share_it) {
  b.add("A0", 1, {"m", "n"});
  std::map<std::string, std::vector<std::unique_ptr<request>>> all;
  std::map<std::string, int> grants;
  for (int i = 0; i < 4; ++i) {
    for (const char *model : {"m", "n"}) all[model].push_back(entered_one({}, model));
  }
  for (int round = 0; round < 1000; ++round) {
    request *holder = nullptr;
    for (auto &[model, list] : all) {
      for (auto &r : list) {
        if (r->now == state::holding) holder = r.get();
      }
    }
    ASSERT_NE(holder, nullptr);
    ++grants[holder->model_];
    holder->finish();
    b.deliver_all();
    holder->t.~ticket();                     // its next request is a new one
    new (&holder->t) ticket();
    holder->enter();
    b.deliver_all();
  }
  EXPECT_GE(grants["m"], 350);
  EXPECT_GE(grants["n"], 350);
}

TEST_P(schedule, p11_a_ready_ticket_is_not_posted_for_ever) {
  b.add("A0", 2);
  b.add("A1", 1);
  auto x = entered_one({"A0"}), y = entered_one({"A0"}), z = entered_one({"A1"});
  std::vector<std::unique_ptr<request>> waiting;
  for (int i = 0; i < 6; ++i) waiting.push_back(entered_one(i % 2 ? std::set<std::string>{"A1"} : std::set<std::string>{}));
  x->finish();
  y->finish();
  deliver();
  z->finish();
  deliver();
  int held = 0;
  for (auto &w : waiting) {
    held += w->now == state::holding;
    EXPECT_LE(w->wakes, 9);                  // three releases, three wakes each at most
  }
  EXPECT_EQ(held, 3);
}

TEST_P(schedule, a_busy_agent_counts_as_full_until_its_next_pong) {
  b.add("A0", 2);
  b.fleet.refused_busy("A0", {2, 2, 2});
  auto t0 = entered_one();
  EXPECT_EQ(t0->now, state::waiting);
  b.fleet.pong("A0", {0, 0, 2}, b.links["A0"]);
  deliver();
  EXPECT_EQ(t0->now, state::holding);
}

TEST_P(schedule, a_busy_mark_on_a_free_agent_makes_waiting_requests_wait_on) {
  b.add("A0", 1);
  auto t0 = entered_one(), t1 = entered_one();
  b.fleet.refused_busy("A0", {1, 1, 1});
  t0->finish();
  deliver();
  EXPECT_EQ(t1->now, state::waiting);
  b.fleet.pong("A0", {0, 0, 1}, b.links["A0"]);
  deliver();
  EXPECT_EQ(t1->now, state::holding);
}

TEST_P(schedule, draining_and_a_lost_link_advance_the_waiting_and_a_new_agent_serves_them) {
  b.add("A0", 1);
  b.add("A1", 1);
  auto t0 = entered_one(), t1 = entered_one(), t2 = entered_one(), t3 = entered_one({"A0"});
  b.fleet.draining("A0", true);
  deliver();
  EXPECT_EQ(t2->now, state::waiting);
  EXPECT_EQ(t3->now, state::advanced);
  b.add("A2", 3);
  deliver();
  EXPECT_EQ(t2->agent(), "A2");
  auto t4 = entered_one({"A1"});
  b.fleet.link_lost(b.links["A1"], "test");
  deliver();
  EXPECT_EQ(t4->now, state::advanced);
}

TEST_P(schedule, more_capacity_wakes_as_many_as_fit) {
  b.add("A0", 1);
  auto t0 = entered_one();
  std::vector<std::unique_ptr<request>> waiting;
  for (int i = 0; i < 5; ++i) waiting.push_back(entered_one());
  b.fleet.models("A0", bed::metadata({"m"}, 4));
  EXPECT_GE(b.wakes.size(), 3u);
  deliver();
  EXPECT_EQ(std::count_if(waiting.begin(), waiting.end(), [](auto &w) { return w->now == state::holding; }), 3);
}

// Naive variant: only more of something is news.
TEST(queue, a_capacity_that_falls_to_full_rechecks_everybody_and_one_that_leaves_a_slot_nobody) {
  bed b;
  b.add("A0", 1);
  b.add("A1", 2);
  request t0(b, "m", {"A0"}), t1(b, "m", {"A0"}), t2(b, "m", {"A0"});
  for (request *r : {&t0, &t1, &t2}) r->enter();
  ASSERT_EQ(t2.now, state::waiting);
  b.fleet.pong("A1", {1, 0, 2}, b.links["A1"]);
  b.deliver_all();
  EXPECT_EQ(t1.wakes + t2.wakes, 0);
  b.fleet.pong("A1", {2, 0, 2}, b.links["A1"]);
  b.deliver_all();
  b.rows_match();
  for (const request *r : {&t1, &t2}) {
    EXPECT_EQ(r->wakes, 1);
    EXPECT_EQ(r->now, state::waiting);
  }
}

// Naive variant: whatever is written under the lock wakes somebody.
TEST(queue, taking_entering_and_leaving_wake_nobody) {
  bed b;
  b.add("A0", 1);
  b.add("A1", 2);
  request t0(b, "m", {"A0"}), waits(b, "m", {"A0"}), takes(b, "m", {"A1"}), enters(b, "m", {"A0"});
  for (request *r : {&t0, &waits, &takes, &enters}) r->enter();
  ASSERT_EQ(takes.agent(), "A1");
  ASSERT_EQ(enters.now, state::waiting);
  enters.cancel();
  EXPECT_TRUE(b.wakes.empty());
  EXPECT_EQ(b.line("m").stats().wakes, 0u);
  EXPECT_EQ(waits.now, state::waiting);
}

TEST(queue, is_bounded_in_count_and_bytes_and_tells_the_refused_to_advance) {
  bed b(line_limits{.depth = 2, .bytes = 1000, .tenant_fairness = false});
  b.add("A0", 1);
  request t0(b), t1(b), t2(b), t3(b);
  for (request *r : {&t0, &t1, &t2, &t3}) r->enter();
  EXPECT_EQ(t2.now, state::waiting);
  EXPECT_EQ(t3.now, state::advanced);
  t2.cancel();
  request fat(b);
  fat.bytes = 901;
  fat.enter();
  EXPECT_EQ(fat.now, state::advanced);
  const line_stats s = b.line("m").stats();
  EXPECT_EQ(s.depth, 1u);
  EXPECT_EQ(s.bytes, 100u);
  EXPECT_EQ(s.refused_full, 2u);
}

TEST(queue, nobody_waits_at_depth_zero_or_who_may_not) {
  bed b(line_limits{.depth = 0});
  b.add("A0", 1);
  request t0(b), t1(b);
  EXPECT_EQ(t0.enter().now, state::holding);
  EXPECT_EQ(t1.enter().now, state::advanced);
  bed c;
  c.add("A0", 1);
  request u0(c), u1(c);
  u0.enter();
  EXPECT_EQ(u1.enter(false).now, state::advanced);
  EXPECT_EQ(c.line("m").stats().refused_full, 0u);
}

TEST(queue, a_higher_priority_goes_first) {
  bed b;
  b.add("A0", 1);
  request t0(b), low(b, "m", {}, ticket_class{0, "", 1}), high(b, "m", {}, ticket_class{5, "", 1});
  for (request *r : {&t0, &low, &high}) r->enter();
  t0.finish();
  b.deliver_all();
  EXPECT_EQ(high.now, state::holding);
  EXPECT_EQ(low.now, state::waiting);
}

TEST(queue, tenants_share_by_what_they_cost) {
  bed b(line_limits{.depth = 1000, .tenant_fairness = true});
  b.add("A0", 1);
  std::deque<std::unique_ptr<request>> all;
  std::map<std::string, uint64_t> tokens;
  auto add = [&](const char *tenant, uint64_t cost) {
    all.push_back(std::make_unique<request>(b, "m", std::set<std::string>{}, ticket_class{0, tenant, cost}));
    all.back()->enter();
  };
  for (int i = 0; i < 40; ++i) add("greedy", 100);
  for (int i = 0; i < 200; ++i) add("modest", 10);
  for (int i = 0; i < 120; ++i) {
    for (auto &r : all) {
      if (r->now != state::holding) continue;
      tokens[r->tenant] += r->cls.cost;
      r->finish();
    }
    b.deliver_all();
  }
  EXPECT_NEAR(static_cast<double>(tokens["greedy"]), static_cast<double>(tokens["modest"]), 200);
}

TEST(queue, time_away_earns_a_tenant_nothing) {
  bed b(line_limits{.depth = 1000, .tenant_fairness = true});
  b.add("A0", 1);
  std::deque<std::unique_ptr<request>> all;
  auto add = [&](const char *tenant) {
    all.push_back(std::make_unique<request>(b, "m", std::set<std::string>{}, ticket_class{0, tenant, 1}));
    all.back()->enter();
  };
  auto turn = [&] {
    std::string served;
    for (auto &r : all) {
      if (r->now != state::holding) continue;
      served = r->tenant;
      r->finish();
    }
    b.deliver_all();
    return served;
  };
  for (int i = 0; i < 100; ++i) add("steady");
  for (int i = 0; i < 50; ++i) turn();
  for (int i = 0; i < 50; ++i) add("back");
  turn();
  std::map<std::string, int> served;
  for (int i = 0; i < 20; ++i) ++served[turn()];
  EXPECT_GE(served["steady"], 9);
  EXPECT_GE(served["back"], 9);
}

}  // namespace
}  // namespace hive::routing
