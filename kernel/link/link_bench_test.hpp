// What the link's tests share: a directory with the owner rules, an engine behind an agent, clients, and a bench that
// puts hubs and agents on one loop.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>

#include "link/agent_impl.hpp"
#include "link/fake_transport_test.hpp"
#include "link/hub_impl.hpp"

namespace hive::link::testing {

inline const std::string secret_a = "0123456789abcdef0123456789abcdef";
inline const std::string secret_b = "fedcba9876543210fedcba9876543210";

// One owner per key, as the registry decides it: the owner is a boot id; a newcomer waits for a probe of the owner.
class owner_directory final : public directory {
 public:
  struct owner {
    uint64_t boot_id = 0;
    std::set<uint64_t> links;   // worker << 48 | peer
  };
  std::function<router_hub::impl *(uint32_t worker)> hub_of;
  std::map<std::string, owner> owners;
  std::vector<std::string> log;
  std::map<std::string, std::string> metadata;
  std::vector<std::pair<std::string, double>> seen_signals;
  pong_info last_pong;
  int pongs = 0, heartbeats = 0, renewals = 0, busy = 0, goodbyes = 0, expired_on = 0, expired_off = 0, probes = 0;
  bool is_draining = false;
  bool hold_decisions = false;
  std::vector<std::function<void()>> held_decisions;

  static uint64_t pack(link_id l) { return static_cast<uint64_t>(l.worker) << 48 | l.peer; }

  void authenticate(auth_request r, std::function<void(auth_decision)> reply) override {
    if (hold_decisions) return held_decisions.push_back([this, r, reply] { authenticate(r, reply); });
    if (r.renewal) ++renewals;
    auto &o = owners[r.peer_id];
    const auto take = [this, r, reply] {
      auto &mine = owners[r.peer_id];
      mine.boot_id = r.boot_id;
      mine.links.insert(pack(r.link));
      if (r.link_index == 0) metadata[r.peer_id] = r.metadata;
      log.push_back("welcome");
      auth_decision welcome;
      welcome.what = auth_decision::kind::welcome;
      reply(std::move(welcome));
    };
    if (o.links.empty() || o.boot_id == r.boot_id) return take();
    if (r.link_index != 0) return reply({auth_decision::kind::refuse, "duplicate", "not the owner", 5000, false});
    ++probes;
    const auto worker = static_cast<uint32_t>(*o.links.begin() >> 48);
    hub_of(worker)->probe(r.peer_id, [this, r, reply, worker, take](bool alive) {
      if (alive) {
        log.push_back("duplicate");
        return reply({auth_decision::kind::refuse, "duplicate", "another copy of this identity is alive", 5000, false});
      }
      log.push_back("takeover");
      hub_of(worker)->kick_peer(r.peer_id, {"replaced", "another copy took over", 0, false});
      take();
    });
  }
  void link_lost(link_id l, std::string_view) override {
    for (auto &[id, o] : owners) o.links.erase(pack(l));
  }
  void heartbeat(std::string_view, bool, std::string_view) override { ++heartbeats; }
  void signals(std::string_view, const std::vector<signal_value> &values, std::string_view) override {
    for (const auto &v : values) seen_signals.emplace_back(v.name, v.value);
  }
  void models(std::string_view id, std::string_view json) override { metadata[std::string(id)] = json; }
  void pong(std::string_view, const pong_info &p, link_id) override {
    last_pong = p;
    ++pongs;
  }
  void refused_busy(std::string_view, const pong_info &) override { ++busy; }
  void draining(std::string_view, bool on) override { is_draining = on; }
  void goodbye(std::string_view) override { ++goodbyes; }
  void expired(std::string_view, bool on) override { ++(on ? expired_on : expired_off); }
};

constexpr size_t mixed_chunks = SIZE_MAX;  // as engine::chunk: pieces of all sizes in turn

// An engine behind an agent. The target says what it does with a request.
class engine final : public agent_link_handler {
 public:
  struct request final : agent_stream_events {
    request(engine &owner, agent_stream &s, const incoming_request &r) : e(owner), stream(s), target(r.target) { e.live.insert(this); }
    ~request() override { e.live.erase(this); }
    void on_body(std::string_view part, bool last) override {
      body.append(part);
      if (target == "/throws-at-body") throw std::runtime_error("the engine broke");
      if (target != "/hold-body") stream.body_consumed(part.size());
      if (last) complete = true;
      if (last && target == "/echo") {
        const http::field f{"content-type", "text/plain"};
        stream.head({.status = 200, .fields = {&f, 1}}, false);
        send = body;
        produce();
      }
    }
    void start_answer() { stream.head({.status = 200, .fields = {}}, true); }
    void produce() {
      while (!over && at < send.size()) {
        static constexpr size_t mixed[] = {1, max_payload_bytes, 255, 700, 50'000, 64, 20'000, 256};
        const size_t most = chunk == 0 ? send.size() : chunk == mixed_chunks ? mixed[parts++ % std::size(mixed)] : chunk;
        const size_t n = std::min(most, send.size() - at);
        const std::string_view part = std::string_view(send).substr(at, n);
        at += n;
        if (!stream.data(part)) return;
      }
      finish();
    }
    void finish() {
      if (over || hold_end || at < send.size()) return;
      over = true;
      stream.end({.prompt_tokens = 7, .output_tokens = 9, .cached_tokens = 1, .known = true});
    }
    void on_writable() override { produce(); }
    void on_cancelled(cause c) override {
      over = true;
      why = c;
      ++e.cancels;
      e.last_cancel = c;
    }
    engine &e;
    agent_stream &stream;
    std::string target, body, send;
    size_t at = 0, chunk = 0, parts = 0;
    bool complete = false, over = false, hold_end = false;
    cause why = cause::none;
  };

  std::unique_ptr<agent_stream_events> on_open(const incoming_request &r, agent_stream &s) override {
    ++opens;
    if (r.target == "/busy") {
      s.refuse(cause::busy, "all slots taken", 10);
      return nullptr;
    }
    if (r.target == "/nobody") return nullptr;
    if (r.target == "/throws-at-open") throw std::runtime_error("the engine broke");
    auto q = std::make_unique<request>(*this, s, r);
    if (r.target == "/accept") s.accept();
    if (r.target.starts_with("/send/")) {
      q->send.assign(std::stoul(std::string(r.target.substr(6))), 'x');
      q->chunk = chunk;
      q->start_answer();
      q->produce();
    }
    return q;
  }
  std::string metadata() override { return R"({"model":"m"})"; }
  void on_welcomed() override { ++welcomes; }
  void on_lost(std::string_view) override { ++losses; }
  void on_kicked(std::string_view code, std::string_view, bool final) override {
    kicks.emplace_back(code);
    final_kick = final_kick || final;
  }
  void on_drain_requested(uint64_t ms) override { drain_ms = ms; }
  pong_info load() override { 
    const auto slots = static_cast<uint32_t>(live.size());
    return {.in_flight_total = slots, .in_flight_yours = slots, .capacity = 8};
  }

  std::set<request *> live;
  std::vector<std::string> kicks;
  size_t chunk = 0;
  int opens = 0, cancels = 0, welcomes = 0, losses = 0;
  uint64_t drain_ms = 0;
  bool final_kick = false;
  cause last_cancel = cause::none;
};

struct slot_token final : held {
  slot_token(int &c, int *l) : count(c), late(l) { ++count; }
  ~slot_token() override { --count; }
  void late_usage(const usage &) override {
    if (late) ++*late;
  }
  int &count;
  int *late;
};

struct client final : stream_events {
  void on_head(const stream_head &h) override {
    ++heads;
    status = h.status;
    rtt_ms = h.rtt_ms;
    for (const http::field &f : h.fields)
      if (f.name == ":class") judged = f.value;
    if (cancel_at_head) stream.reset();
  }
  void on_data(std::string_view d) override {
    got += d.size();
    if (keep) text.append(d);
    unread += d.size();
    max_unread = std::max(max_unread, unread);
    if (cancel_at_data) stream.reset();
    else if (reads) read_all();
  }
  void read_all() {
    const size_t n = std::exchange(unread, 0);
    if (stream) stream->consumed(n);
  }
  void on_end(const usage &u) override {
    ++ends;
    tokens = u;
  }
  void on_failed(const stream_failure &f) override {
    ++ends;
    failed = f.why;
    failure = f;
  }
  bool over() const { return ends > 0; }
  std::unique_ptr<router_stream> stream;
  std::string text, judged;
  size_t got = 0, unread = 0, max_unread = 0;
  int heads = 0, ends = 0, status = 0;
  double rtt_ms = 0;
  bool client_is_timed() const override { return timed; }
  bool reads = true, keep = false, cancel_at_head = false, cancel_at_data = false, timed = false;
  usage tokens;
  cause failed = cause::none;
  stream_failure failure;
};

inline key32 seed_of(uint8_t n) {
  key32 s{};
  s[0] = n;
  return s;
}

// Made once a seed, for the fuzz target that needs it each time it runs.
inline const identity &identity_of(uint8_t seed) {
  static std::map<uint8_t, identity> made;
  const auto known = made.find(seed);
  return known != made.end() ? known->second : made.emplace(seed, identity_from_seed(seed_of(seed))).first->second;
}

struct agent_side {
  agent_side(loop &l, std::unique_ptr<transport_end> e, uint8_t seed, agent_link_options o)
      : id(identity_of(seed)), end(std::move(e)),
        link(std::make_unique<agent_router_link::impl>(l, end->ref(), id, behind, o)) {
    end->request_pump = [this] { if (link) link->pump.request(); };
  }
  ~agent_side() { link.reset(); }
  bool up() const { return link->all_welcomed; }
  identity id;
  engine behind;
  std::unique_ptr<transport_end> end;
  std::unique_ptr<agent_router_link::impl> link;
};

struct hub_side {
  hub_side(loop &l, std::unique_ptr<transport_end> e, directory &d, const hub_options &o)
      : end(std::move(e)), hub(std::make_unique<router_hub::impl>(l, end->ref(), d, o)) {
    end->request_pump = [this] { if (hub) hub->pump.request(); };
  }
  ~hub_side() { hub.reset(); }
  std::unique_ptr<transport_end> end;
  std::unique_ptr<router_hub::impl> hub;
  std::string address;
};

// Hubs and agents on one loop over one factory. Declared before everything they use; torn down agents first.
class bench {
 public:
  explicit bench(transport_factory &f) : factory(f) {
    options.secrets = {secret_a};
    options.router_boot_id = 77;
    options.open_limit_ns = 60 * ns_per_s;  // a sanitizer on a busy machine answers late; the limit has tests of its own
    agent_options.secrets = {secret_a};
    agent_options.reconnect_min_ns = 5 * ns_per_ms;
    agent_options.reconnect_max_ns = 20 * ns_per_ms;
    dir.hub_of = [this](uint32_t w) { return hubs[w]->hub.get(); };
  }
  void start_hubs(uint32_t workers = 1) {
    std::vector<std::string> all;
    options.workers = workers;
    for (uint32_t w = 0; w < workers; ++w) {
      options.worker = w;
      hubs.push_back(std::make_unique<hub_side>(l, factory.make(), dir, options));
      ASSERT_TRUE(hubs[w]->hub->start().ok());
      auto bound = hubs[w]->hub->pump.listen("127.0.0.1:0");
      ASSERT_TRUE(bound.ok()) << bound.why().text();
      hubs[w]->address = *bound;
      all.push_back(*bound);
    }
    for (auto &h : hubs) h->hub->endpoints = all;
  }
  agent_side &start_agent(uint8_t seed = 1) {
    agent_options.router = hubs[0]->address;
    agents.push_back(std::make_unique<agent_side>(l, factory.make(), seed, agent_options));
    agents.back()->link->start();
    return *agents.back();
  }
  agent_side &up(uint8_t seed = 1) {
    agent_side &a = start_agent(seed);
    EXPECT_TRUE(until([&] { return a.up(); })) << "the agent was not welcomed";
    return a;
  }
  // Runs the loop until `done` holds, at most `ms`.
  bool until(const std::function<bool()> &done, uint64_t ms = 20'000) {
    const uint64_t limit = now_ns() + ms * ns_per_ms;
    while (!done()) {
      if (now_ns() > limit) return false;
      l.io().run_one_for(std::chrono::milliseconds(2));
    }
    return true;
  }
  // Until nothing is ready any more (timers aside).
  void settle() {
    while (l.io().poll() > 0) {
    }
  }
  router_hub::impl &hub(uint32_t w = 0) { return *hubs[w]->hub; }
  std::unique_ptr<client> open(agent_side &a, std::string_view target, std::string body = {}, uint32_t worker = 0) {
    auto c = std::make_unique<client>();
    open(*c, a, target, std::move(body), worker);
    return c;
  }
  void open(client &c, agent_side &a, std::string_view target, std::string body = {}, uint32_t worker = 0) {
    open_request r;
    r.target = target;
    r.request_id = "r";
    r.body = std::make_shared<const std::string>(std::move(body));
    c.stream = hub(worker).open(a.id.peer_id, r, c, std::make_unique<slot_token>(slots, &late), c.failure);
  }
  hub_link *link_of(agent_side &a, uint32_t worker = 0) {
    for (auto &[p, link] : hub(worker).links())
      if (link->peer_id == a.id.peer_id && link->at == hub_link::phase::welcomed) return link.get();
    return nullptr;
  }
  // Both sides hold the same streams, the slots are those of the agent, and all link credit is home.
  void expect_at_rest(agent_side &a, uint32_t worker = 0) {
    hub_link *r = link_of(a, worker);
    agent_channel *c = a.link->slots[worker]->link.get();
    ASSERT_TRUE(r && c);
    until([&] {
      return r->send_credit().available() + c->receive_credit().owed() == c->receive_credit().size() &&
             c->send_credit().available() + r->receive_credit().owed() == r->receive_credit().size() &&
             r->streams.size() == c->streams.size();
    });
    std::set<uint64_t> router_streams, agent_streams;
    for (auto &[id, s] : r->streams) router_streams.insert(id);
    for (auto &[id, s] : c->streams) agent_streams.insert(id);
    EXPECT_EQ(router_streams, agent_streams);
    EXPECT_EQ(slots, static_cast<int>(router_streams.size()));
    EXPECT_EQ(r->send_credit().available() + c->receive_credit().owed(), c->receive_credit().size());
    EXPECT_EQ(c->send_credit().available() + r->receive_credit().owed(), r->receive_credit().size());
    // A quarter waits for the next step, and half may: a window that has just doubled grants its growth with that step.
    EXPECT_LT(c->receive_credit().owed(), c->receive_credit().size() / 4 * 3);
    EXPECT_LT(r->receive_credit().owed(), r->receive_credit().size() / 4 * 3);
  }

  loop l;
  transport_factory &factory;
  owner_directory dir;
  hub_options options;
  agent_link_options agent_options;
  std::vector<std::unique_ptr<hub_side>> hubs;
  std::vector<std::unique_ptr<agent_side>> agents;
  int slots = 0, late = 0;
};

// Speaks the protocol by hand, to say what no agent says.
class raw_agent final : public transport_owner {
 public:
  // `router`: the router's CURVE key, without one that of secret_a.
  raw_agent(bench &b, uint8_t seed, const key32 *router = nullptr) : bench_(b), id(identity_of(seed)), end(b.factory.make()), pump(b.l, end->ref(), *this) {
    end->request_pump = [this] { pump.request(); };
    router_key = router ? *router : router_keys(secret_a).public_key;
    EXPECT_TRUE(pump.start(0, 1, id.curve_secret, id.curve_public, &router_key).ok());
    auto p = pump.connect(b.hubs[0]->address);
    EXPECT_TRUE(p.ok());
    peer = *p;
    EXPECT_TRUE(b.until([&] { return connected; }));
  }
  struct heard_record {
    record_head head;
    std::string meta, payload;
  };
  void on_peer(hive_peer, const key32 &, std::string_view) override { connected = true; }
  void on_frame(hive_peer, std::string_view frame) override {
    frame_reader reader(frame);
    record r;
    while (reader.next(r) == frame_reader::outcome::record) heard.push_back({r, std::string(r.meta), std::string(r.payload)});
  }
  void on_peer_lost(hive_peer, int32_t, std::string_view) override { lost = true; }
  void send_raw(std::string_view bytes) {
    const hive_bytes part{reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()};
    pump.send(peer, &part, 1);
  }
  void send(const record_head &h, std::string_view meta = {}, std::string_view payload = {}) {
    std::string bytes(encoded_bytes(meta.size(), payload.size()), '\0');
    encode_record(reinterpret_cast<uint8_t *>(bytes.data()), h, meta, payload);
    send_raw(bytes);
  }
  heard_record *find(kind k) {
    for (auto &h : heard)
      if (h.head.what == k) return &h;
    return nullptr;
  }
  heard_record *wait(kind k) {
    bench_.until([&] { return find(k) != nullptr || lost; });
    return find(k);
  }
  void hello(std::string_view peer_id) { send({.what = kind::hello}, to_json(hello_message{1, 1, boot_id, std::string(peer_id), nonce, 0})); }
  std::string auth_meta(std::string_view secret, std::string_view metadata) {
    const auto c = parse_challenge(find(kind::challenge)->meta);
    const proof_input in{1, router_key, id.curve_public, id.peer_id, nonce, c->nonce, sha256(metadata)};
    return to_json(auth_message{make_proof(proof_key(secret), role::agent, in), 0});
  }
  bool join() {
    hello(id.peer_id);
    if (!wait(kind::challenge)) return false;
    send({.what = kind::auth}, auth_meta(secret_a, "{}"), "{}");
    auto *w = wait(kind::welcome);
    if (!w) return false;
    epoch = parse_welcome(w->meta)->epoch;
    return true;
  }
  std::string kicked() {
    auto *k = wait(kind::kick);
    return k ? parse_kick(k->meta)->code : "";
  }

  bench &bench_;
  identity id;
  std::unique_ptr<transport_end> end;
  transport_pump pump;
  key32 router_key{};
  hive_peer peer = 0;
  key32 nonce = random_nonce();
  uint64_t boot_id = random_u64();
  uint16_t epoch = 0;
  bool connected = false, lost = false;
  std::vector<heard_record> heard;
};

}  // namespace hive::link::testing
