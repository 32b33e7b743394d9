// What every transport must do, run over each of them.
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <ostream>
#include <string>
#include <thread>

#include "node.hpp"

namespace hive::conformance {
namespace {

struct subject {
  const char *name;
  const char *path;
  friend void PrintTo(const subject &s, std::ostream *out) { *out << s.name; }
};

class transports : public testing::TestWithParam<subject> {
 protected:
  const hive_component *plugin = load_component(GetParam().path);
  const key_pair router_keys = make_keys(), agent_keys = make_keys();

  // A listening node and a dialling one that have met.
  struct pair {
    node router, agent;
    hive_peer to_router = 0, to_agent = 0;
    pair(transports &t, const std::string &json = "{}")
        : router(t.plugin, t.router_keys, {}, json), agent(t.plugin, t.agent_keys, t.router_keys.own, json) {
      EXPECT_EQ(router.listen("127.0.0.1:0"), HIVE_OK) << router.error;
      to_router = agent.dial(router.bound);
      EXPECT_TRUE(drive({&router, &agent}, [&] { return !agent.peers.empty() && !router.peers.empty(); }));
      if (!router.peers.empty()) to_agent = router.peers[0].id;
    }
    bool until(const std::function<bool()> &done, int ms = 20000) {
      return drive({&router, &agent}, done, std::chrono::milliseconds(ms));
    }
  };
};

size_t open_descriptors() {
  size_t n = 0;
  DIR *d = opendir("/proc/self/fd");
  while (readdir(d) != nullptr) ++n;
  closedir(d);
  return n;
}

TEST_P(transports, both_sides_learn_the_proven_key_and_exchange_messages) {
  pair p(*this);
  ASSERT_EQ(p.router.peers.size(), 1u);
  EXPECT_EQ(p.router.peers[0].from, agent_keys.own);
  EXPECT_TRUE(p.router.peers[0].address.starts_with("127.0.0.1:")) << p.router.peers[0].address;
  ASSERT_EQ(p.agent.peers.size(), 1u);
  EXPECT_EQ(p.agent.peers[0].id, p.to_router);
  EXPECT_EQ(p.agent.peers[0].from, router_keys.own);
  EXPECT_EQ(p.agent.send(p.to_router, "hello"), HIVE_OK);
  EXPECT_EQ(p.router.send(p.to_agent, "welcome"), HIVE_OK);
  ASSERT_TRUE(p.until([&] { return !p.router.messages[p.to_agent].empty() && !p.agent.messages[p.to_router].empty(); }));
  EXPECT_EQ(p.router.messages[p.to_agent][0], "hello");
  EXPECT_EQ(p.agent.messages[p.to_router][0], "welcome");
}

TEST_P(transports, ten_thousand_messages_each_way_arrive_once_and_in_order) {
  pair p(*this);
  constexpr int count = 10000;
  int sent_a = 0, sent_r = 0;
  const auto text = [](int i) { return std::to_string(i) + std::string(static_cast<size_t>(i % 200), 'x'); };
  int got_a = 0, got_r = 0, wrong = 0;
  const auto reader = [&](int &got) {
    return [&wrong, &got, text](hive_peer, const hive_message &m) {
      if (std::string_view(reinterpret_cast<const char *>(m.bytes.ptr), m.bytes.len) != text(got)) ++wrong;
      ++got;
    };
  };
  p.agent.on_message = reader(got_a);
  p.router.on_message = reader(got_r);
  const bool done = p.until([&] {
    for (int k = 0; k < 100 && sent_a < count; ++k) EXPECT_EQ(p.agent.send(p.to_router, text(sent_a++)), HIVE_OK);
    for (int k = 0; k < 100 && sent_r < count; ++k) EXPECT_EQ(p.router.send(p.to_agent, text(sent_r++)), HIVE_OK);
    return got_a == count && got_r == count;
  });
  EXPECT_TRUE(done) << got_a << " " << got_r;
  EXPECT_EQ(wrong, 0);
}

// The first message behind a full batch asks for a pump, and that pump may have just enough to do with the batch.
TEST_P(transports, what_comes_behind_a_full_batch_is_pumped_without_another_reason) {
  pair p(*this);
  p.router.pump_ns = 10'000'000'000;
  int got = 0;
  p.router.on_message = [&](hive_peer, const hive_message &) { ++got; };
  const int batch = static_cast<int>(p.router.pump_messages);
  for (int i = 0; i < 2 * batch; ++i) ASSERT_EQ(p.agent.send(p.to_router, "m"), HIVE_OK);
  ASSERT_TRUE(p.until([&] { return got >= batch; }));
  ASSERT_EQ(p.agent.send(p.to_router, "behind"), HIVE_OK);
  EXPECT_TRUE(p.until([&] { return got == 2 * batch + 1; })) << got;
}

TEST_P(transports, large_messages_pass_and_what_is_too_large_or_empty_is_refused) {
  pair p(*this);
  const std::string large(128 * 1024, 'l'), limit(256 * 1024, 'm'), above(256 * 1024 + 1, 'n');
  EXPECT_EQ(p.agent.send(p.to_router, above), HIVE_E_ARGUMENT);
  EXPECT_EQ(p.router.send(p.to_agent, above), HIVE_E_ARGUMENT);
  EXPECT_EQ(p.agent.send(p.to_router, ""), HIVE_E_ARGUMENT);
  EXPECT_EQ(p.agent.send(p.to_router, large), HIVE_OK);
  EXPECT_EQ(p.router.send(p.to_agent, limit), HIVE_OK);
  ASSERT_TRUE(p.until([&] { return !p.router.messages[p.to_agent].empty() && !p.agent.messages[p.to_router].empty(); }));
  EXPECT_EQ(p.router.messages[p.to_agent][0], large);
  EXPECT_EQ(p.agent.messages[p.to_router][0], limit);
}

TEST_P(transports, another_router_key_than_the_pinned_one_is_lost_as_auth) {
  node router(plugin, router_keys);
  ASSERT_EQ(router.listen("127.0.0.1:0"), HIVE_OK);
  node agent(plugin, agent_keys, make_keys().own);
  const hive_peer peer = agent.dial(router.bound);
  ASSERT_TRUE(drive({&router, &agent}, [&] { return !agent.losses.empty(); }));
  EXPECT_EQ(agent.losses[0].id, peer);
  EXPECT_EQ(agent.losses[0].reason, HIVE_LOST_AUTH);
  EXPECT_TRUE(agent.peers.empty());
  EXPECT_TRUE(router.peers.empty());
}

TEST_P(transports, nobody_listening_is_lost_as_refused) {
  // Bound, so that nobody else can get the port, and no listener.
  const int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr *>(&at), size), 0);
  ASSERT_EQ(getsockname(taken, reinterpret_cast<sockaddr *>(&at), &size), 0);
  node agent(plugin, agent_keys, router_keys.own);
  const hive_peer peer = agent.dial("127.0.0.1:" + std::to_string(ntohs(at.sin_port)));
  ASSERT_TRUE(drive({&agent}, [&] { return agent.losses_of(peer) == 1; }));
  EXPECT_EQ(agent.losses[0].reason, HIVE_LOST_REFUSED) << agent.losses[0].text;
  close(taken);
}

TEST_P(transports, addresses_must_be_literal) {
  node agent(plugin, agent_keys, router_keys.own);
  hive_peer peer = 0;
  for (const char *bad : {"localhost:1", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "::1:5", "tcp://127.0.0.1:5", ""}) {
    agent.error.clear();
    EXPECT_NE(agent.dial(bad, peer), HIVE_OK) << bad;
    EXPECT_NE(agent.error.find("address"), std::string::npos) << agent.error;
    EXPECT_NE(agent.listen(bad), HIVE_OK) << bad;
  }
}

TEST_P(transports, a_name_in_use_cannot_be_listened_on) {
  node one(plugin, router_keys), two(plugin, router_keys);
  ASSERT_EQ(one.listen("127.0.0.1:0"), HIVE_OK);
  EXPECT_NE(two.listen(one.bound), HIVE_OK);
  EXPECT_FALSE(two.error.empty());
}

TEST_P(transports, a_denied_key_is_refused_until_the_list_is_replaced) {
  node router(plugin, router_keys);
  router.deny({agent_keys.own, make_keys().own});
  ASSERT_EQ(router.listen("127.0.0.1:0"), HIVE_OK);
  node agent(plugin, agent_keys, router_keys.own);
  const hive_peer first = agent.dial(router.bound);
  ASSERT_TRUE(drive({&router, &agent}, [&] { return agent.losses_of(first) == 1; }));
  EXPECT_EQ(agent.losses[0].reason, HIVE_LOST_AUTH);
  EXPECT_TRUE(router.peers.empty());
  router.deny({});
  agent.dial(router.bound);
  EXPECT_TRUE(drive({&router, &agent}, [&] { return agent.peers.size() == 1 && router.peers.size() == 1; }));
}

TEST_P(transports, close_from_either_side_is_lost_once_on_both_and_loses_no_accepted_message) {
  for (const bool router_closes : {true, false}) {
    pair p(*this);
    node &closer = router_closes ? p.router : p.agent, &other = router_closes ? p.agent : p.router;
    const hive_peer at_closer = router_closes ? p.to_agent : p.to_router, at_other = router_closes ? p.to_router : p.to_agent;
    for (int i = 0; i < 500; ++i) ASSERT_EQ(closer.send(at_closer, std::string(2000, 'q') + std::to_string(i)), HIVE_OK);
    closer.close_peer(at_closer, 5000);
    EXPECT_EQ(closer.send(at_closer, "late"), HIVE_GONE);
    EXPECT_TRUE(closer.losses.empty());
    ASSERT_TRUE(p.until([&] { return closer.losses_of(at_closer) == 1 && other.losses_of(at_other) == 1; }));
    EXPECT_EQ(other.messages[at_other].size(), 500u);
    EXPECT_EQ(closer.losses[0].reason, HIVE_LOST_CLOSED);
    EXPECT_EQ(other.losses[0].reason, HIVE_LOST_CLOSED);
    EXPECT_EQ(other.send(at_other, "late"), HIVE_GONE);
    closer.close_peer(at_closer, 10);
    other.close_peer(at_other, 10);
    p.until([] { return false; }, 50);
    EXPECT_EQ(closer.losses_of(at_closer), 1);
    EXPECT_EQ(other.losses_of(at_other), 1);
  }
}

TEST_P(transports, closing_at_once_needs_no_answer_of_the_other_side) {
  for (const bool router_closes : {true, false}) {
    pair p(*this);
    node &closer = router_closes ? p.router : p.agent;
    const hive_peer at = router_closes ? p.to_agent : p.to_router;
    closer.close_peer(at, 0);
    ASSERT_TRUE(drive({&closer}, [&] { return closer.losses_of(at) == 1; }, std::chrono::seconds(2)));
    node &other = router_closes ? p.agent : p.router;
    ASSERT_TRUE(drive({&other}, [&] { return other.losses.size() == 1; }));
  }
}

TEST_P(transports, both_sides_closing_at_the_same_time_lose_once) {
  pair p(*this);
  p.router.close_peer(p.to_agent, 2000);
  p.agent.close_peer(p.to_router, 2000);
  ASSERT_TRUE(p.until([&] { return p.router.losses.size() == 1 && p.agent.losses.size() == 1; }, 4000));
  p.until([] { return false; }, 50);
  EXPECT_EQ(p.router.losses.size() + p.agent.losses.size(), 2u);
}

TEST_P(transports, stopping_either_side_is_lost_on_the_other) {
  for (const bool router_stops : {true, false}) {
    pair p(*this);
    node &stopper = router_stops ? p.router : p.agent, &other = router_stops ? p.agent : p.router;
    stopper.stop(100);
    EXPECT_EQ(stopper.losses.size(), 1u);
    ASSERT_TRUE(drive({&other}, [&] { return other.losses.size() == 1; }));
    EXPECT_EQ(other.losses[0].reason, HIVE_LOST_CLOSED);
  }
}

// An agent that tries its next secret, and a router whose secret was changed: the same instance with other keys.
TEST_P(transports, either_side_starts_again_after_stop_with_other_keys_and_forgets_the_old) {
  pair p(*this);
  const key_pair other_router = make_keys(), other_agent = make_keys();
  p.router.on_message = [&](hive_peer id, const hive_message &) { p.router.send(id, "answer"); };
  p.agent.stop(100);
  EXPECT_EQ(p.agent.losses_of(p.to_router), 1);
  EXPECT_EQ(p.agent.send(p.to_router, "late"), HIVE_GONE);
  hive_peer none = 0;
  EXPECT_NE(p.agent.dial(p.router.bound, none), HIVE_OK);
  p.agent.start(other_agent, router_keys.own);
  const hive_peer second = p.agent.dial(p.router.bound);
  EXPECT_NE(second, p.to_router) << "names are not used twice";
  ASSERT_TRUE(p.until([&] { return p.agent.peers.size() == 2 && p.router.peers.size() == 2; }));
  EXPECT_EQ(p.router.peers[1].from, other_agent.own);
  p.agent.send(second, "question");
  ASSERT_TRUE(p.until([&] { return !p.agent.messages[second].empty(); }));

  const std::string was = p.router.bound;
  p.router.stop(100);
  ASSERT_TRUE(drive({&p.agent}, [&] { return p.agent.losses_of(second) == 1; }));
  p.router.start(other_router);
  ASSERT_EQ(p.router.listen("127.0.0.1:0"), HIVE_OK) << p.router.error;
  const hive_peer old_pin = p.agent.dial(p.router.bound);
  ASSERT_TRUE(p.until([&] { return p.agent.losses_of(old_pin) == 1; }));
  EXPECT_EQ(p.agent.loss_of(old_pin)->reason, HIVE_LOST_AUTH);
  p.agent.stop(0);
  p.agent.start(other_agent, other_router.own);
  const hive_peer third = p.agent.dial(p.router.bound);
  ASSERT_TRUE(p.until([&] { return p.agent.peers.size() == 3; }));
  p.agent.send(third, "question");
  EXPECT_TRUE(p.until([&] { return p.agent.messages[third].size() == 1; }));
}

TEST_P(transports, starting_and_stopping_leaves_no_descriptor_behind) {
  pair p(*this);
  size_t before = 0;
  for (int i = 0; i < 100; ++i) {
    p.agent.stop(0);
    p.agent.start(agent_keys, router_keys.own);
    p.agent.dial(p.router.bound);
    const size_t n = static_cast<size_t>(i) + 2;
    // The router must have met it: a connection that ends before its first frame is no peer there, and no loss.
    ASSERT_TRUE(p.until([&] { return p.agent.peers.size() == n && p.router.peers.size() == n && p.router.losses.size() + 1 == n; })) << i;
    if (i == 4) before = open_descriptors();
  }
  EXPECT_TRUE(p.until([&] { return open_descriptors() <= before + 4; })) << before << " -> " << open_descriptors();
}

TEST_P(transports, a_retained_message_outlives_peer_and_instance_and_may_be_released_elsewhere) {
  std::vector<const hive_message *> kept;
  {
    pair p(*this);
    p.router.on_message = [&](hive_peer, const hive_message &m) {
      m.retain(&m);
      kept.push_back(&m);
    };
    for (int i = 0; i < 100; ++i) EXPECT_EQ(p.agent.send(p.to_router, std::string(1000, 'k') + std::to_string(i)), HIVE_OK);
    ASSERT_TRUE(p.until([&] { return kept.size() == 100; }));
  }
  std::thread([&] {
    for (size_t i = 0; i < kept.size(); ++i) {
      const std::string_view text(reinterpret_cast<const char *>(kept[i]->bytes.ptr), kept[i]->bytes.len);
      EXPECT_EQ(text, std::string(1000, 'k') + std::to_string(i));
      kept[i]->release(kept[i]);
    }
  }).join();
}

TEST_P(transports, two_diallers_with_one_key_are_two_peers) {
  node router(plugin, router_keys), one(plugin, agent_keys, router_keys.own), two(plugin, agent_keys, router_keys.own);
  ASSERT_EQ(router.listen("127.0.0.1:0"), HIVE_OK);
  const hive_peer a = one.dial(router.bound), b = two.dial(router.bound);
  ASSERT_TRUE(drive({&router, &one, &two}, [&] { return router.peers.size() == 2 && one.peers.size() == 1 && two.peers.size() == 1; }));
  EXPECT_NE(router.peers[0].id, router.peers[1].id);
  EXPECT_EQ(router.peers[0].from, router.peers[1].from);
  one.send(a, "one");
  two.send(b, "two");
  for (const auto &p : router.peers) router.send(p.id, std::to_string(p.id));
  ASSERT_TRUE(drive({&router, &one, &two}, [&] { return router.messages.size() == 2 && !one.messages[a].empty() && !two.messages[b].empty(); }));
  EXPECT_NE(one.messages[a][0], two.messages[b][0]);
  one.close_peer(a, 100);
  ASSERT_TRUE(drive({&router, &one, &two}, [&] { return router.losses.size() == 1 && one.losses.size() == 1; }));
  two.send(b, "still here");
  ASSERT_TRUE(drive({&router, &two}, [&] {
    size_t n = 0;
    for (const auto &[id, texts] : router.messages) n += texts.size();
    return n == 3;
  }));
  EXPECT_TRUE(two.losses.empty());
}

// Every reply is sent from inside on_message and every pump may do little: a lost edge would stop the exchange for good, or for
// the second of the insurance wake-up. A busy machine may cost each side one.
TEST_P(transports, many_small_messages_never_stall_a_host_that_pumps_only_when_it_must) {
  pair p(*this);
  constexpr int rounds = 3000;
  int back = 0;
  p.router.pump_messages = p.agent.pump_messages = 3;
  p.router.on_message = [&](hive_peer id, const hive_message &) {
    p.router.send(id, "pong");
    p.router.send(id, "pong");
  };
  p.agent.on_message = [&](hive_peer, const hive_message &) {
    if (++back % 2 == 0 && back < 2 * rounds) p.agent.send(p.to_router, "ping");
  };
  p.router.waited_out = p.agent.waited_out = 0;
  p.agent.send(p.to_router, "ping");
  EXPECT_TRUE(p.until([&] { return back == 2 * rounds; })) << back;
  EXPECT_LE(p.router.waited_out + p.agent.waited_out, 2);
}

// An event of one connection that sends on another of the same instance must not cost that one its readiness.
TEST_P(transports, events_that_send_on_other_connections_never_stall) {
  node one(plugin, router_keys), two(plugin, router_keys), agent(plugin, agent_keys, router_keys.own);
  ASSERT_EQ(one.listen("127.0.0.1:0"), HIVE_OK);
  ASSERT_EQ(two.listen("127.0.0.1:0"), HIVE_OK);
  const hive_peer a = agent.dial(one.bound), b = agent.dial(two.bound);
  ASSERT_TRUE(drive({&one, &two, &agent}, [&] { return agent.peers.size() == 2 && one.peers.size() == 1 && two.peers.size() == 1; }));
  for (node *n : {&one, &two}) n->on_message = [n](hive_peer id, const hive_message &) { n->send(id, "echo"); };
  constexpr int rounds = 3000;
  int got = 0;
  agent.on_message = [&](hive_peer id, const hive_message &) {
    if (++got < rounds) agent.send(id == a ? b : a, "crossing");
  };
  one.waited_out = two.waited_out = agent.waited_out = 0;
  for (int i = 0; i < 4; ++i) agent.send(i % 2 == 0 ? a : b, "start");
  EXPECT_TRUE(drive({&one, &two, &agent}, [&] { return got >= rounds; })) << got;
  EXPECT_LE(one.waited_out + two.waited_out + agent.waited_out, 3);
}

TEST_P(transports, a_full_pipe_says_full_then_writable_and_keeps_what_it_took) {
  for (const bool router_sends : {true, false}) {
    pair p(*this, R"({"hwm":8})");
    node &sender = router_sends ? p.router : p.agent, &reader = router_sends ? p.agent : p.router;
    const hive_peer at = router_sends ? p.to_agent : p.to_router;
    const std::string block(64 * 1024, 'b');
    size_t taken = 0;
    hive_status answer = HIVE_OK;
    ASSERT_TRUE(drive({&sender}, [&] {
      while (taken < 4000 && (answer = sender.send(at, block)) == HIVE_OK) ++taken;
      return answer != HIVE_OK;
    }));
    ASSERT_EQ(answer, HIVE_FULL);
    size_t got = 0;
    reader.on_message = [&](hive_peer, const hive_message &m) { got += m.bytes.len == block.size(); };
    ASSERT_TRUE(p.until([&] { return sender.writable[at] >= 1; }));
    EXPECT_EQ(sender.send(at, block), HIVE_OK);
    EXPECT_TRUE(p.until([&] { return got == taken + 1; })) << got << " of " << taken + 1;
    EXPECT_TRUE(sender.losses.empty());
  }
}

TEST_P(transports, two_threads_may_drive_the_two_ends) {
  pair p(*this);
  constexpr int count = 2000;
  std::atomic<int> at_router{0}, at_agent{0};
  p.router.on_message = [&](hive_peer id, const hive_message &) {
    p.router.send(id, "answer");
    ++at_router;
  };
  p.agent.on_message = [&](hive_peer, const hive_message &) { ++at_agent; };
  std::thread other([&] { EXPECT_TRUE(drive({&p.router}, [&] { return at_agent == count; })); });
  int sent = 0;
  EXPECT_TRUE(drive({&p.agent}, [&] {
    for (int k = 0; k < 20 && sent < count; ++k, ++sent) EXPECT_EQ(p.agent.send(p.to_router, "question"), HIVE_OK);
    return at_agent == count;
  }));
  other.join();
  EXPECT_EQ(at_router, count);
}

TEST_P(transports, two_hundred_connections_leave_no_descriptor_behind) {
  node router(plugin, router_keys), agent(plugin, agent_keys, router_keys.own);
  ASSERT_EQ(router.listen("127.0.0.1:0"), HIVE_OK);
  size_t before = 0;
  for (int i = 0; i < 200; ++i) {
    const hive_peer peer = agent.dial(router.bound);
    const size_t n = static_cast<size_t>(i) + 1;
    ASSERT_TRUE(drive({&router, &agent}, [&] { return router.peers.size() == n; })) << i;
    agent.close_peer(peer, 1000);
    ASSERT_TRUE(drive({&router, &agent}, [&] { return router.losses.size() == n && agent.losses.size() == n; })) << i;
    if (i == 4) before = open_descriptors();
  }
  EXPECT_TRUE(drive({&router, &agent}, [&] { return open_descriptors() <= before + 4; })) << before << " -> " << open_descriptors();
  for (const auto &l : router.losses) EXPECT_EQ(router.losses_of(l.id), 1);
}

INSTANTIATE_TEST_SUITE_P(plugins, transports, testing::Values(subject{"zmq", TRANSPORT_ZMQ}, subject{"inproc", TRANSPORT_INPROC}),
                         [](const auto &which) { return std::string(which.param.name); });

}  // namespace
}  // namespace hive::conformance
