// Agents inside the router's process: beside those of the network on one hub, and in parts, one in each worker's loop.
#include "plugin_transport.hpp"
#include "threaded_bench.hpp"

namespace hive::link::testing {
namespace {

// A hub with two transports, both with one agent, everything on one loop.
class two_transports : public ::testing::Test {
 protected:
  void SetUp() override {
    hub_options o;
    o.secrets = {secret_a};
    o.router_boot_id = 77;
    network_end = network.make();
    own_end = own.make();
    hub = std::make_unique<router_hub::impl>(l, network_end->ref(), dir, o, own_end->ref());
    network_end->request_pump = [this] { hub->pump.request(); };
    own_end->request_pump = [this] { hub->own_pump->request(); };
    ASSERT_TRUE(hub->start().ok());
    dir.hub_of = [this](uint32_t) { return hub.get(); };
    outside = agent(network, 1, *hub->pump.listen("127.0.0.1:0"), {});
    inside = agent(own, 2, *hub->own_pump->listen("127.0.0.1:0"), agent_part{0, 99});
    ASSERT_TRUE(until([&] { return outside->up() && inside->up(); }));
  }
  void TearDown() override {
    clients.clear();
    outside.reset();
    inside.reset();
    hub.reset();
  }
  std::unique_ptr<agent_side> agent(transport_factory &f, uint8_t seed, const std::string &router, std::optional<agent_part> part) {
    agent_link_options o;
    o.secrets = {secret_a};
    o.router = router;
    o.reconnect_min_ns = 5 * ns_per_ms;
    o.part = part;
    auto made = std::make_unique<agent_side>(l, f.make(), seed, o);
    made->link->start();
    return made;
  }
  bool until(const std::function<bool()> &done) {
    for (const uint64_t limit = now_ns() + 20 * ns_per_s; !done(); l.io().run_one_for(std::chrono::milliseconds(2)))
      if (now_ns() > limit) return false;
    return true;
  }
  client &ask(const agent_side &a, std::string_view target) {
    client &c = *clients.emplace_back(std::make_unique<client>());
    open_request r;
    r.target = target;
    r.request_id = "r";
    r.body = std::make_shared<const std::string>("hello");
    c.keep = true;
    c.stream = hub->open(a.id.peer_id, r, c, std::make_unique<slot_token>(slots, nullptr), c.failure);
    return c;
  }
  const hub_link *link_of(const agent_side &a) const {
    for (const auto &[peer, one] : hub->links())
      if (one->peer_id == a.id.peer_id) return one.get();
    return nullptr;
  }

  loop l;
  conformance::plugin_factory network{"zmq"}, own{"inproc"};
  owner_directory dir;
  int slots = 0;
  std::unique_ptr<transport_end> network_end, own_end;
  std::unique_ptr<router_hub::impl> hub;
  std::unique_ptr<agent_side> outside, inside;
  std::vector<std::unique_ptr<client>> clients;
};

TEST_F(two_transports, agents_of_both_are_told_apart_and_served_alike) {
  // Both transports count their peers from 1.
  EXPECT_EQ(link_of(*outside)->peer() | own_process_mark, link_of(*inside)->peer());
  EXPECT_FALSE((link_id{0, link_of(*outside)->peer()}.in_own_process()));
  EXPECT_TRUE((link_id{0, link_of(*inside)->peer()}.in_own_process()));
  EXPECT_EQ(link_of(*inside)->address, "this process");
  client &a = ask(*outside, "/echo"), &b = ask(*inside, "/echo");
  ASSERT_TRUE(until([&] { return a.over() && b.over(); }));
  EXPECT_EQ(a.text + b.text, "hellohello");
  EXPECT_EQ(slots, 0);
}

TEST_F(two_transports, the_end_of_one_agents_link_is_not_the_others) {
  client &a = ask(*outside, "/accept"), &b = ask(*inside, "/accept");
  ASSERT_TRUE(until([&] { return outside->behind.live.size() == 1 && inside->behind.live.size() == 1; }));
  inside.reset();
  ASSERT_TRUE(until([&] { return b.over(); }));
  EXPECT_EQ(b.failed, cause::link_lost);
  EXPECT_FALSE(a.over());
  hub->kick_link(link_of(*outside)->peer(), {"replaced", "for a test", 0, false});
  ASSERT_TRUE(until([&] { return a.over(); }));
  EXPECT_EQ(slots, 0);
}

TEST_F(two_transports, shutting_down_ends_both) {
  client &a = ask(*outside, "/accept"), &b = ask(*inside, "/accept");
  hub->shut_down(200);
  EXPECT_EQ(a.failed, cause::shutdown);
  EXPECT_EQ(b.failed, cause::shutdown);
  EXPECT_TRUE(hub->links().empty());
}

TEST(agent_alone_in_the_process, needs_no_network) {
  loop l;
  conformance::plugin_factory own("inproc");
  owner_directory dir;
  hub_options o;
  o.secrets = {secret_a};
  auto end = own.make();
  router_hub::impl hub(l, {}, dir, o, end->ref());
  dir.hub_of = [&](uint32_t) { return &hub; };
  end->request_pump = [&] { hub.own_pump->request(); };
  ASSERT_TRUE(hub.start().ok());
  agent_link_options a;
  a.secrets = {secret_a};
  a.router = *hub.own_pump->listen("127.0.0.1:0");
  a.part = agent_part{0, 5};
  agent_side agent(l, own.make(), 3, a);
  agent.link->start();
  for (const uint64_t limit = now_ns() + 20 * ns_per_s; !agent.up() && now_ns() < limit;) l.io().run_one_for(std::chrono::milliseconds(2));
  EXPECT_TRUE(agent.up());
}

// One agent, a part of it in each worker's own loop.
class agent_in_parts : public ::testing::TestWithParam<const char *> {
 protected:
  using worker = threaded_bench::worker;
  void SetUp() override { b.start(); }
  void TearDown() override {
    for (uint32_t w = 0; w < threaded_bench::workers; ++w) b.at[w].thread.on([&] { parts[w].reset(); });
  }
  void start_part(uint32_t w) {
    b.at[w].thread.on([&] {
      agent_link_options o;
      o.secrets = {secret_a};
      o.router = b.at[w].side->hub->endpoints[w];
      o.reconnect_min_ns = 5 * ns_per_ms;
      o.part = agent_part{w, 99};
      parts[w] = std::make_unique<agent_side>(b.at[w].thread.l, b.factory.make(), 1, o);
      parts[w]->link->start();
    });
    ASSERT_TRUE(b.until([&] { return b.at[w].thread.on([&] { return parts[w]->up(); }); })) << w;
    b.peer_id = b.at[w].thread.on([&] { return parts[w]->id.peer_id; });
  }

  conformance::plugin_factory factory{GetParam()};
  threaded_bench b{factory};
  std::unique_ptr<agent_side> parts[threaded_bench::workers];
};

TEST_P(agent_in_parts, each_part_is_one_link_with_the_index_of_its_worker_and_serves_it_alone) {
  start_part(0);
  start_part(1);
  for (uint32_t w = 0; w < threaded_bench::workers; ++w)
    b.at[w].thread.on([&] {
      EXPECT_EQ(parts[w]->link->slots.size(), 1u) << "it follows no endpoint of the others";
      EXPECT_EQ(b.at[w].side->hub->links().size(), 1u);
      EXPECT_EQ(b.at[w].side->hub->links().begin()->second->index, w);
      EXPECT_EQ(b.at[w].side->hub->links().begin()->second->boot_id, 99u);
      for (int i = 0; i < 50; ++i) b.open(b.at[w], "/echo", std::string(1000, 'b'));
    });
  EXPECT_TRUE(b.until([&] { return b.on_every([](worker &w) { return threaded_bench::every(w, [](const client &c) { return c.over(); }); }); }));
  for (uint32_t w = 0; w < threaded_bench::workers; ++w)
    b.at[w].thread.on([&] {
      EXPECT_EQ(parts[w]->behind.opens, 50);
      EXPECT_EQ(b.at[w].slots, 0);
      b.at[w].clients.clear();
    });
}

TEST_P(agent_in_parts, only_the_first_part_speaks) {
  start_part(0);
  start_part(1);
  for (uint32_t w = 0; w < threaded_bench::workers; ++w)
    b.at[w].thread.on([&] { EXPECT_EQ(parts[w]->link->link_zero() != nullptr, w == 0); });
}

INSTANTIATE_TEST_SUITE_P(over, agent_in_parts, ::testing::Values("zmq", "inproc"), [](const auto &one) { return std::string(one.param); });

}  // namespace
}  // namespace hive::link::testing
