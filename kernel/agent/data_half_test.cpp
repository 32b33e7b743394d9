// The data half between two routers and one engine.
#include "agent/data_half.hpp"

#include <gtest/gtest.h>

#include "agent/test_engine.hpp"
#include "link/link_bench_test.hpp"

namespace hive::agent {
namespace {

using link::testing::bench;
using link::testing::client;

class data_half_of_two_routers : public ::testing::Test, private half_events {
 protected:
  void SetUp() override {
    b.options.ping_ns = 3600 * ns_per_s;  // no PONG but those that are owed
    b.start_hubs();
    link::hub_options o = b.options;
    o.router_boot_id = 78;
    second.emplace(b.l, factory.make(), second_directory, o);
    ASSERT_TRUE(second->hub->start().ok());
    second->address = *second->hub->pump.listen("127.0.0.1:0");
    engine.set("/v1/chat/completions", {200, "", test::paged_engine::way::hang});
    half_events &heard_here = *this;
    half.emplace(b.l, codec.codec, http::origin{"127.0.0.1", engine.port(), ""}, options, identity, slots, heard_here);
    size_t i = 0;
    for (const std::string &address : {b.hubs[0]->address, second->address}) {
      ends.push_back(factory.make());
      router_target t{b.agent_options, ends.back()->ref()};
      t.options.router = address;
      half->add_router(std::move(t));
      ends.back()->request_pump = [this, i] {
        if (half) half->request_pump(i);
      };
      ++i;
    }
    half->set_engine(true, {}, {"m"});
    half->dial();
    ASSERT_TRUE(b.until([&] { return registered == 2; }));
  }
  void TearDown() override { half.reset(); }

  void ask(client &c, link::router_hub::impl &hub, bool buffered_head = false, std::string_view target = "/v1/chat/completions",
           std::string_view method = "POST") {
    link::open_request r;
    r.buffered_head = buffered_head;
    r.method = method;
    r.target = target;
    r.model = "m";
    r.body = std::make_shared<const std::string>("{}");
    c.stream = hub.open(identity.peer_id, r, c, nullptr, c.failure);
  }

  link::testing::fake_factory factory;
  bench b{factory};
  link::testing::owner_directory second_directory;
  std::optional<link::testing::hub_side> second;
  test::paged_engine engine;
  test::quick_codec codec;
  agent_options options;
  const link::identity identity = link::identity_from_seed(link::testing::seed_of(1));
  slot_count slots{1};
  std::vector<std::unique_ptr<link::testing::transport_end>> ends;
  std::optional<data_half> half;
  int registered = 0;

 private:
  void on_registered(size_t) override { ++registered; }
  void on_drain_asked(size_t, uint64_t) override {}
};

TEST_F(data_half_of_two_routers, a_freed_slot_is_told_to_the_router_that_was_refused_whoever_had_it) {
  client holds, refused;
  ask(holds, b.hub());
  ASSERT_TRUE(b.until([&] { return slots.in_flight == 1; }));
  ask(refused, *second->hub);
  ASSERT_TRUE(b.until([&] { return refused.over(); }));
  EXPECT_EQ(refused.failed, link::cause::busy);
  const int before = second_directory.pongs;
  holds.stream.reset();
  EXPECT_TRUE(b.until([&] { return second_directory.pongs > before; })) << "it is told with the next PING only";
  EXPECT_EQ(second_directory.last_pong.in_flight_total, 0u);
  EXPECT_EQ(b.dir.pongs, 0) << "it was not refused";
}

TEST_F(data_half_of_two_routers, a_half_that_goes_with_streams_under_way_frees_their_slots) {
  client holds, refused;
  ask(holds, b.hub());
  ASSERT_TRUE(b.until([&] { return slots.in_flight == 1; }));
  ask(refused, *second->hub);
  ASSERT_TRUE(b.until([&] { return refused.over(); }));
  half.reset();
  EXPECT_EQ(slots.in_flight, 0u);
  EXPECT_TRUE(b.until([&] { return holds.over(); }));
}

// Naive variant: only a 200 is an answer. A job that was taken in is asked for again elsewhere.
TEST_F(data_half_of_two_routers, any_2xx_is_an_answer_of_the_routes_that_an_operator_allows) {
  const char *sound = R"({"job":1})", *broken = R"({"error":{"message":"boom","code":500}})";
  const struct { const char *path; int status; const char *body, *judged; } cases[] = {
      {"/tokenize", 201, sound, ""},         {"/tokenize", 202, sound, ""}, {"/tokenize", 204, "", ""},
      {"/tokenize", 202, broken, "failed"},  {"/tokenize", 302, sound, "failed"},
      {"/v1/completions", 202, sound, "failed"}, {"/v1/completions", 204, "", "failed"}};
  for (const auto &c : cases)
    for (const bool buffered_head : {false, true}) {
      engine.set(c.path, {c.status, c.body});
      client asks;
      asks.keep = true;
      ask(asks, b.hub(), buffered_head, c.path);
      ASSERT_TRUE(b.until([&] { return asks.over(); })) << c.path << c.status;
      EXPECT_EQ(asks.failed, link::cause::none) << c.path << c.status;
      EXPECT_EQ(asks.status, c.status) << c.path;
      // Without a type and without being held back the body passes unread, as that of a 200 does.
      if (buffered_head || c.body != broken) {
        EXPECT_EQ(asks.judged, c.judged) << c.path << c.status;
      }
      EXPECT_EQ(asks.text, c.body) << c.path << c.status;
      EXPECT_EQ(slots.in_flight, 0u) << c.path << c.status;
    }
}

// Naive variant: the path is compared up to its question mark, the method not at all, and both are written as they are.
TEST_F(data_half_of_two_routers, a_router_reaches_nothing_else_of_the_engine_by_a_line_of_its_own) {
  engine.set("/v1/chat/completions?x=y", {200, R"({"choices":[]})"});
  const std::string second_request = " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\nPOST /sleep";
  const std::string path = "/v1/chat/completions";
  const std::pair<std::string, std::string> cases[] = {
      {"POST", path + "?x" + second_request}, {"POST", path + "?x y"}, {"POST", path + "?\x7f"}, {"POST /sleep HTTP/1.1\r\n\r\nPOST", path}, {"", path}};
  for (const auto &[method, target] : cases) {
    client asks;
    ask(asks, b.hub(), true, target, method);
    ASSERT_TRUE(b.until([&] { return asks.over(); })) << target;
    EXPECT_EQ(asks.failed, link::cause::unknown_model) << target;
  }
  client fine;
  ask(fine, b.hub(), true, path + "?x=y");
  ASSERT_TRUE(b.until([&] { return fine.over(); }));
  EXPECT_EQ(fine.failed, link::cause::none);
  EXPECT_EQ(engine.asked("/sleep"), 0u);
}

// Naive variant: only what is no 200 is judged.
TEST_F(data_half_of_two_routers, a_200_that_carries_an_error_is_judged_like_any_refusal) {
  const struct { const char *body; link::cause failed; const char *judged; } cases[] = {
      {R"({"error":{"message":"boom","code":500}})", link::cause::none, "failed"},
      {R"({"object":"error","message":"boom","code":500})", link::cause::none, "failed"},
      {R"({"error":null,"detail":{},"object":"error"})", link::cause::none, "failed"},
      {R"({ "error" : "boom" })", link::cause::none, "failed"},
      {R"({"error":{"message":"bad","code":400}})", link::cause::none, "client"},
      {R"({"error":{"message":"later","code":429}})", link::cause::overloaded, ""},
      {R"({"error":{"message":"Loading model","code":503}})", link::cause::starting, ""},
      {R"({"error":null,"choices":[]})", link::cause::none, ""},
      {R"({"choices":[{"message":{"content":"error"}}]})", link::cause::none, ""},
      {R"({"choices":[{"message":{"content":"\"error\": \"boom\""}}]})", link::cause::none, ""},
  };
  for (const auto &c : cases) {
    engine.set("/v1/chat/completions", {200, c.body});
    client asks;
    asks.keep = true;
    ask(asks, b.hub(), true);
    ASSERT_TRUE(b.until([&] { return asks.over(); })) << c.body;
    EXPECT_EQ(asks.failed, c.failed) << c.body;
    EXPECT_EQ(asks.judged, c.judged) << c.body;
    EXPECT_EQ(asks.text, c.failed == link::cause::none ? c.body : "") << c.body;
    EXPECT_EQ(slots.in_flight, 0u) << c.body;
  }
}

}  // namespace
}  // namespace hive::agent
