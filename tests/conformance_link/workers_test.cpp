// The same promises when each worker and the agent run on threads of their own.
#include "plugin_transport.hpp"
#include "threaded_bench.hpp"

namespace hive::link::testing {
namespace {

class link_between_threads : public ::testing::TestWithParam<const char *> {
 protected:
  void SetUp() override { b.start(); }
  conformance::plugin_factory factory{GetParam()};
  threaded_bench b{factory};
  using worker = threaded_bench::worker;
};

TEST_P(link_between_threads, bodies_of_all_sizes_pass_on_both_workers_at_once) {
  b.start_agent();
  const size_t sizes[] = {0, 1, 65'536, 65'537, 1'000'000};
  for (auto &w : b.at)
    w.thread.on([&] {
      for (const size_t size : sizes) b.open(w, "/echo", std::string(size, 'b')).keep = true;
    });
  EXPECT_TRUE(b.until([&] { return b.on_every([](worker &w) { return threaded_bench::every(w, [](const client &c) { return c.over(); }); }); }));
  b.on_every([&](worker &w) {
    for (size_t i = 0; i < w.clients.size(); ++i) {
      EXPECT_EQ(w.clients[i]->failed, cause::none);
      EXPECT_EQ(w.clients[i]->heads, 1);
      EXPECT_TRUE(w.clients[i]->text == std::string(sizes[i], 'b')) << sizes[i];
    }
    return true;
  });
  b.expect_at_rest();
}

TEST_P(link_between_threads, clients_that_do_not_read_stop_neither_their_worker_nor_the_other) {
  b.start_agent(10'000);
  for (auto &w : b.at)
    w.thread.on([&] {
      for (int i = 0; i < 32; ++i) b.open(w, "/send/1000000").reads = false;
    });
  EXPECT_TRUE(b.until([&] { return b.on_every([](worker &w) { return threaded_bench::every(w, [](const client &c) { return c.got >= 64 * 1024; }); }); }))
      << b.text();
  for (auto &w : b.at) w.thread.on([&] { b.open(w, "/send/5000000"); });
  EXPECT_TRUE(b.until([&] { return b.on_every([](worker &w) { return w.clients.back()->over(); }); }));
  b.on_every([](worker &w) {
    EXPECT_EQ(w.clients.back()->got, 5'000'000u);
    w.clients.pop_back();
    for (auto &c : w.clients) EXPECT_LE(c->got, 64u * 1024 + max_payload_bytes);
    w.clients.clear();
    return true;
  });
  b.expect_at_rest();
}

TEST_P(link_between_threads, cancels_on_both_workers_leave_full_throughput) {
  b.start_agent(4'000);
  for (int round = 0; round < 30; ++round) {
    for (auto &w : b.at)
      w.thread.on([&] {
        w.clients.clear();
        for (int i = 0; i < 20; ++i) {
          client &c = b.open(w, "/send/100000");
          c.cancel_at_head = i % 3 == 0;
          c.cancel_at_data = i % 3 == 1;
          if (i % 6 == 2) c.stream.reset();
        }
      });
    ASSERT_TRUE(b.until([&] { return b.on_every([](worker &w) { return w.slots == 0; }); })) << round;
  }
  b.expect_at_rest();
  for (auto &w : b.at)
    w.thread.on([&] {
      w.clients.clear();
      b.open(w, "/send/8000000");
    });
  EXPECT_TRUE(b.until([&] { return b.on_every([](worker &w) { return w.clients[0]->over(); }); }));
  b.on_every([](worker &w) {
    EXPECT_EQ(w.clients[0]->got, 8'000'000u);
    EXPECT_EQ(w.side->hub->counters.links_lost, 0u);
    return true;
  });
}

TEST_P(link_between_threads, an_agent_that_vanishes_ends_its_streams_everywhere_and_may_come_back) {
  for (int round = 0; round < 5; ++round) {
    b.start_agent(4'000);
    for (auto &w : b.at)
      w.thread.on([&] {
        w.clients.clear();
        for (int i = 0; i < 10; ++i) b.open(w, i % 2 == 0 ? "/send/1000000" : "/accept").reads = false;
      });
    ASSERT_TRUE(b.until([&] { return b.on_every([](worker &w) { return w.clients[0]->got >= 64 * 1024; }); }));
    b.stop_agent();
    ASSERT_TRUE(b.until([&] { return b.on_every([](worker &w) { return w.slots == 0; }); })) << round;
    b.on_every([](worker &w) {
      for (auto &c : w.clients) {
        EXPECT_EQ(c->ends, 1);
        EXPECT_EQ(c->failed, cause::link_lost) << to_string(c->failed);
      }
      return true;
    });
  }
  EXPECT_EQ(b.dir.lost, 10);
  b.start_agent();
  b.expect_at_rest();
}

INSTANTIATE_TEST_SUITE_P(over, link_between_threads, ::testing::Values("zmq", "inproc"), [](const auto &one) { return std::string(one.param); });

}  // namespace
}  // namespace hive::link::testing
