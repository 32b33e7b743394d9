// What ends a wait for a slot, cause by cause (docs/waiting.md, "What raises the change number"): each as the registry hears of it from an
// agent's link, until the waiting request is let in or moves on to the step that is left. Beside these: a value's max_age and a rule's
// `leave` (session_wait_test), a capacity that falls (queue_test), a reset of the counters (fleet/history_test).
#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "fleet/registry_bed.hpp"
#include "routing/session_bed.hpp"

namespace hive::routing {
namespace {

using ::testing::ElementsAre;
using testing::client;

// A fleet of one model, as it is known from what its agents say, and requests that want a slot of it.
struct waiting_room {
  using fields = std::map<std::string, std::string>;   // name and JSON

  explicit waiting_room(const std::string &policy, const fleet::registry_settings &settings = {})
      : reg(settings, clock, hubs, nullptr, nullptr, nullptr), way(source, reg.columns(), told, {}) {
    load(policy);
  }
  void load(const std::string &policy) {
    const auto d = parse_policy(policy, source);
    ASSERT_TRUE(d) << d.why().text();
    const status s = way.set_policies(d->document);
    ASSERT_TRUE(s.ok()) << s.text();
  }

  // What an agent says of itself.
  static std::string says(const fields &own = {}) {
    fields all = {{"models", R"(["qwen"])"}, {"capacity", "1"},      {"version", R"("1")"},
                  {"engine", R"("vllm")"},   {"region", R"("eu")"}, {"organization", R"("org")"}};
    for (const auto &[name, json] : own) all[name] = json;
    std::string text;
    for (const auto &[name, json] : all) text.append(text.empty() ? "{\"" : ",\"").append(name).append("\":").append(json);
    return text + "}";
  }
  void connect(const std::string &name, const fields &own = {}) {
    link::auth_request r;
    r.peer_id = name;
    r.boot_id = 1;
    r.link = {0, ++peers};
    r.metadata = says(own);
    bool welcome = false;
    reg.authenticate(std::move(r), [&](link::auth_decision d) { welcome = d.what == link::auth_decision::kind::welcome; });
    ASSERT_TRUE(welcome) << name;
    ends[name] = {0, peers};
    for (const auto &p : reg.pools()) {
      if (way.knows(p->model())) continue;
      const status s = way.add_pool(p);
      ASSERT_TRUE(s.ok()) << s.text();
    }
  }
  void signal(const std::string &name, const char *column, double value) { reg.signals(name, {{column, value, 0}}, ""); }
  void outcome(const std::string &name, bool success) {
    const auto who = reg.find(name);
    fleet::outcome_record o;
    o.generation = who->generation();
    o.success = success;
    reg.record_outcome(*who, o);
  }
  void sample(const std::string &name, double ms) {
    const auto who = reg.find(name);
    fleet::outcome_record o;
    o.generation = who->generation();
    o.rtt_ms = ms;
    reg.record_sample(*who, o);
  }
  void pong(const std::string &name, const link::pong_info &p) { reg.pong(name, p, ends.at(name)); }

  void ask(client &c) {
    request_facts f;
    f.request_id = "r1";
    f.model = "qwen";
    f.capability = "llm";
    f.tenant = "acme";
    c.flow = way.open(home, f, c);
    c.flow->next();
    run();
  }
  void run() {
    home.io().restart();
    while (home.io().poll() > 0) {
    }
  }
  // Time goes by, and the fleet ticks as often as it has to.
  void pass(uint64_t ns) {
    for (uint64_t gone = 0; gone < ns; gone += 100 * ns_per_ms) {
      clock.advance(100 * ns_per_ms);
      reg.tick();
      run();
    }
  }
  uint64_t depth() const {
    for (const router::line_state &l : way.lines())
      if (l.model == "qwen") return l.stats.depth;
    return 0;
  }

  manual_clock clock;
  fleet::hubs hubs;
  fleet::registry reg;
  testing::test_source source;
  testing::recorder told;
  loop home;
  router way;
  std::map<std::string, link::link_id> ends;
  uint64_t peers = 0;
};

// Two requests want the slot of `a`: one holds it, the other waits.
struct cause {
  const char *name;
  const char *rule;                                        // of the first step
  std::function<void(waiting_room &)> before;               // nobody has asked yet; afterwards `a` is the only one that fits
  std::function<void(waiting_room &, client &)> happens;    // the client holds the slot
  const char *served_by = "b";
  fleet::registry_settings settings = {};
};
void PrintTo(const cause &c, std::ostream *to) { *to << c.name; }
std::string name_of(const ::testing::TestParamInfo<cause> &i) { return i.param.name; }

// One holds the slot of `a`, the other waits for it, and the cause happens.
void go_through(const cause &c, waiting_room &room, client &holds, client &waits) {
  room.ask(holds);
  ASSERT_THAT(holds.agents, ElementsAre("a"));
  room.ask(waits);
  room.pass(300 * ns_per_ms);
  ASSERT_TRUE(waits.agents.empty()) << "nothing has happened yet";
  ASSERT_EQ(room.depth(), 1u);
  c.happens(room, holds);
  room.run();
}

class let_in : public ::testing::TestWithParam<cause> {};

// Naive variants: a cause that only writes what it is told of, and wakes nobody.
TEST_P(let_in, by) {
  const cause &c = GetParam();
  waiting_room room(std::string("routing_policy: {strategy: least-loaded") + c.rule + "}", c.settings);
  room.connect("a");
  if (c.before) c.before(room);
  client holds, waits;
  ASSERT_NO_FATAL_FAILURE(go_through(c, room, holds, waits));
  EXPECT_THAT(waits.agents, ElementsAre(c.served_by));
  EXPECT_EQ(room.depth(), 0u);
}

std::vector<cause> causes_that_let_in() {
  const auto nothing = std::function<void(waiting_room &)>();
  const auto two_slots = [](waiting_room &r) { r.reg.models("a", waiting_room::says({{"capacity", "2"}})); };
  const char *const kv = ", exclude_if: {kv_cache_utilization: {gt: 0.9}}";
  const auto b_under_pressure = [](waiting_room &r) {
    r.connect("b");
    r.signal("b", "kv_cache_utilization", 0.95);
  };
  return {
      {"a_returned_slot", "", nothing, [](waiting_room &, client &holds) { holds.report(attempt_result::completed); }, "a"},
      {"a_capacity_that_rises", "", nothing, [two_slots](waiting_room &r, client &) { two_slots(r); }, "a"},
      {"a_slot_that_another_router_returns", "",
       [two_slots](waiting_room &r) {
         two_slots(r);
         r.pong("a", {1, 0, 2});
       },
       [](waiting_room &r, client &) { r.pong("a", {1, 1, 2}); }, "a"},
      {"a_busy_mark_that_is_cleared", "",
       [](waiting_room &r) {
         r.connect("b");
         r.reg.refused_busy("b", {1, 1, 1});
       },
       [](waiting_room &r, client &) { r.pong("b", {0, 0, 1}); }},
      {"a_probation_that_ends", "",
       [two_slots](waiting_room &r) {
         two_slots(r);
         for (int i = 0; i < 3; ++i) r.outcome("a", false);
       },
       [](waiting_room &r, client &) { r.outcome("a", true); }, "a"},
      {"a_slow_start_that_goes_on", "", [](waiting_room &r) { r.reg.models("a", waiting_room::says({{"capacity", "8"}})); },
       [](waiting_room &r, client &) { r.pass(2 * ns_per_s); }, "a", {.slow_start_ns = 8 * ns_per_s}},
      {"an_agent_that_comes", "", nothing, [](waiting_room &r, client &) { r.connect("b"); }},
      {"an_agent_that_offers_the_model", "", [](waiting_room &r) { r.connect("b", {{"models", R"(["other"])"}}); },
       [](waiting_room &r, client &) { r.reg.models("b", waiting_room::says()); }},
      {"an_engine_that_recovers", "",
       [](waiting_room &r) {
         r.connect("b");
         r.reg.heartbeat("b", false, "loading");
       },
       [](waiting_room &r, client &) { r.reg.heartbeat("b", true, ""); }},
      {"a_heartbeat_after_a_silence", "",
       [](waiting_room &r) {
         r.connect("b");
         r.clock.advance(16 * ns_per_s);
         r.reg.heartbeat("a", true, "");
         r.reg.tick();
       },
       [](waiting_room &r, client &) { r.reg.heartbeat("b", true, ""); }},
      {"a_lost_link_that_is_back", "",
       [](waiting_room &r) {
         r.connect("b");
         r.reg.link_lost(r.ends.at("b"), "cut");
       },
       [](waiting_room &r, client &) { r.connect("b"); }},
      {"a_drain_that_is_called_off", "",
       [](waiting_room &r) {
         r.connect("b");
         r.reg.draining("b", true);
       },
       [](waiting_room &r, client &) { r.reg.draining("b", false); }},
      {"an_operators_drain_that_is_called_back", "",
       [](waiting_room &r) {
         r.connect("b");
         r.reg.set_operator_drain("b", true);
       },
       [](waiting_room &r, client &) { r.reg.set_operator_drain("b", false); }},
      {"a_session_that_is_renewed", "",
       [](waiting_room &r) {
         r.connect("b");
         r.reg.expired("b", true);
       },
       [](waiting_room &r, client &) { r.reg.expired("b", false); }},
      {"a_signal_that_clears_a_gate", kv, b_under_pressure,
       [](waiting_room &r, client &) { r.signal("b", "kv_cache_utilization", 0.5); }},
      {"a_signal_that_goes_stale", kv, b_under_pressure, [](waiting_room &r, client &) { r.pass(11 * ns_per_s); }},
      {"a_streak_that_ends", ", exclude_if: {consecutive_failures: {gte: 2}}",
       [](waiting_room &r) {
         r.connect("b");
         for (int i = 0; i < 2; ++i) r.outcome("b", false);
       },
       [](waiting_room &r, client &) { r.outcome("b", true); }},
      {"a_latency_that_falls", ", exclude_if: {srtt: {gt: 150}}",
       [](waiting_room &r) {
         r.connect("b");
         r.sample("b", 200);
       },
       [](waiting_room &r, client &) { r.sample("b", 10); }},
      // lt: who is idle gets nothing. Taking a slot raises no change number, but this.
      {"a_load_that_rises_over_a_lower_bound", ", exclude_if: {capacity_utilization: {lt: 0.4}}",
       [two_slots](waiting_room &r) {
         two_slots(r);
         r.pong("a", {1, 0, 2});
         r.connect("b", {{"capacity", "2"}});
       },
       [](waiting_room &r, client &) { r.pong("b", {1, 0, 2}); }},
  };
}
INSTANTIATE_TEST_SUITE_P(who_waits, let_in, ::testing::ValuesIn(causes_that_let_in()), name_of);

class moved_on : public ::testing::TestWithParam<cause> {};

// Naive variants: only free slots are news, and who waits for `a` waits for nobody until its time is up.
TEST_P(moved_on, by) {
  const cause &c = GetParam();
  waiting_room room(std::string("routing_policy: {strategy: least-loaded, match: {region: eu}") + c.rule +
                        "}\nfallback_chain: [{name: any, strategy: least-loaded, match: {region: us}}]", c.settings);
  room.connect("a");
  room.connect("c", {{"region", R"("us")"}});
  client holds, waits;
  ASSERT_NO_FATAL_FAILURE(go_through(c, room, holds, waits));
  EXPECT_THAT(waits.agents, ElementsAre("c"));
  EXPECT_THAT(waits.steps, ElementsAre("any"));
}

std::vector<cause> causes_that_move_on() {
  return {
      {"an_agent_that_leaves", "", {}, [](waiting_room &r, client &) { r.reg.goodbye("a"); }},
      {"an_agent_that_is_put_out", "", {}, [](waiting_room &r, client &) { r.reg.disconnect("a", {"revoked", "", 0, true}); }},
      {"an_agent_that_offers_the_model_no_more", "", {},
       [](waiting_room &r, client &) { r.reg.models("a", waiting_room::says({{"models", R"(["other"])"}})); }},
      {"an_agent_that_matches_no_more", "", {},
       [](waiting_room &r, client &) { r.reg.models("a", waiting_room::says({{"region", R"("us")"}})); }},
      {"an_engine_that_fails", "", {}, [](waiting_room &r, client &) { r.reg.heartbeat("a", false, "gone"); }},
      {"a_silence", "", {},
       [](waiting_room &r, client &) {
         r.clock.advance(16 * ns_per_s);
         r.reg.heartbeat("c", true, "");
         r.reg.tick();
       }},
      {"a_lost_link", "", {}, [](waiting_room &r, client &) { r.reg.link_lost(r.ends.at("a"), "cut"); }},
      {"a_drain", "", {}, [](waiting_room &r, client &) { r.reg.draining("a", true); }},
      {"an_operators_drain", "", {}, [](waiting_room &r, client &) { r.reg.set_operator_drain("a", true); }},
      {"an_expired_session", "", {}, [](waiting_room &r, client &) { r.reg.expired("a", true); }},
      // Full comes before the gates: only once it has a slot do they decide.
      {"a_signal_over_its_gate", ", exclude_if: {kv_cache_utilization: {gt: 0.9}}", {},
       [](waiting_room &r, client &holds) {
         r.signal("a", "kv_cache_utilization", 0.95);
         holds.report(attempt_result::completed);
       }},
      {"a_failure_streak", ", exclude_if: {consecutive_failures: {gte: 1}}", {},
       [](waiting_room &r, client &holds) {
         r.outcome("a", false);
         holds.report(attempt_result::completed);
       }},
      {"a_success_rate_that_falls", ", exclude_if: {success_rate: {lt: 0.9}}", {},
       [](waiting_room &r, client &holds) {
         r.outcome("a", false);
         holds.report(attempt_result::completed);
       }},
      {"a_latency_that_rises", ", exclude_if: {srtt: {gt: 100}}", {},
       [](waiting_room &r, client &holds) {
         r.sample("a", 200);
         holds.report(attempt_result::completed);
       }},
  };
}
INSTANTIATE_TEST_SUITE_P(who_waits, moved_on, ::testing::ValuesIn(causes_that_move_on()), name_of);

// What a step's filter is held against, of an agent that is there all the time.
struct description {
  const char *field, *match, *was, *becomes;
};
void PrintTo(const description &d, std::ostream *to) { *to << d.field; }

class let_in_by : public ::testing::TestWithParam<description> {};

// Naive variants: what matched is remembered of an agent for as long as it is there; a new description wakes nobody.
TEST_P(let_in_by, what_an_agent_that_is_there_now_says_of_itself) {
  const description &c = GetParam();
  waiting_room room(std::string("routing_policy: {strategy: least-loaded, match: {") + c.match + "}}");
  const waiting_room::fields fits = {{"machine", R"("m1")"}, {"gpu_model", R"("H100")"}, {"tags", R"(["gold"])"}};
  waiting_room::fields other = fits;
  other[c.field] = c.was;
  room.connect("a", fits);
  room.connect("b", other);
  client holds, waits;
  room.ask(holds);
  ASSERT_THAT(holds.agents, ElementsAre("a"));
  room.ask(waits);
  room.reg.models("b", waiting_room::says(other));
  room.pass(300 * ns_per_ms);
  ASSERT_TRUE(waits.agents.empty()) << "said again as it was";
  ASSERT_EQ(room.depth(), 1u);
  other[c.field] = c.becomes;
  room.reg.models("b", waiting_room::says(other));
  room.run();
  EXPECT_THAT(waits.agents, ElementsAre("b"));
}

INSTANTIATE_TEST_SUITE_P(who_waits, let_in_by,
                         ::testing::Values(description{"region", "region: eu", R"("us")", R"("eu")"},
                                           description{"engine", "engine: vllm", R"("sglang")", R"("vllm")"},
                                           description{"organization", "organization: org", R"("other")", R"("org")"},
                                           description{"machine", "machine: m1", R"("m2")", R"("m1")"},
                                           description{"gpu_model", "gpu_model: H100", R"("A100")", R"("H100")"},
                                           description{"tags", "tags: [gold]", R"(["silver"])", R"(["silver","gold"])"},
                                           description{"capability", "", R"("embedding")", R"("llm")"}),
                         [](const auto &i) { return std::string(i.param.field); });

// Naive variant: a reload wakes all, and who waits is judged by the new policy.
TEST(who_waits, keeps_the_policy_it_came_with_and_hears_nothing_of_a_reload) {
  waiting_room room("routing_policy: {strategy: least-loaded, match: {region: eu}}");
  room.connect("a");
  room.connect("c", {{"region", R"("us")"}});
  client holds, waits, later;
  room.ask(holds);
  room.ask(waits);
  room.load("routing_policy: {strategy: least-loaded}");
  room.pass(300 * ns_per_ms);
  EXPECT_TRUE(waits.agents.empty());
  EXPECT_EQ(room.depth(), 1u);
  room.ask(later);
  EXPECT_THAT(later.agents, ElementsAre("c")) << "the new one has no region";
  holds.report(attempt_result::completed);
  room.run();
  EXPECT_THAT(waits.agents, ElementsAre("a"));
}

}  // namespace
}  // namespace hive::routing
