// Who is no CURVE client of the router: refused at its greeting, at the cost of a bounded number of bytes.
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stranger.hpp"

namespace hive::conformance {
namespace {

// A real DEALER of libzmq that speaks another mechanism than the router's, with what its monitor tells of its connection.
struct unarmed {
  void *context = zmq_ctx_new();
  void *socket = zmq_socket(context, ZMQ_DEALER);
  void *monitor = zmq_socket(context, ZMQ_PAIR);
  bool welcomed = false, ended = false;
  unarmed(const std::string &address, bool plain) {
    const int no = 0, never = -1;
    zmq_setsockopt(socket, ZMQ_LINGER, &no, sizeof no);
    zmq_setsockopt(monitor, ZMQ_LINGER, &no, sizeof no);
    zmq_setsockopt(socket, ZMQ_RECONNECT_IVL, &never, sizeof never);
    if (plain) {
      zmq_setsockopt(socket, ZMQ_PLAIN_USERNAME, "agent", 5);
      zmq_setsockopt(socket, ZMQ_PLAIN_PASSWORD, "secret", 6);
    }
    zmq_socket_monitor(socket, "inproc://events", ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED);
    zmq_connect(monitor, "inproc://events");
    zmq_connect(socket, ("tcp://" + address).c_str());
    const std::string large(100'000, 'x');
    for (int i = 0; i < 20; ++i) zmq_send(socket, large.data(), large.size(), ZMQ_DONTWAIT);  // goes as soon as it may
  }
  void look() {
    for (;;) {
      zmq_msg_t head, endpoint;
      zmq_msg_init(&head);
      uint16_t event = 0;
      if (zmq_msg_recv(&head, monitor, ZMQ_DONTWAIT) == 6) {
        std::memcpy(&event, zmq_msg_data(&head), sizeof event);
        zmq_msg_init(&endpoint);
        zmq_msg_recv(&endpoint, monitor, 0);
        zmq_msg_close(&endpoint);
      }
      zmq_msg_close(&head);
      if (event == 0) return;
      (event == ZMQ_EVENT_DISCONNECTED ? ended : welcomed) = true;
    }
  }
  ~unarmed() {
    zmq_socket_monitor(socket, nullptr, 0);
    zmq_close(monitor);
    zmq_close(socket);
    zmq_ctx_term(context);
  }
};

// Naive variant: a mechanism is what the other side speaks, NULL if it speaks none.
TEST(transport_zmq, dealers_without_curve_are_refused_and_counted_and_agents_go_on) {
  const key_pair rk = make_keys(), ak = make_keys();
  node router(zmq_plugin(), rk, {}, R"({"limit_loopback":true,"max_strangers_per_ip":100,"max_failures_per_ip":6})"), agent(zmq_plugin(), ak, rk.own);
  ASSERT_EQ(router.listen("127.0.0.1:0"), HIVE_OK);
  const hive_peer peer = agent.dial(router.bound);
  ASSERT_TRUE(drive({&router, &agent}, [&] { return router.peers.size() == 1 && agent.peers.size() == 1; }));
  int answers = 0;
  router.on_message = [&](hive_peer from, const hive_message &) {
    EXPECT_EQ(from, router.peers[0].id);
    router.send(from, "answer");
  };
  agent.on_message = [&](hive_peer, const hive_message &) { ++answers; };
  int tried = 0;
  for (; tried < 200 && router.metric("rejected_failures_per_ip_total") == 0; ++tried) {
    unarmed stranger(router.bound, tried % 2 != 0);
    agent.send(peer, "question");
    ASSERT_TRUE(drive({&router, &agent}, [&] {
      stranger.look();
      return stranger.ended && answers == tried + 1;
    })) << tried;
    EXPECT_FALSE(stranger.welcomed) << tried;
  }
  EXPECT_GT(tried, 6);
  EXPECT_GT(router.metric("rejected_failures_per_ip_total"), 0);
  EXPECT_EQ(router.peers.size(), 1u);
  EXPECT_TRUE(router.losses.empty());
}

std::string greeting_of(std::string_view mechanism) {
  std::string out("\xff\0\0\0\0\0\0\0\1\x7f\3\1", 12);
  out += mechanism;
  out.resize(64);
  return out;
}

// Whether the other side has ended it; what it said before is counted.
bool is_cut(int fd, size_t &heard) {
  char c[256];
  for (;;) {
    const auto n = recv(fd, c, sizeof c, MSG_DONTWAIT);
    if (n <= 0) return n == 0 || (errno != EAGAIN && errno != EINTR);
    heard += static_cast<size_t>(n);
  }
}

// A DEALER ends such a connection, too; here the router is the only one that can. Naive variants: as above; or who speaks another
// mechanism keeps its place until its time is up.
TEST(transport_zmq, another_mechanism_is_the_end_of_its_connection_at_once) {
  node router(zmq_plugin(), make_keys(), {}, R"({"handshake_timeout_ms":60000})");
  ASSERT_EQ(router.listen("127.0.0.1:0"), HIVE_OK);
  const std::string ready("\4\x29\5READY\xbSocket-Type\0\0\0\6DEALER\x8Identity\0\0\0\0", 43);
  const std::string hello("\4\x13\5HELLO\5agent\6secret", 21);
  for (const auto &[mechanism, command] : {std::pair("NULL", ready), std::pair("PLAIN", hello), std::pair("CURVE2", ready), std::pair("", ready)}) {
    const int fd = raw_connection(port_of(router.bound));
    const std::string all = greeting_of(mechanism) + command + std::string("\0\4mine", 6);
    EXPECT_EQ(::send(fd, all.data(), all.size(), MSG_NOSIGNAL), static_cast<ssize_t>(all.size()));
    size_t heard = 0;
    EXPECT_TRUE(drive({&router}, [&] { return is_cut(fd, heard); })) << mechanism;
    EXPECT_LE(heard, 64u) << mechanism << ": nothing after the router's own greeting";
    close(fd);
  }
  EXPECT_TRUE(router.peers.empty());
  EXPECT_TRUE(router.messages.empty());
}

// ASan keeps what was freed, and the shadow of ThreadSanitizer is resident, too.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Naive variant: libzmq's own limit, which is none: who announces a frame may send it before anybody knows who it is.
TEST(transport_zmq, what_strangers_send_before_their_handshake_is_bounded) {
  constexpr size_t strangers = 32, most_each = 384 * 1024;  // a frame of 256 KiB, libzmq's buffers, and room
  node router(zmq_plugin(), make_keys(), {}, R"({"handshake_timeout_ms":60000})");
  ASSERT_EQ(router.listen("127.0.0.1:0"), HIVE_OK);
  for (const size_t announced : {size_t{256 * 1024}, size_t{2 << 20}}) {
    std::string sent = greeting_of("CURVE") + '\6';
    for (int shift = 56; shift >= 0; shift -= 8) sent += static_cast<char>(announced >> shift & 0xff);
    sent.append(announced - 1, 'x');  // its last byte never comes
    const size_t before = resident_bytes();
    std::vector<int> held;
    for (size_t i = 0; i < strangers; ++i) {
      held.push_back(raw_connection(port_of(router.bound)));
      const timeval limit{20, 0};
      setsockopt(held.back(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
      for (size_t at = 0; at < sent.size();) {
        const auto n = ::send(held.back(), sent.data() + at, sent.size() - at, MSG_NOSIGNAL);
        if (n <= 0) break;
        at += static_cast<size_t>(n);
      }
    }
    const bool too_large = announced > 256 * 1024;
    size_t heard = 0;
    if (too_large) {
      EXPECT_TRUE(drive({&router}, [&] { return std::all_of(held.begin(), held.end(), [&](int fd) { return is_cut(fd, heard); }); }));
    }
    EXPECT_LT(std::max(resident_bytes(), before) - before, strangers * most_each) << announced;
    for (const int fd : held) close(fd);
  }
  EXPECT_TRUE(router.peers.empty());
}
#endif

}  // namespace
}  // namespace hive::conformance
