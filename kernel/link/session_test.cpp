// Who gets in, who is thrown out, who stays: authentication, owners, renewal, liveness, goodbye.
#include <filesystem>

#include "link/link_bench_test.hpp"

namespace hive::link::testing {
namespace {

class link_session : public ::testing::Test {
 protected:
  static size_t open_descriptors() {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
  }

  fake_factory factory;
  bench b{factory};
};

TEST_F(link_session, an_agent_with_the_secret_is_welcomed_on_every_worker) {
  b.start_hubs(2);
  agent_side &a = b.up();
  EXPECT_EQ(b.dir.metadata[a.id.peer_id], R"({"model":"m"})");
  EXPECT_EQ(b.dir.owners[a.id.peer_id].links.size(), 2u);
  EXPECT_EQ(a.behind.welcomes, 1);
  for (uint32_t w = 0; w < 2; ++w) {
    auto c = b.open(a, "/echo", "hello", w);
    EXPECT_TRUE(b.until([&] { return c->over(); }));
    EXPECT_EQ(c->got, 5u);
  }
}

TEST_F(link_session, losing_one_worker_fails_only_its_streams_and_comes_back) {
  b.start_hubs(2);
  agent_side &a = b.up();
  auto on_zero = b.open(a, "/silent", "", 0);
  auto on_one = b.open(a, "/silent", "", 1);
  ASSERT_TRUE(b.until([&] { return a.behind.opens == 2; }));
  EXPECT_EQ(b.hub(1).counters.links_open, 1u);
  factory.net.sever(*factory.net.connections[1], HIVE_LOST_CLOSED);
  EXPECT_TRUE(b.until([&] { return on_one->over(); }));
  EXPECT_EQ(b.hub(1).counters.links_open, 0u);
  EXPECT_EQ(b.hub(1).counters.links_lost, 1u);
  EXPECT_EQ(on_one->failed, cause::link_lost);
  EXPECT_FALSE(on_zero->over());
  EXPECT_EQ(a.behind.last_cancel, cause::link_lost);
  EXPECT_TRUE(b.until([&] { return a.behind.welcomes == 2; }));
  EXPECT_EQ(b.slots, 1);
}

TEST_F(link_session, an_agent_tries_its_secrets_in_turn) {
  b.start_hubs();
  b.agent_options.secrets = {secret_b, secret_a};
  b.up();
}

TEST_F(link_session, a_transport_that_does_not_start_is_started_again_also_with_another_secret) {
  factory.net.refused_starts = {2, 3, 5};  // the hub's is the first
  b.start_hubs();
  b.agent_options.secrets = {secret_b, secret_a};
  b.up();
  EXPECT_EQ(factory.net.starts, 6);
}

TEST_F(link_session, a_thousand_dials_of_a_name_nobody_knows_leave_no_descriptor_behind) {
  b.start_hubs();
  b.agent_options.reconnect_min_ns = b.agent_options.reconnect_max_ns = 3600 * ns_per_s;  // dialled by hand
  const auto end = factory.make();
  engine behind;
  agent_link_options o = b.agent_options;
  o.router = std::string(70, 'x') + ".invalid:50051";  // no label is that long: no server is asked
  agent_router_link::impl link(b.l, end->ref(), identity_from_seed(seed_of(5)), behind, o);
  link.start();
  dial_slot &slot = *link.slots[0];
  size_t before = 0;
  for (uint32_t i = 1; i <= 1000; ++i) {
    ASSERT_TRUE(b.until([&] { return slot.failures == i; })) << i;
    EXPECT_NE(slot.why.find("cannot resolve"), std::string::npos) << slot.why;
    if (i == 10) before = open_descriptors();
    link.dial(slot);
  }
  EXPECT_LE(open_descriptors(), before + 1);
}

// Naive variants: one address after another, so that one that hangs keeps the agent out; all of them at once; a refusal takes as long
// as silence.
TEST_F(link_session, addresses_that_hang_or_refuse_do_not_keep_from_the_next) {
  b.start_hubs();
  factory.net.silent = {"hangs:1", "hangs:2"};
  agent_link_options o = b.agent_options;
  o.router = std::string(70, 'x') + ".invalid:50051";
  o.reconnect_min_ns = o.reconnect_max_ns = 3600 * ns_per_s;  // dialled by hand
  constexpr uint64_t step_ms = 250;
  const struct {
    std::vector<std::string> before;
    uint64_t least_ms, most_ms;
  } cases[] = {{{"hangs:1", "hangs:2"}, 2 * step_ms, 20'000},
               {std::vector<std::string>(12, "refuses:1"), 0, 8 * step_ms},
               {{"hangs:1", "refuses:1"}, step_ms, 20'000}};
  uint8_t seed = 5;
  for (const auto &c : cases) {
    agent_side a(b.l, factory.make(), seed++, o);
    a.link->start();
    dial_slot &slot = *a.link->slots[0];
    ASSERT_TRUE(b.until([&] { return slot.failures == 1; }));
    slot.candidates = c.before;
    slot.candidates.push_back(b.hubs[0]->address);
    slot.next = 0;
    const uint64_t start = now_ns();
    a.link->connect_next(slot);
    ASSERT_TRUE(b.until([&] { return a.up(); })) << c.before[0] << " " << c.before[1];
    const uint64_t took_ms = (now_ns() - start) / ns_per_ms;
    EXPECT_GE(took_ms + 10, c.least_ms);
    EXPECT_LT(took_ms, c.most_ms);
    EXPECT_TRUE(factory.net.unanswered.empty()) << "nobody who might still come is held on to";
  }
}

TEST_F(link_session, a_pump_that_fails_is_pumped_again_and_what_waits_is_not_lost) {
  b.options.ping_ns = 3600 * ns_per_s;  // nothing else wakes the transports
  b.start_hubs();
  agent_side &a = b.up();
  b.settle();
  factory.net.failing_pumps = 3;
  auto c = b.open(a, "/echo", "hello");
  EXPECT_TRUE(b.until([&] { return c->over(); }));
  EXPECT_EQ(c->got, 5u);
  EXPECT_EQ(factory.net.failing_pumps, 0);
}

// Control decides on another thread: what it registers may be gone by then.
TEST_F(link_session, a_link_that_is_lost_before_the_decision_about_it_is_told_as_lost_after_it) {
  b.start_hubs();
  raw_agent raw(b, 3);
  raw.hello(raw.id.peer_id);
  ASSERT_TRUE(raw.wait(kind::challenge));
  b.dir.hold_decisions = true;
  raw.send({.what = kind::auth}, raw.auth_meta(secret_a, "{}"), "{}");
  ASSERT_TRUE(b.until([&] { return b.dir.held_decisions.size() == 1; }));
  factory.net.break_all();
  ASSERT_TRUE(b.until([&] { return b.hub().links().empty(); }));
  b.dir.hold_decisions = false;
  b.dir.held_decisions[0]();
  ASSERT_EQ(b.dir.owners[raw.id.peer_id].links.size(), 1u);
  EXPECT_TRUE(b.until([&] { return b.dir.owners[raw.id.peer_id].links.empty(); })) << "a ghost";
}

TEST_F(link_session, a_router_accepts_proofs_of_every_secret_it_has) {
  b.options.secrets = {secret_a, secret_b};
  b.start_hubs();
  raw_agent raw(b, 3);
  raw.hello(raw.id.peer_id);
  ASSERT_TRUE(raw.wait(kind::challenge));
  raw.send({.what = kind::auth}, raw.auth_meta(secret_b, "{}"), "{}");
  EXPECT_TRUE(raw.wait(kind::welcome));
}

TEST_F(link_session, a_wrong_proof_is_kicked) {
  b.start_hubs();
  raw_agent raw(b, 3);
  raw.hello(raw.id.peer_id);
  ASSERT_TRUE(raw.wait(kind::challenge));
  raw.send({.what = kind::auth}, raw.auth_meta(secret_b, "{}"), "{}");
  EXPECT_EQ(raw.kicked(), "bad_secret");
  EXPECT_EQ(b.hub().counters.auth_failures, 1u);
  EXPECT_TRUE(b.until([&] { return raw.lost; }));
}

TEST_F(link_session, metadata_that_was_changed_on_the_way_is_kicked) {
  b.start_hubs();
  raw_agent raw(b, 3);
  raw.hello(raw.id.peer_id);
  ASSERT_TRUE(raw.wait(kind::challenge));
  raw.send({.what = kind::auth}, raw.auth_meta(secret_a, "{}"), "{ }");
  EXPECT_EQ(raw.kicked(), "bad_secret");
}

TEST_F(link_session, a_replayed_auth_is_kicked) {
  b.start_hubs();
  std::string auth;
  {
    raw_agent first(b, 3);
    first.hello(first.id.peer_id);
    ASSERT_TRUE(first.wait(kind::challenge));
    auth = first.auth_meta(secret_a, "{}");
    first.send({.what = kind::auth}, auth, "{}");
    ASSERT_TRUE(first.wait(kind::welcome));
    // On the same connection it answers no challenge any more.
    first.send({.what = kind::auth}, auth, "{}");
    EXPECT_TRUE(b.until([&] { return first.lost; }));
  }
  raw_agent second(b, 3);
  second.hello(second.id.peer_id);
  ASSERT_TRUE(second.wait(kind::challenge));
  second.send({.what = kind::auth}, auth, "{}");
  EXPECT_EQ(second.kicked(), "bad_secret");
}

TEST_F(link_session, a_peer_id_of_another_key_is_kicked_for_good) {
  b.start_hubs();
  raw_agent raw(b, 3);
  raw.hello(identity_from_seed(seed_of(4)).peer_id);
  ASSERT_TRUE(raw.wait(kind::kick));
  EXPECT_EQ(raw.kicked(), "hello");
  EXPECT_TRUE(parse_kick(raw.find(kind::kick)->meta)->final);
}

TEST_F(link_session, records_before_hello_are_answered_by_one_kick) {
  b.start_hubs();
  raw_agent raw(b, 3);
  for (int i = 0; i < 3; ++i) raw.send({.what = kind::heartbeat}, R"({"ready":true,"reason":""})");
  EXPECT_EQ(raw.kicked(), "hello");
  EXPECT_TRUE(b.until([&] { return raw.lost; }));
  EXPECT_EQ(raw.heard.size(), 1u);
  EXPECT_EQ(b.dir.heartbeats, 0);
}

TEST_F(link_session, a_stranger_that_says_nothing_or_garbage_is_cut_off) {
  b.options.auth_limit_ns = 20 * ns_per_ms;
  b.start_hubs();
  raw_agent silent(b, 3);
  EXPECT_TRUE(b.until([&] { return silent.lost; }));
  for (const std::string &garbage : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100, '\0'), std::string(70'000, '\1')}) {
    raw_agent raw(b, 3);
    raw.send_raw(garbage);
    EXPECT_TRUE(b.until([&] { return raw.lost; }));
  }
  EXPECT_TRUE(b.hub().links().empty());
  EXPECT_GE(b.hub().counters.protocol_errors, 3u);
}

TEST_F(link_session, an_unsupported_version_is_kicked) {
  b.start_hubs();
  raw_agent raw(b, 3);
  raw.send({.what = kind::hello}, to_json(hello_message{2, 3, 1, raw.id.peer_id, raw.nonce, 0}));
  EXPECT_EQ(raw.kicked(), "version");
}

TEST_F(link_session, a_second_live_copy_is_told_to_wait) {
  b.start_hubs();
  agent_side &first = b.up();
  agent_side &second = b.start_agent();
  ASSERT_TRUE(b.until([&] { return !second.behind.kicks.empty(); }));
  EXPECT_EQ(second.behind.kicks.front(), "duplicate");
  EXPECT_TRUE(first.up());
  // No new probe before the 5 s it was given.
  b.until([] { return false; }, 100);
  EXPECT_EQ(b.dir.probes, 1);
  EXPECT_EQ(first.behind.losses, 0);
}

TEST_F(link_session, a_dead_copy_is_replaced_after_one_silent_second) {
  b.options.open_limit_ns = 10 * ns_per_s;
  b.start_hubs();
  agent_side &first = b.up();
  auto running = b.open(first, "/silent");
  ASSERT_TRUE(b.until([&] { return first.behind.opens == 1; }));
  auto &dead = *factory.net.connections[0];
  dead.mute_to_listener = dead.mute_to_dialler = true;
  first.link->halt();
  const uint64_t start = now_ns();
  agent_side &second = b.start_agent();
  ASSERT_TRUE(b.until([&] { return second.up(); }));
  EXPECT_LT(now_ns() - start, 2500 * ns_per_ms);
  EXPECT_EQ(b.dir.log, (std::vector<std::string>{"welcome", "takeover", "welcome"})) << "the probe has found it, no missed PONG";
  EXPECT_EQ(running->failed, cause::link_lost);
  EXPECT_EQ(b.slots, 0);
}

TEST_F(link_session, the_same_boot_on_a_new_connection_replaces_the_old_at_once) {
  b.start_hubs();
  raw_agent first(b, 3);
  ASSERT_TRUE(first.join());
  raw_agent second(b, 3);
  second.boot_id = first.boot_id;
  ASSERT_TRUE(second.join());
  EXPECT_EQ(first.kicked(), "replaced");
  EXPECT_NE(first.epoch, second.epoch);
  EXPECT_EQ(b.dir.probes, 0);
}

TEST_F(link_session, a_renewal_disturbs_nothing) {
  b.options.session_ttl_ns = 60 * ns_per_ms;
  b.start_hubs();
  agent_side &a = b.up();
  auto c = b.open(a, "/silent");
  const uint16_t epoch = b.link_of(a)->epoch;
  ASSERT_TRUE(b.until([&] { return b.dir.renewals >= 3; }));
  EXPECT_EQ(b.link_of(a)->epoch, epoch);
  EXPECT_FALSE(c->over());
  EXPECT_EQ(a.behind.welcomes, 1);
  EXPECT_EQ(b.dir.expired_on, b.dir.expired_off);
  EXPECT_GE(b.hub().counters.renewals, 2u);
}

TEST_F(link_session, a_session_just_longer_than_five_minutes_is_renewed_after_a_second) {
  b.options.session_ttl_ns = 300 * ns_per_s + 1;
  b.start_hubs();
  b.up();
  const uint64_t start = now_ns();
  ASSERT_TRUE(b.until([&] { return b.hub().counters.renewals == 1; }));
  EXPECT_GE(now_ns() - start, 950 * ns_per_ms);
}

TEST_F(link_session, a_session_that_is_not_renewed_gets_no_new_work) {
  b.options.session_ttl_ns = 40 * ns_per_ms;
  b.start_hubs();
  raw_agent raw(b, 3);
  ASSERT_TRUE(raw.join());
  ASSERT_TRUE(b.until([&] { return b.dir.expired_on == 1; }));
  client c;
  c.stream = b.hub().open(raw.id.peer_id, {}, c, std::make_unique<slot_token>(b.slots, nullptr), c.failure);
  EXPECT_EQ(c.stream, nullptr);
  EXPECT_EQ(c.failure.why, cause::link_lost);
  EXPECT_EQ(b.slots, 0);
}

TEST_F(link_session, three_pings_without_an_answer_lose_the_link_on_both_sides) {
  b.options.ping_ns = 10 * ns_per_ms;
  b.start_hubs();
  agent_side &a = b.up();
  auto c = b.open(a, "/silent");
  ASSERT_TRUE(b.until([&] { return a.behind.opens == 1 && b.dir.pongs > 2; }));
  auto &dead = *factory.net.connections[0];
  dead.mute_to_listener = dead.mute_to_dialler = true;
  EXPECT_TRUE(b.until([&] { return c->over() && a.behind.losses == 1; }));
  EXPECT_EQ(c->failed, cause::link_lost);
  EXPECT_TRUE(b.until([&] { return a.up(); }));
}

TEST_F(link_session, a_full_pipe_fails_the_link) {
  b.start_hubs();
  agent_side &a = b.up();
  factory.net.full = true;
  auto c = b.open(a, "/silent");
  ASSERT_NE(c->stream, nullptr);
  EXPECT_TRUE(b.until([&] { return c->over(); }));
  EXPECT_EQ(c->failed, cause::link_lost);
  EXPECT_NE(c->failure.message.find("full"), std::string::npos);
  factory.net.full = false;
  EXPECT_TRUE(b.until([&] { return a.behind.welcomes == 2; }));
}

TEST_F(link_session, a_restarted_router_is_found_again_with_another_epoch) {
  b.start_hubs();
  agent_side &a = b.up();
  const std::string old_address = b.hubs[0]->address;
  b.hubs[0]->hub->shut_down(0);
  EXPECT_TRUE(b.until([&] { return a.behind.losses == 1; }));
  b.hubs.clear();
  b.dir.owners.clear();
  b.options.router_boot_id = 78;
  factory.net.next_port = std::stoi(old_address.substr(old_address.rfind(':') + 1));
  b.start_hubs();
  EXPECT_TRUE(b.until([&] { return a.behind.welcomes == 2; }));
}

TEST_F(link_session, heartbeats_signals_models_and_drain_reach_the_directory) {
  b.start_hubs();
  agent_side &a = b.up();
  auto &zero = *a.link->link_zero();
  zero.append({.what = kind::heartbeat}, to_json(heartbeat_message{true, ""}), {});
  zero.append({.what = kind::signals}, to_json(std::vector<signal_value>{{"kv", 0.5, 3}}), "{}");
  zero.append({.what = kind::models}, {}, R"({"model":"n"})");
  zero.append({.what = kind::drain}, {}, {});
  EXPECT_TRUE(b.until([&] { return b.dir.is_draining; }));
  EXPECT_EQ(b.dir.heartbeats, 1);
  ASSERT_EQ(b.dir.seen_signals.size(), 1u);
  EXPECT_EQ(b.dir.seen_signals[0].second, 0.5);
  EXPECT_EQ(b.dir.metadata[a.id.peer_id], R"({"model":"n"})");
  b.hub().drain(a.id.peer_id, 1234);
  EXPECT_TRUE(b.until([&] { return a.behind.drain_ms == 1234; }));
}

TEST_F(link_session, goodbye_is_answered_and_ends_what_runs) {
  b.start_hubs(2);
  agent_side &a = b.up();
  auto c = b.open(a, "/silent");
  ASSERT_TRUE(b.until([&] { return a.behind.opens == 1; }));
  bool done = false;
  const uint64_t start = now_ns();
  a.link->goodbye([&] { done = true; });
  EXPECT_FALSE(done);
  EXPECT_TRUE(b.until([&] { return done; }));
  EXPECT_LT(now_ns() - start, 900 * ns_per_ms);
  EXPECT_EQ(b.dir.goodbyes, 2);
  EXPECT_TRUE(b.until([&] { return c->over(); }));
  EXPECT_EQ(b.slots, 0);
  EXPECT_EQ(a.behind.cancels, 1);
}

// As the agent's proxy does: a request frees its slot when it is destroyed, and tells the link.
struct slot_teller final : agent_link_handler {
  struct request final : agent_stream_events {
    explicit request(slot_teller &t) : teller(t) {}
    ~request() override {
      ++teller.freed;
      teller.link->slot_freed();
    }
    void on_body(std::string_view, bool) override {}
    void on_writable() override {}
    void on_cancelled(cause) override {}
    slot_teller &teller;
  };
  std::unique_ptr<agent_stream_events> on_open(const incoming_request &r, agent_stream &s) override {
    if (r.target == "/busy") s.refuse(cause::busy, "full", 0);
    else ++held;
    return r.target == "/busy" ? nullptr : std::make_unique<request>(*this);
  }
  std::string metadata() override { return "{}"; }
  void on_welcomed() override { up = true; }
  void on_lost(std::string_view) override {}
  void on_kicked(std::string_view, std::string_view, bool) override {}
  void on_drain_requested(uint64_t) override {}
  pong_info load() override { return {}; }
  std::unique_ptr<agent_router_link> link;
  int held = 0, freed = 0;
  bool up = false;
};

TEST_F(link_session, a_link_that_is_destroyed_with_its_streams_hears_of_their_slots_and_touches_nothing_that_is_gone) {
  b.start_hubs(2);
  const auto end = factory.make();
  const identity id = identity_from_seed(seed_of(5));
  slot_teller handler;
  agent_link_options o = b.agent_options;
  o.router = b.hubs[0]->address;
  handler.link = std::make_unique<agent_router_link>(b.l, end->ref(), id, handler, o);
  end->request_pump = [&] {
    if (handler.link) handler.link->request_pump();
  };
  handler.link->start();
  ASSERT_TRUE(b.until([&] { return handler.up; }));
  std::vector<std::unique_ptr<client>> clients;
  for (const uint32_t worker : {0u, 1u}) {
    for (const char *target : {"/busy", "/held"}) {  // a refusal: the router is owed a PONG when a slot is free
      open_request r;
      r.target = target;
      clients.push_back(std::make_unique<client>());
      client &c = *clients.back();
      c.stream = b.hub(worker).open(id.peer_id, r, c, std::make_unique<slot_token>(b.slots, nullptr), c.failure);
    }
  }
  ASSERT_TRUE(b.until([&] { return handler.held == 2; }));
  agent_router_link *const link = handler.link.get();
  delete link;  // as a member goes: the handler still reaches it while it is destroyed
  handler.link.release();
  EXPECT_EQ(handler.freed, 2);
  EXPECT_TRUE(b.until([&] { return b.slots == 0; }));
}

TEST_F(link_session, a_final_kick_ends_the_dialling) {
  b.start_hubs();
  agent_side &a = b.up();
  b.hub().kick_peer(a.id.peer_id, {"removed", "removed by the operator", 0, true});
  EXPECT_TRUE(b.until([&] { return a.behind.final_kick; }));
  EXPECT_FALSE(b.until([&] { return a.up(); }, 60));
}

TEST_F(link_session, unknown_records_are_ignored_unless_critical) {
  b.start_hubs();
  raw_agent raw(b, 3);
  ASSERT_TRUE(raw.join());
  raw.send({.what = static_cast<kind>(99)});
  raw.send({.what = kind::ping, .seq = 1});
  EXPECT_TRUE(raw.wait(kind::pong));
  raw.send({.what = static_cast<kind>(99), .flags = flag_critical});
  EXPECT_TRUE(b.until([&] { return raw.lost; }));
}

}  // namespace
}  // namespace hive::link::testing
