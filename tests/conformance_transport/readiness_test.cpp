// Asking a ZeroMQ socket for its events takes away the readiness of what has come until then: a message that comes between the
// last read and that question is announced by nothing else. This program stands in for zmq_getsockopt, so that a message
// comes exactly there.
#include <dlfcn.h>
#include <poll.h>
#include <zmq.h>

#include <functional>
#include <string>
#include <utility>

#include "node.hpp"

namespace {

// Called once, before a DEALER is asked for its events. One thread drives everything.
std::function<void(int readiness_fd)> before_question;

}  // namespace

extern "C" int zmq_getsockopt(void *socket, int option, void *value, size_t *size) {
  using call = int (*)(void *, int, void *, size_t *);
  static const auto real = reinterpret_cast<call>(dlsym(RTLD_NEXT, "zmq_getsockopt"));
  if (option == ZMQ_EVENTS && before_question) {
    int type = 0, fd = -1;
    size_t n = sizeof type;
    if (real(socket, ZMQ_TYPE, &type, &n) == 0 && type == ZMQ_DEALER && real(socket, ZMQ_FD, &fd, &n) == 0)
      std::exchange(before_question, nullptr)(fd);
  }
  return real(socket, option, value, size);
}

namespace hive::conformance {
namespace {

TEST(transport_zmq_readiness, a_message_that_comes_as_the_dialler_asks_for_its_events_is_not_lost) {
  const hive_component *plugin = load_component(TRANSPORT_ZMQ);
  const key_pair rk = make_keys(), ak = make_keys();
  node router(plugin, rk), agent(plugin, ak, rk.own);
  ASSERT_EQ(router.listen("127.0.0.1:0"), HIVE_OK);
  const hive_peer peer = agent.dial(router.bound);
  ASSERT_TRUE(drive({&router, &agent}, [&] { return router.peers.size() == 1 && agent.peers.size() == 1; }));
  const hive_peer back = router.peers[0].id;

  int interposed = 0;
  for (size_t round = 1; round <= 20; ++round) {
    before_question = [&](int fd) {
      ++interposed;
      ASSERT_EQ(router.send(back, "in between"), HIVE_OK);
      pollfd ready{fd, POLLIN, 0};
      ASSERT_EQ(poll(&ready, 1, 10'000), 1) << "libzmq has it, and says so";
    };
    agent.pump();
    // Told at once: the host pumps now and then anyway, and would find it a second later.
    ASSERT_TRUE(agent.messages_of(peer).size() == round || agent.due()) << "round " << round << ": nothing told the host that there is more";
    ASSERT_TRUE(drive({&router, &agent}, [&] { return agent.messages_of(peer).size() == round; })) << round;
  }
  EXPECT_EQ(interposed, 20) << "the question was never asked: this test tests nothing";
  before_question = nullptr;
}

}  // namespace
}  // namespace hive::conformance
