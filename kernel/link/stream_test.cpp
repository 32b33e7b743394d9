// Streams end exactly once on both sides, memory is bounded by credit, and a slow one stops nobody else
// (docs/link.md, Streams).
#include <random>

#include "link/link_properties_test.hpp"

namespace hive::link::testing {
namespace {

class link_stream : public ::testing::Test {
 protected:
  fake_factory factory;
  bench b{factory};

  // A stream to an agent whose records the test writes itself: opened by the router, its head answered. 0: it was not opened.
  uint64_t answered_stream(raw_agent &raw, client &c) {
    c.stream = b.hub().open(raw.id.peer_id, {}, c, std::make_unique<slot_token>(b.slots, nullptr), c.failure);
    const auto *open = raw.wait(kind::open);
    if (open == nullptr) return 0;
    const uint64_t id = open->head.stream;
    raw.send({.what = kind::head, .stream = id, .seq = 0, .aux = 200});
    return id;
  }
};

TEST_F(link_stream, a_cancelled_one_holds_its_slot_until_the_agent_answers) {
  b.start_hubs();
  agent_side &a = b.up();
  auto c = b.open(a, "/silent");
  ASSERT_TRUE(b.until([&] { return a.behind.opens == 1; }));
  factory.net.held = true;
  c->stream->cancel(cause::client_gone);
  c->stream->cancel(cause::deadline);
  b.settle();
  EXPECT_EQ(b.slots, 1);
  EXPECT_EQ(b.hub().counters.streams_closing, 1u);
  factory.net.release();
  EXPECT_TRUE(b.until([&] { return b.slots == 0; }));
  EXPECT_EQ(a.behind.last_cancel, cause::client_gone);
  EXPECT_EQ(c->ends, 0);
  b.settle();
  b.expect_at_rest(a);
}

TEST_F(link_stream, cancel_and_end_that_cross_end_it_once_and_usage_is_still_read) {
  b.start_hubs();
  agent_side &a = b.up();
  auto c = b.open(a, "/hold");
  ASSERT_TRUE(b.until([&] { return a.behind.live.size() == 1; }));
  auto &q = **a.behind.live.begin();
  factory.net.held = true;
  q.start_answer();
  q.send = "tail";
  q.produce();
  b.settle();
  c->stream.reset();
  b.settle();
  factory.net.release();
  EXPECT_TRUE(b.until([&] { return b.slots == 0; }));
  b.settle();
  EXPECT_EQ(c->ends, 0);
  EXPECT_EQ(b.late, 1);
  EXPECT_EQ(a.behind.cancels, 0);
  b.expect_at_rest(a);
}

TEST_F(link_stream, cancel_and_refuse_that_cross_return_the_slot_once) {
  b.start_hubs();
  agent_side &a = b.up();
  factory.net.held = true;
  auto c = b.open(a, "/busy");
  b.settle();
  c->stream.reset();
  b.settle();
  factory.net.release();
  EXPECT_TRUE(b.until([&] { return b.slots == 0; }));
  b.settle();
  EXPECT_EQ(c->ends, 0);
  EXPECT_EQ(b.dir.busy, 1);
  b.expect_at_rest(a);
}

TEST_F(link_stream, a_refusal_names_its_cause_and_a_free_slot_is_told_at_once) {
  b.start_hubs();
  agent_side &a = b.up();
  auto c = b.open(a, "/busy");
  ASSERT_TRUE(b.until([&] { return c->over(); }));
  EXPECT_EQ(c->failed, cause::busy);
  EXPECT_EQ(c->failure.message, "all slots taken");
  EXPECT_EQ(c->failure.retry_after_ms, 10u);
  EXPECT_FALSE(c->failure.reached_engine);
  const int before = b.dir.pongs;
  for (auto &s : a.link->slots)
    if (std::exchange(s->link->refused_busy, false)) a.link->send_pong(*s->link, 0);
  EXPECT_TRUE(b.until([&] { return b.dir.pongs > before; }));
  EXPECT_EQ(b.dir.last_pong.capacity, 8u);
}

// An answer that has ended keeps its slot to the end of the loop turn. A PONG of that turn must not show the slot as another
// router's: this one would keep away from an idle agent until the next PONG.
TEST_F(link_stream, a_pong_of_the_turn_in_which_a_stream_ends_shows_no_work_of_others) {
  b.start_hubs();
  agent_side &a = b.up();
  auto c = b.open(a, "/hold");
  ASSERT_TRUE(b.until([&] { return a.behind.live.size() == 1; }));
  auto &q = **a.behind.live.begin();
  q.start_answer();
  q.finish();
  const pong_info at_once = a.link->load_now();
  EXPECT_EQ(at_once.in_flight_total, 1u);
  EXPECT_EQ(at_once.in_flight_yours, 1u);
  b.settle();
  EXPECT_EQ(a.link->load_now().in_flight_total, 0u);
}

TEST_F(link_stream, an_open_that_crosses_drain_is_refused_as_draining) {
  b.start_hubs();
  agent_side &a = b.up();
  a.link->draining = true;
  auto c = b.open(a, "/echo", "x");
  ASSERT_TRUE(b.until([&] { return c->over(); }));
  EXPECT_EQ(c->failed, cause::draining);
  EXPECT_EQ(a.behind.opens, 0);
}

// Only a stream's slot goes at HEAD; a buffered answer keeps it to its end, and every other setting keeps both.
TEST_F(link_stream, slot_release_at_head_frees_a_streams_slot_there_and_only_there) {
  for (const bool at_head : {false, true}) {
    bench own(factory);
    own.options.slot_release_at_head = at_head;
    own.start_hubs();
    agent_side &a = own.up();
    EXPECT_EQ(a.link->slot_release_at_head, at_head) << "the agent is told";
    for (const bool streaming : {true, false}) {
      auto c = own.open(a, "/hold");
      ASSERT_TRUE(own.until([&] { return a.behind.live.size() == 1; }));
      auto &q = **a.behind.live.begin();
      q.stream.head({.status = 200, .fields = {}}, streaming);
      ASSERT_TRUE(own.until([&] { return c->heads == 1; }));
      EXPECT_EQ(own.slots, at_head && streaming ? 0 : 1);
      q.finish();
      ASSERT_TRUE(own.until([&] { return c->over(); }));
      own.settle();
      EXPECT_EQ(own.slots, 0) << "returned once";
    }
  }
}

TEST_F(link_stream, nobody_behind_the_link_is_a_reset) {
  b.start_hubs();
  agent_side &a = b.up();
  auto c = b.open(a, "/nobody");
  ASSERT_TRUE(b.until([&] { return c->over(); }));
  EXPECT_EQ(c->failed, cause::agent_failed);
  EXPECT_FALSE(c->failure.reached_engine);
}

TEST_F(link_stream, an_unanswered_open_fails_alone) {
  b.options.open_limit_ns = 500 * ns_per_ms;
  b.agent_options.accept_delay_ns = 5 * ns_per_ms;
  b.start_hubs();
  agent_side &a = b.up();
  auto accepted = b.open(a, "/accept");
  auto silent = b.open(a, "/silent");
  ASSERT_TRUE(b.until([&] { return silent->over(); }));
  EXPECT_EQ(silent->failed, cause::open_timeout);
  EXPECT_FALSE(accepted->over());
  EXPECT_TRUE(b.until([&] { return b.slots == 1; }));
  EXPECT_EQ(a.behind.losses, 0);
}

TEST_F(link_stream, a_cancel_that_nobody_answers_fails_the_link) {
  b.options.closing_limit_ns = 20 * ns_per_ms;
  b.start_hubs();
  raw_agent raw(b, 3);
  ASSERT_TRUE(raw.join());
  client c;
  c.stream = b.hub().open(raw.id.peer_id, {}, c, std::make_unique<slot_token>(b.slots, nullptr), c.failure);
  ASSERT_NE(c.stream, nullptr);
  c.stream.reset();
  EXPECT_TRUE(b.until([&] { return raw.lost; }));
  EXPECT_EQ(b.slots, 0);
}

TEST_F(link_stream, a_missing_record_resets_the_stream_not_the_link) {
  b.start_hubs();
  raw_agent raw(b, 3);
  ASSERT_TRUE(raw.join());
  client c;
  const uint64_t id = answered_stream(raw, c);
  ASSERT_NE(id, 0u);
  raw.send({.what = kind::data, .stream = id, .seq = 2}, {}, "lost one");
  EXPECT_TRUE(b.until([&] { return c.over(); }));
  EXPECT_EQ(c.failed, cause::protocol);
  EXPECT_TRUE(raw.wait(kind::reset));
  EXPECT_EQ(b.slots, 1);
  raw.send({.what = kind::reset, .stream = id, .seq = 3, .aux = 1});
  EXPECT_TRUE(b.until([&] { return b.slots == 0; }));
  EXPECT_FALSE(raw.lost);
}

TEST_F(link_stream, data_beyond_credit_resets_the_stream_and_beyond_link_credit_the_link) {
  b.options.stream_window = 64 * 1024;
  b.options.link_window = 256 * 1024;
  b.start_hubs();
  raw_agent raw(b, 3);
  ASSERT_TRUE(raw.join());
  client c;
  c.reads = false;
  const uint64_t id = answered_stream(raw, c);
  ASSERT_NE(id, 0u);
  const std::string part(40'000, 'x');
  for (uint32_t seq = 1; seq <= 3; ++seq) raw.send({.what = kind::data, .stream = id, .seq = seq}, {}, part);
  EXPECT_TRUE(b.until([&] { return c.over(); }));
  EXPECT_EQ(c.failed, cause::protocol);
  EXPECT_LE(c.max_unread, 64u * 1024 + max_payload_bytes);
  EXPECT_FALSE(raw.lost);
}

TEST_F(link_stream, late_records_of_an_old_epoch_are_dropped_and_their_credit_comes_back) {
  b.options.link_window = 64 * 1024;
  b.start_hubs();
  raw_agent raw(b, 3);
  ASSERT_TRUE(raw.join());
  const std::string part(16'384, 'x');
  for (uint32_t i = 0; i < 12; ++i) {
    raw.send({.what = kind::data, .stream = make_stream_id(static_cast<uint16_t>(raw.epoch - 1), 0, 1), .seq = i}, {}, part);
    b.settle();
  }
  EXPECT_EQ(b.hub().counters.late_records, 12u);
  uint64_t back = 0;
  for (const auto &h : raw.heard)
    if (h.head.what == kind::credit && h.head.stream == 0) back += h.head.credit;
  EXPECT_EQ(back, 12u * 16'384);
  EXPECT_FALSE(raw.lost);
}

// An agent's word: sums of it must not run over.
TEST_F(link_stream, token_counts_of_an_agent_are_bounded) {
  b.start_hubs();
  raw_agent raw(b, 3);
  ASSERT_TRUE(raw.join());
  client c;
  meta_writer told;
  told.add("prompt-tokens", "18446744073709551615"), told.add("output-tokens", "-5"), told.add("cached-tokens", "1e30");
  raw.send({.what = kind::data, .flags = flag_end, .stream = answered_stream(raw, c), .seq = 1}, told.take(), "x");
  ASSERT_TRUE(b.until([&] { return c.over(); }));
  EXPECT_EQ(c.tokens.prompt_tokens, 1ull << 40);
  EXPECT_EQ(c.tokens.output_tokens + c.tokens.cached_tokens.value(), 0u);
}

// The counters of two epochs are equal as soon as an agent has come back: only the whole id names a stream.
TEST_F(link_stream, records_of_an_old_epoch_with_the_counter_of_a_live_stream_touch_it_on_neither_side) {
  b.start_hubs();
  raw_agent raw(b, 3);
  ASSERT_TRUE(raw.join());
  client c;
  c.keep = true;
  const uint64_t id = answered_stream(raw, c);
  ASSERT_NE(id, 0u);
  const auto older = [](uint64_t stream) { return stream - make_stream_id(1, 0, 0); };
  ASSERT_EQ(epoch_of(older(id)), static_cast<uint16_t>(raw.epoch - 1));
  raw.send({.what = kind::data, .stream = older(id), .seq = 1}, {}, "old");
  raw.send({.what = kind::reset, .stream = older(id), .seq = 2, .aux = 1});
  raw.send({.what = kind::data, .flags = flag_end, .stream = id, .seq = 1}, {}, "new");
  EXPECT_TRUE(b.until([&] { return c.over(); }));
  EXPECT_EQ(c.failed, cause::none);
  EXPECT_EQ(c.text, "new");
  EXPECT_EQ(b.hub().counters.late_records, 2u);

  agent_side &a = b.up();
  auto runs = b.open(a, "/hold");
  ASSERT_TRUE(b.until([&] { return a.behind.live.size() == 1; }));
  hub_link &l = *b.link_of(a);
  l.append({.what = kind::cancel, .stream = older(l.streams.begin()->first), .seq = 1}, {}, {});
  auto &q = **a.behind.live.begin();
  b.settle();
  EXPECT_EQ(a.behind.cancels, 0);
  q.start_answer();
  q.finish();
  EXPECT_TRUE(b.until([&] { return runs->over(); }));
  EXPECT_EQ(runs->failed, cause::none);
}

struct slow_line {
  uint64_t bits_per_s;
  uint32_t least, most;   // the window it comes to
};

class link_on_a_slow_line : public ::testing::TestWithParam<slow_line> {};

// A PING period of 250 ms, so silence counts as death after one second.
TEST_P(link_on_a_slow_line, is_used_to_the_full_and_never_taken_for_dead) {
  fake_factory factory;
  bench b(factory);
  b.options.ping_ns = 250 * ns_per_ms;
  b.options.stream_window = 4 * 1024 * 1024;
  b.start_hubs();
  agent_side &a = b.up();
  factory.net.bits_per_s = GetParam().bits_per_s;
  const size_t bytes = GetParam().bits_per_s / 8;  // a second for each
  const std::string target = "/send/" + std::to_string(bytes);
  a.behind.chunk = 16'000;
  std::vector<std::unique_ptr<client>> clients;
  const uint64_t start = now_ns();
  for (int i = 0; i < 4; ++i) clients.push_back(b.open(a, target));
  auto up = b.open(a, "/echo", std::string(bytes / 2, 'u'));  // the other way
  // The window is looked at while the line is full: the last bytes leave it empty, and it may double once more.
  uint32_t window = 0;
  EXPECT_TRUE(b.until([&] {
    if (std::all_of(clients.begin(), clients.end(), [&](const auto &c) { return c->got < bytes / 4 * 3; })) window = b.link_of(a)->receive_credit().size();
    return std::all_of(clients.begin(), clients.end(), [](const auto &c) { return c->over(); }) && up->over();
  }));
  const double took = static_cast<double>(now_ns() - start) / 1e9;
  for (const auto &c : clients) EXPECT_EQ(c->got, bytes);
  EXPECT_EQ(up->got, bytes / 2);
  EXPECT_EQ(b.hub().counters.links_lost, 0u);
  EXPECT_EQ(a.behind.losses, 0);
  EXPECT_LT(took, 8) << "four seconds of bytes";
  EXPECT_GE(window, GetParam().least);
  EXPECT_LE(window, GetParam().most);
}

INSTANTIATE_TEST_SUITE_P(mbit, link_on_a_slow_line,
                         ::testing::Values(slow_line{20'000'000, 256 * 1024, 512 * 1024}, slow_line{100'000'000, 1024 * 1024, 2048 * 1024}));

TEST_F(link_stream, the_link_window_doubles_under_100_ms_and_halves_above_300_ms) {
  b.options.ping_ns = 150 * ns_per_ms;
  b.options.link_window = 256 * 1024;
  b.options.stream_window = 4 * 1024 * 1024;
  b.start_hubs();
  agent_side &a = b.up();
  const auto window = [&] { return b.link_of(a)->receive_credit().size(); };
  factory.net.delay_ns = 5 * ns_per_ms;
  b.until([] { return false; }, 400);
  EXPECT_EQ(window(), 256u * 1024) << "an idle link is always fast";
  std::vector<std::unique_ptr<client>> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(b.open(a, "/send/60000000"));
  EXPECT_TRUE(b.until([&] { return window() >= 1024 * 1024; }));
  factory.net.delay_ns = 170 * ns_per_ms;  // the answer belongs to a PING before the last
  EXPECT_TRUE(b.until([&] { return window() == 256 * 1024; }));
  b.until([] { return false; }, 500);
  EXPECT_EQ(window(), 256u * 1024) << "not below";
  EXPECT_EQ(b.hub().counters.links_lost, 0u);
}

TEST_F(link_stream, a_client_that_takes_nothing_ends_as_client_slow) {
  b.options.write_timeout_ns = 20 * ns_per_ms;
  b.start_hubs();
  agent_side &a = b.up();
  client c;
  c.reads = false;
  b.open(c, a, "/send/1000000");
  EXPECT_TRUE(b.until([&] { return c.over(); }));
  EXPECT_EQ(c.failed, cause::client_slow);
  EXPECT_TRUE(b.until([&] { return b.slots == 0; }));
  EXPECT_EQ(a.behind.last_cancel, cause::client_slow);
}

// Naive variant: whoever takes 64 KiB in more time than the limit is slow, though it takes.
TEST_F(link_stream, a_client_that_is_timed_elsewhere_keeps_its_stream_at_both_ends) {
  b.options.write_timeout_ns = 20 * ns_per_ms;
  b.agent_options.stream_write_timeout_ns = 60 * ns_per_ms;
  b.start_hubs();
  agent_side &a = b.up();
  client c;
  c.reads = false;
  c.timed = true;
  b.open(c, a, "/send/1000000");
  b.until([&] { return c.over(); }, 400);
  EXPECT_FALSE(c.over()) << "neither the router nor the agent has ended it";
  c.timed = false;
  EXPECT_TRUE(b.until([&] { return c.over(); }));
  EXPECT_EQ(c.failed, cause::client_slow);
}

INSTANTIATE_TEST_SUITE_P(in_memory, link_over_transport,
                         ::testing::Values(+[]() -> std::unique_ptr<transport_factory> { return std::make_unique<fake_factory>(); }));

struct window_case {
  uint32_t window;
  size_t chunk;
};

class link_windows : public ::testing::TestWithParam<window_case> {};

TEST_P(link_windows, bound_what_is_buffered_and_what_is_in_the_pipe) {
  fake_factory factory;
  bench b(factory);
  const auto [window, chunk] = GetParam();
  b.options.stream_window = window;
  b.options.link_window = window;
  b.options.ping_ns = 3600 * ns_per_s;  // the window stays as it is
  b.start_hubs();
  agent_side &a = b.up();
  a.behind.chunk = chunk;
  std::vector<std::unique_ptr<client>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<client>());
    clients.back()->reads = i % 2 == 0;
    b.open(*clients.back(), a, "/send/6000000");
  }
  const bool done = b.until([&] {
    for (auto &c : clients)
      if (!c->reads && c->unread > window / 2) c->read_all();
    for (auto &c : clients)
      if (!c->over()) return false;
    return true;
  });
  ASSERT_TRUE(done);
  const uint64_t overhead = factory.net.max_in_pipe / 8 + 4096;  // headers, and the other direction's credit records
  for (auto &c : clients) {
    EXPECT_EQ(c->got, 6'000'000u);
    EXPECT_EQ(c->failed, cause::none);
    EXPECT_LE(c->max_unread, window + max_payload_bytes);
  }
  EXPECT_LE(factory.net.max_in_pipe, window + max_payload_bytes + overhead);
  b.settle();
  b.expect_at_rest(a);
}

INSTANTIATE_TEST_SUITE_P(sizes, link_windows,
                         ::testing::Values(window_case{64 * 1024, 64 * 1024}, window_case{64 * 1024, 1000}, window_case{64 * 1024, 50'000},
                                           window_case{256 * 1024, 65'000}, window_case{256 * 1024, 700},
                                           window_case{4096 * 1024, 60'000}, window_case{64 * 1024, mixed_chunks},
                                           window_case{256 * 1024, mixed_chunks}, window_case{4096 * 1024, mixed_chunks}));

// Everything at random: bodies, answers, ends, cancels, refusals, held and released messages, broken links.
TEST_F(link_stream, ends_exactly_once_whatever_happens) {
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    std::mt19937 random(seed);
    bench own(factory);
    own.options.stream_window = 64 * 1024;
    own.options.link_window = 128 * 1024;
    own.start_hubs();
    agent_side &a = own.up();
    a.behind.chunk = 3'000;
    std::vector<std::unique_ptr<client>> clients;
    std::set<client *> abandoned;
    const auto step = [&] {
      switch (random() % 12) {
        case 0: case 1: case 2: {
          static constexpr const char *targets[] = {"/echo", "/busy", "/silent", "/hold", "/send/200000", "/send/10", "/nobody", "/hold-body"};
          auto c = own.open(a, targets[random() % std::size(targets)], std::string(random() % 150'000, 'b'));
          if (c->stream) clients.push_back(std::move(c));
          else EXPECT_FALSE(a.up() && own.link_of(a) && !own.link_of(a)->is_shut());
          break;
        }
        case 3: case 4:
          if (!clients.empty()) {
            client &c = *clients[random() % clients.size()];
            if (!c.over()) abandoned.insert(&c);
            c.stream.reset();
          }
          break;
        case 5: factory.net.held = true; break;
        case 6: case 7: factory.net.release(); break;
        case 8:
          if (random() % 8 == 0) factory.net.break_all();
          break;
        case 9:
          for (auto *q : std::vector<engine::request *>(a.behind.live.begin(), a.behind.live.end()))
            if (q->target == "/hold" && !q->over) {
              if (random() % 2 == 0) {
                q->start_answer();
                q->send = "answer";
                q->produce();
              } else {
                q->over = true;
                q->stream.reset(cause::engine_cut, "cut", true);
              }
              break;
            }
          break;
        default: own.l.io().run_one_for(std::chrono::milliseconds(1)); break;
      }
      for (int i = static_cast<int>(random() % 4); i > 0; --i) own.l.io().poll_one();
    };
    for (int i = 0; i < 600; ++i) step();
    factory.net.release();
    ASSERT_TRUE(own.until([&] { return a.up() && own.link_of(a); }));
    own.settle();
    own.expect_at_rest(a);
    for (auto &c : clients) {
      if (!c->over()) abandoned.insert(c.get());
      c->stream.reset();
    }
    ASSERT_TRUE(own.until([&] { return own.slots == 0; })) << "seed " << seed;
    own.settle();
    own.expect_at_rest(a);
    for (auto &c : clients) EXPECT_EQ(c->ends, abandoned.contains(c.get()) ? 0 : 1) << "seed " << seed;
    EXPECT_EQ(own.hub().counters.streams_open, 0u);
    EXPECT_EQ(own.hub().counters.streams_closing, 0u);
    EXPECT_TRUE(a.behind.live.empty());
    EXPECT_EQ(own.hub().counters.protocol_errors, 0u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace hive::link::testing
