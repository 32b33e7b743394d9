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

// A frame of that many bytes with one record in it.
inline std::string frame_of(const record_head &head, std::string_view meta, size_t bytes) {
  const std::string payload(bytes - record_header_bytes - meta.size(), ' ');
  std::string out(encoded_bytes(meta.size(), payload.size()), '\0');
  encode_record(reinterpret_cast<uint8_t *>(out.data()), head, meta, payload);
  EXPECT_EQ(out.size(), bytes);
  return out;
}

// Naive variants: what is well formed is read, whoever sends it; the limit holds for HELLO alone.
TEST_P(link_over_transport, before_its_proof_a_peer_may_send_64_kib_at_once_however_well_formed_and_after_it_a_whole_frame) {
  constexpr size_t limit = 64 * 1024;
  b.start_hubs();
  agent_side &a = b.up();
  auto running = b.open(a, "/silent");
  ASSERT_TRUE(b.until([&] { return a.behind.opens == 1; }));
  const auto hello_of = [](const raw_agent &raw, size_t bytes) {
    return frame_of({.what = kind::hello}, to_json(hello_message{1, 1, raw.boot_id, raw.id.peer_id, raw.nonce, 0}), bytes);
  };
  const auto prove = [](raw_agent &raw, size_t bytes) {
    const std::string metadata(bytes - record_header_bytes - raw.auth_meta(secret_a, "").size(), ' ');
    raw.send({.what = kind::auth}, raw.auth_meta(secret_a, metadata), metadata);
  };
  const auto refused = [&] { return static_cast<uint64_t>(b.hub().counters.rejected[rejection_of("protocol")]); };

  uint8_t seed = 10;
  uint64_t cut = 0;
  const std::vector<size_t> cases[] = {{limit + 8}, {limit / 2, limit / 2 + 8}, {limit, limit / 4}, {limit, limit}};
  for (const auto &records : cases) {
    raw_agent raw(b, seed++);
    std::string frame;
    for (const size_t bytes : records) frame += hello_of(raw, bytes);
    frame_reader reader(frame);
    record r;
    for (size_t i = 0; i < records.size(); ++i) ASSERT_EQ(reader.next(r), frame_reader::outcome::record);
    raw.send_raw(frame);
    EXPECT_TRUE(b.until([&] { return raw.lost; })) << frame.size();
    EXPECT_TRUE(raw.heard.empty()) << frame.size();
    EXPECT_EQ(refused(), ++cut);
  }
  {
    raw_agent raw(b, seed++);
    raw.hello(raw.id.peer_id);
    ASSERT_TRUE(raw.wait(kind::challenge));
    prove(raw, limit + 8);
    EXPECT_TRUE(b.until([&] { return raw.lost; })) << "a true proof does not make it smaller";
    EXPECT_EQ(raw.find(kind::welcome), nullptr);
    EXPECT_FALSE(b.dir.metadata.contains(raw.id.peer_id));
    EXPECT_EQ(refused(), ++cut);
  }

  raw_agent at_the_limit(b, seed++);
  at_the_limit.send_raw(hello_of(at_the_limit, limit));
  ASSERT_TRUE(at_the_limit.wait(kind::challenge));
  prove(at_the_limit, limit);
  ASSERT_TRUE(at_the_limit.wait(kind::welcome));
  const std::string models = frame_of({.what = kind::models}, {}, limit);
  at_the_limit.send_raw(models + models);
  EXPECT_TRUE(b.until([&] { return b.dir.metadata[at_the_limit.id.peer_id].size() == limit - record_header_bytes; }));

  EXPECT_EQ(refused(), cut);
  EXPECT_EQ(b.hub().counters.protocol_errors, cut);
  EXPECT_EQ(b.hub().links().size(), 2u) << "nothing is kept of who was cut off";
  EXPECT_FALSE(running->over());
  auto c = b.open(a, "/echo", "hello");
  EXPECT_TRUE(b.until([&] { return c->over(); }));
  EXPECT_EQ(c->got, 5u);
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
