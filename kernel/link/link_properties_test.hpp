// Tests that must hold over every transport. A program includes this once and instantiates link_over_transport with a
// maker of its transport factory.
#pragma once

#include "link/link_bench_test.hpp"

namespace hive::link::testing {

using factory_maker = std::unique_ptr<transport_factory> (*)();

class link_over_transport : public ::testing::TestWithParam<factory_maker> {
 protected:
  std::unique_ptr<transport_factory> factory = GetParam()();
  bench b{*factory};
};

TEST_P(link_over_transport, carries_small_and_large_bodies_both_ways) {
  b.options.ping_ns = 3600 * ns_per_s;  // a window that grew on a slow machine is owed until the next step
  b.start_hubs();
  agent_side &a = b.up();
  for (const size_t size : {size_t{0}, size_t{1}, size_t{65'536}, size_t{65'537}, size_t{3'000'000}}) {
    std::string body(size, 'b');
    for (size_t i = 0; i < size; i += 997) body[i] = static_cast<char>(i);
    client c;
    c.keep = true;
    b.open(c, a, "/echo", body);
    ASSERT_TRUE(b.until([&] { return c.over(); })) << size;
    EXPECT_EQ(c.failed, cause::none);
    EXPECT_EQ(c.heads, 1);
    EXPECT_GT(c.rtt_ms, 0);
    EXPECT_TRUE(c.text == body) << size;
    EXPECT_TRUE(c.tokens.known);
    EXPECT_EQ(c.tokens.output_tokens, 9u);
    b.settle();
    b.expect_at_rest(a);
  }
}

TEST_P(link_over_transport, clients_that_do_not_read_stop_nobody_else) {
  b.options.stream_window = 64 * 1024;
  b.options.link_window = 256 * 1024;
  b.options.ping_ns = 3600 * ns_per_s;  // the window stays as it is, however slow the machine
  b.start_hubs();
  agent_side &a = b.up();
  a.behind.chunk = 10'000;
  std::vector<std::unique_ptr<client>> stuck;
  for (int i = 0; i < 64; ++i) {
    stuck.push_back(std::make_unique<client>());
    stuck.back()->reads = false;
    b.open(*stuck.back(), a, "/send/1000000");
  }
  ASSERT_TRUE(b.until([&] {
    for (auto &c : stuck)
      if (c->got < 64 * 1024) return false;
    return true;
  }));
  auto reader = b.open(a, "/send/5000000");
  EXPECT_TRUE(b.until([&] { return reader->over(); }));
  EXPECT_EQ(reader->got, 5'000'000u);
  for (auto &c : stuck) {
    EXPECT_LE(c->got, 64u * 1024 + max_payload_bytes);
    c->stream.reset();
  }
  EXPECT_TRUE(b.until([&] { return b.slots == 0; }));
  b.settle();
  b.expect_at_rest(a);
}

TEST_P(link_over_transport, many_cancels_with_data_in_flight_leave_full_throughput) {
  b.start_hubs();
  agent_side &a = b.up();
  a.behind.chunk = 4'000;
  for (int round = 0; round < 100; ++round) {
    std::vector<std::unique_ptr<client>> clients;
    for (int i = 0; i < 20; ++i) {
      clients.push_back(std::make_unique<client>());
      clients.back()->cancel_at_head = i % 3 == 0;
      clients.back()->cancel_at_data = i % 3 == 1;
      b.open(*clients.back(), a, "/send/100000");
      if (i % 3 == 2 && i % 2 == 0) clients.back()->stream.reset();
    }
    ASSERT_TRUE(b.until([&] { return b.slots == 0; })) << round;
  }
  b.settle();
  b.expect_at_rest(a);
  auto c = b.open(a, "/send/8000000");
  EXPECT_TRUE(b.until([&] { return c->over(); }));
  EXPECT_EQ(c->got, 8'000'000u);
  EXPECT_EQ(b.hub().counters.links_lost, 0u);
}

TEST_P(link_over_transport, an_agent_with_another_secret_stays_outside) {
  b.start_hubs();
  b.agent_options.secrets = {secret_b};
  agent_side &a = b.start_agent();
  EXPECT_FALSE(b.until([&] { return a.up(); }, 150));
  EXPECT_EQ(b.hub().counters.links_welcomed, 0u);
}

TEST_P(link_over_transport, an_agent_tries_its_secrets_in_turn) {
  b.start_hubs();
  b.agent_options.secrets = {secret_b, "another secret of the agent's, 32+", secret_a};
  agent_side &a = b.up();
  auto c = b.open(a, "/echo", "hello");
  EXPECT_TRUE(b.until([&] { return c->over(); }));
  EXPECT_EQ(c->got, 5u);
}

TEST_P(link_over_transport, two_workers_serve_one_agent) {
  b.start_hubs(2);
  agent_side &a = b.up();
  for (uint32_t w = 0; w < 2; ++w) {
    auto c = b.open(a, "/echo", std::string(200'000, 'x'), w);
    EXPECT_TRUE(b.until([&] { return c->over(); }));
    EXPECT_EQ(c->got, 200'000u);
    b.expect_at_rest(a, w);
  }
}

}  // namespace hive::link::testing
