// Which of several addresses a connection is made to, and how long a dead one is waited for.
#include "http/connector.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "http/test_support.hpp"

namespace hive::http {
namespace {

using test::port_of_loopback;
using test::port_that;
using testing::HasSubstr;

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
  const port_of_loopback alive(port_that::connects);
  std::deque<port_of_loopback> dead;
  std::vector<connector::endpoint> all;
  for (int i = 0; i < 12; ++i) all.push_back(dead.emplace_back(port_that::refuses).at);
  all.push_back(alive.at);
  run(all, 12 * connector::stagger_ns - 1);  // as many staggers would not fit
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
