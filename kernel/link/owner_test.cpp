// The router's side of streams against agents that write what no agent writes, and against owners that throw.
#include <gmock/gmock.h>

#include <set>
#include <stdexcept>

#include "link/link_bench_test.hpp"

namespace hive::link::testing {
namespace {

using ::testing::ElementsAre;

class link_owner : public ::testing::Test {
 protected:
  // Opens a stream to an agent whose records the test writes; 0: it was not opened.
  uint64_t open(raw_agent &raw, stream_events &events, std::unique_ptr<router_stream> &stream) {
    stream = b.hub().open(raw.id.peer_id, {}, events, std::make_unique<slot_token>(b.slots, nullptr), why);
    const auto *sent = raw.wait(kind::open);
    return sent == nullptr ? 0 : sent->head.stream;
  }
  fake_factory factory;
  bench b{factory};
  stream_failure why;
};

struct names_of_fields final : stream_events {
  void on_head(const stream_head &h) override {
    for (const http::field &f : h.fields) seen.emplace_back(f.name);
  }
  void on_data(std::string_view) override {}
  void on_end(const usage &) override {}
  void on_failed(const stream_failure &) override {}
  std::vector<std::string> seen;
};

// Naive variant: what an agent calls a name is one, whatever lines it holds.
TEST_F(link_owner, fields_of_an_agent_whose_names_are_none_are_dropped) {
  b.start_hubs();
  raw_agent raw(b, 3);
  ASSERT_TRUE(raw.join());
  names_of_fields owner;
  std::unique_ptr<router_stream> stream;
  const uint64_t id = open(raw, owner, stream);
  ASSERT_NE(id, 0u);
  meta_writer m;
  for (const char *name : {"x-good", "x-a: 1\r\nset-cookie: s=1\r\nx-b", "set-cookie ", "", "x\ty", "x\xc3\xa9", ":class", "X-Also_Good.1~"}) m.add(name, "v");
  raw.send({.what = kind::head, .stream = id, .seq = 0, .aux = 200}, m.take());
  ASSERT_TRUE(b.until([&] { return !owner.seen.empty(); }));
  EXPECT_THAT(owner.seen, ElementsAre("x-good", ":class", "X-Also_Good.1~"));
}

// An owner that throws out of some of its calls.
struct owner_that_throws final : stream_events {
  explicit owner_that_throws(std::set<std::string> of) : at(std::move(of)) {}
  void call(const char *what) {
    calls.emplace_back(what);
    if (at.contains(what)) throw std::runtime_error("the owner broke");
  }
  void on_head(const stream_head &) override { call("head"); }
  void on_data(std::string_view) override { call("data"); }
  void on_end(const usage &) override { call("end"); }
  void on_failed(const stream_failure &) override { call("failed"); }
  void on_thrown() override { call("thrown"); }
  const std::set<std::string> at;
  std::vector<std::string> calls;
};

// Naive variant: the transport's callback may not throw, so the program ends; or what catches there closes the link of all.
TEST_F(link_owner, one_that_throws_ends_its_own_stream_and_no_other) {
  b.start_hubs();
  agent_side &a = b.up();
  const struct { std::set<std::string> at; const char *target; std::vector<std::string> calls; } cases[] = {
      {{"head"}, "/send/100", {"head", "thrown"}},
      {{"data"}, "/send/200000", {"head", "data", "thrown"}},
      {{"end"}, "/send/100", {"head", "data", "end", "thrown"}},
      {{"failed"}, "/busy", {"failed", "thrown"}},
      {{"data", "thrown"}, "/send/200000", {"head", "data", "thrown"}}};
  for (const auto &c : cases) {
    auto other = b.open(a, "/hold");
    ASSERT_TRUE(b.until([&] { return a.behind.live.size() == 1; })) << c.target;
    owner_that_throws owner(c.at);
    open_request r;
    r.target = c.target;
    r.request_id = "r";
    const auto stream = b.hub().open(a.id.peer_id, r, owner, std::make_unique<slot_token>(b.slots, nullptr), why);
    ASSERT_TRUE(b.until([&] { return b.slots == 1; })) << c.target << ": the slot is back";
    b.settle();
    EXPECT_EQ(owner.calls, c.calls) << c.target;
    stream->consumed(1);
    stream->cancel(cause::deadline);
    auto &q = **a.behind.live.begin();
    q.start_answer();
    q.send = "answer";
    q.produce();
    ASSERT_TRUE(b.until([&] { return other->over(); })) << c.target;
    EXPECT_EQ(other->got, 6u) << c.target;
    EXPECT_EQ(other->failed, cause::none) << c.target;
    b.settle();
    b.expect_at_rest(a);
  }
  EXPECT_EQ(b.hub().counters.links_lost, 0u);
}

TEST_F(link_owner, an_engine_side_that_throws_ends_its_own_request_and_no_other) {
  b.start_hubs();
  agent_side &a = b.up();
  auto other = b.open(a, "/hold");
  ASSERT_TRUE(b.until([&] { return a.behind.live.size() == 1; }));
  for (const char *target : {"/throws-at-open", "/throws-at-body"}) {
    auto c = b.open(a, target, "body");
    ASSERT_TRUE(b.until([&] { return c->over(); })) << target;
    EXPECT_EQ(c->failed, cause::agent_failed) << target;
    EXPECT_TRUE(b.until([&] { return b.slots == 1; })) << target;
  }
  EXPECT_FALSE(other->over());
  b.settle();
  b.expect_at_rest(a);
  EXPECT_EQ(a.behind.losses, 0);
}

// What a transport tells of, and throws when it is told of a message.
struct peer_that_throws final : transport_owner {
  peer_that_throws(bench &b, transport_end &end) : id(identity_from_seed(seed_of(7))), pump(b.l, end.ref(), *this) {
    end.request_pump = [this] { pump.request(); };
    const key32 router = router_keys(secret_a).public_key;
    EXPECT_TRUE(pump.start(0, 1, id.curve_secret, id.curve_public, &router).ok());
    peer = *pump.connect(b.hubs[0]->address);
  }
  void on_peer(hive_peer, const key32 &, std::string_view) override { connected = true; }
  void on_frame(hive_peer, std::string_view) override {
    ++frames;
    throw std::runtime_error("the owner broke");
  }
  void on_peer_lost(hive_peer, int32_t, std::string_view) override {
    ++losses;
    throw std::runtime_error("the owner broke again");
  }
  const identity id;
  transport_pump pump;
  hive_peer peer = 0;
  bool connected = false;
  int frames = 0, losses = 0;
};

TEST_F(link_owner, an_exception_out_of_a_frame_costs_that_connection_only) {
  b.start_hubs();
  agent_side &a = b.up();
  const auto end = factory.make();
  peer_that_throws broken(b, *end);
  ASSERT_TRUE(b.until([&] { return broken.connected; }));
  std::string hello;
  const std::string meta = to_json(hello_message{1, 1, 5, broken.id.peer_id, random_nonce(), 0});
  hello.resize(encoded_bytes(meta.size(), 0));
  encode_record(reinterpret_cast<uint8_t *>(hello.data()), {.what = kind::hello}, meta, {});
  const hive_bytes part{reinterpret_cast<const uint8_t *>(hello.data()), hello.size()};
  ASSERT_EQ(broken.pump.send(broken.peer, &part, 1), HIVE_OK);
  ASSERT_TRUE(b.until([&] { return broken.losses > 0 && b.hub().links().size() == 1; })) << "the router has lost it, too";
  b.settle();
  EXPECT_EQ(broken.frames, 1);
  EXPECT_EQ(broken.losses, 1) << "told once, by the pump; the transport's own word is not passed on";
  auto c = b.open(a, "/echo", "x");
  ASSERT_TRUE(b.until([&] { return c->over(); }));
  EXPECT_EQ(c->failed, cause::none);
}

}  // namespace
}  // namespace hive::link::testing
