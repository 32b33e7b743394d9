// Which of several addresses a connection is made to, and how long a dead one is waited for.
#include "http/connector.hpp"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <optional>

#include "base/clock.hpp"

namespace hive::http {
namespace {

using testing::HasSubstr;

enum class port_that { connects, hangs, refuses };

// A port of loopback. One that hangs has a backlog that is full and stays so; at one that refuses nobody listens.
class port_of_loopback {
 public:
  explicit port_of_loopback(port_that what) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in here{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof here;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr *>(&here), size), 0);
    if (what != port_that::refuses) {
      EXPECT_EQ(::listen(listener_, what == port_that::connects ? 8 : 0), 0);
    }
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr *>(&here), &size), 0);
    at = {boost::asio::ip::make_address("127.0.0.1"), ntohs(here.sin_port)};
    for (int &s : filling_) {
      if (what != port_that::hangs) break;
      s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      ::connect(s, reinterpret_cast<sockaddr *>(&here), sizeof here);
    }
  }
  ~port_of_loopback() {
    for (const int s : filling_) ::close(s);
    ::close(listener_);
  }
  port_of_loopback(const port_of_loopback &) = delete;
  connector::endpoint at;

 private:
  int listener_, filling_[4] = {-1, -1, -1, -1};
};

struct connecting : connect_events, testing::Test {
  void on_connected(loop_socket s) override { peer = s.remote_endpoint(); }
  void on_connect_failed(bool timed_out, std::string words) override { failure = (timed_out ? "in time: " : "") + words; }
  // Until it has an answer; how long that took.
  uint64_t run(std::vector<connector::endpoint> addresses, uint64_t timeout_ns = 5 * ns_per_s) {
    const uint64_t began = now_ns();
    const auto keep = connector::start(home, "engine:1", std::move(addresses), timeout_ns, *this);
    while (!peer && failure.empty() && now_ns() < began + 10 * ns_per_s) home.io().run_one_for(std::chrono::milliseconds(5));
    return now_ns() - began;
  }
  loop home;
  std::optional<connector::endpoint> peer;
  std::string failure;
};

// Naive variant: one address after the other, each for the whole limit, so that a dead first one costs seconds.
TEST_F(connecting, an_address_that_says_nothing_delays_the_next_by_a_quarter_of_a_second) {
  const port_of_loopback dead(port_that::hangs), alive(port_that::connects);
  const uint64_t took = run({dead.at, alive.at});
  ASSERT_TRUE(peer) << failure;
  EXPECT_EQ(*peer, alive.at);
  EXPECT_GE(took, connector::stagger_ns);
  EXPECT_LT(took, 5 * ns_per_s) << "the limit of the whole";
}

TEST_F(connecting, an_address_that_refuses_delays_nobody) {
  const port_of_loopback first(port_that::refuses), second(port_that::refuses), alive(port_that::connects);
  run({first.at, second.at, alive.at}, 2 * connector::stagger_ns - 1);  // two staggers would not fit
  ASSERT_TRUE(peer) << failure;
  EXPECT_EQ(*peer, alive.at);
}

TEST_F(connecting, what_fails_everywhere_says_so_and_what_hangs_everywhere_in_time) {
  const port_of_loopback first(port_that::refuses), second(port_that::refuses), dead(port_that::hangs);
  run({first.at, second.at});
  EXPECT_THAT(failure, HasSubstr("cannot connect to engine:1: Connection refused"));
  failure.clear();
  run({first.at, dead.at}, 300 * ns_per_ms);
  EXPECT_THAT(failure, HasSubstr("in time: cannot connect to engine:1: no answer in time, and earlier Connection refused"));
}

}  // namespace
}  // namespace hive::http
