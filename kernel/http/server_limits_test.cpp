// What one client may take of a server: time, bytes, requests, connections.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/peer_limit.hpp"
#include "http/server_fixture.hpp"

namespace hive::http {
namespace {

using test::raw_socket;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class server_limits_test : public server_over {};
INSTANTIATE_TEST_SUITE_P(over, server_limits_test, testing::Values("plain", "tls"), name_of_wire);

class listening_test : public server_bed {};

TEST_P(server_limits_test, bad_heads_are_refused_in_json_and_the_connection_ends) {
  server_limits limits;
  limits.header_timeout_ns = 500 * ns_per_ms;
  start(limits);
  const struct {
    std::string wire;
    const char *status;
  } cases[] = {{"GET / HTTP/1.1\r\n\r\nGET /hello HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
               {get("/", "X: " + std::string(40'000, 'x') + "\r\n"), "431"},
               {get("/", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "POST") + "0\r\n\r\n", "400"},
               {"GET / HTTP/2.0\r\n\r\n", "505"},
               {"GET /half HTTP/1.1\r\nHo", "408"}};
  for (const auto &c : cases) {
    auto s = connect();
    s.send(get("/added"));
    EXPECT_THAT(s.until("\r\n\r\nadded"), HasSubstr("X-Added: yes\r\n"));
    s.send(c.wire);
    const std::string answer = s.until_end();
    EXPECT_THAT(answer, Not(HasSubstr("X-Added"))) << "that was the request before it";
    EXPECT_THAT(answer, StartsWith(std::string("HTTP/1.1 ") + c.status));
    EXPECT_THAT(answer, HasSubstr("Connection: close\r\n\r\n{\"refused\":" + std::string(c.status)));
    EXPECT_THAT(answer, Not(HasSubstr("HTTP/1.1 200"))) << "nothing after a bad head is a request";
  }
  EXPECT_EQ(counted(&server_counters::header_timeouts, 1), 1u);
}

TEST_P(server_limits_test, a_malformed_or_stuck_body_is_refused) {
  server_limits limits;
  limits.body_idle_timeout_ns = 200 * ns_per_ms;
  start(limits);
  for (const auto &[tail, answer] : {std::pair{"3\r\nabcX", "400"}, {"3\r\nabc\r\n0\r\nA: b\r\n\r\n", "400"}, {"3\r\na", "408"}}) {
    auto s = connect();
    s.send(get("/echo", "Transfer-Encoding: chunked\r\n", "POST") + tail);
    EXPECT_THAT(s.until_end(), StartsWith(std::string("HTTP/1.1 ") + answer));
  }
  auto counted = connect();
  counted.send(get("/echo", "Content-Length: 100\r\n", "POST") + "part");
  EXPECT_THAT(counted.until_end(), StartsWith("HTTP/1.1 408 "));
}

// Naive variant: each byte is in time, so the body may take for ever.
TEST_P(server_limits_test, a_body_that_only_trickles_is_refused) {
  server_limits limits;
  limits.body_idle_timeout_ns = ns_per_s;
  limits.body_bytes_per_s = 1000;
  start(limits);
  for (const bool chunked : {false, true}) {
    auto slow = connect();
    slow.send(get("/echo", chunked ? "Transfer-Encoding: chunked\r\n" : "Content-Length: 1000\r\n", "POST") + (chunked ? "3e8\r\n" : ""));
    const uint64_t begin = now_ns();
    std::string answer;
    while (answer.empty() && now_ns() < begin + 5 * ns_per_s) {  // ten bytes in 100 ms, each well within the limit of a read
      slow.send("0123456789");
      answer = slow.receive(100);
    }
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 408 ")) << chunked;
  }
  EXPECT_EQ(counted(&server_counters::body_timeouts, 2), 2u);
  auto fast = connect();
  for (int i = 0; i < 10; ++i) {
    fast.send(i == 0 ? get("/echo", "Content-Length: 3000\r\n", "POST") : "");
    fast.send(std::string(300, 'x'));
    if (i < 9) {
      EXPECT_EQ(fast.receive(120), "");
    }
  }
  EXPECT_THAT(fast.until("\r\n\r\n"), StartsWith("HTTP/1.1 200 ")) << "3,000 bytes, for longer than a read's limit";
}

// Naive variant: each byte gives what is left the time of a read of a body that somebody wants.
TEST_P(server_limits_test, what_is_left_of_a_body_that_has_its_answer_has_one_limit_however_it_trickles) {
  server_limits limits;
  limits.linger_ns = 500 * ns_per_ms;
  start(limits);
  auto slow = connect();
  slow.send(get("/refuse", "Content-Length: 1000\r\n", "POST"));
  EXPECT_THAT(slow.until("\r\n\r\nno"), StartsWith("HTTP/1.1 401 "));
  for (const uint64_t end = now_ns() + 10 * ns_per_s; !slow.ended() && now_ns() < end;) {
    slow.send("x");
    slow.receive(50);
  }
  EXPECT_TRUE(slow.ended());
  EXPECT_EQ(counted(&server_counters::open, 0), 0u);
}

TEST_P(server_limits_test, a_connection_ends_with_the_last_request_it_may_have) {
  server_limits limits;
  limits.max_requests = 3;
  start(limits);
  auto c = connect();
  c.send(get("/hello") + get("/stream") + post("/echo", "third") + get("/hello"));
  EXPECT_THAT(c.until("0\r\n\r\n"), Not(HasSubstr("Connection: close")));
  const std::string rest = c.until_end();
  EXPECT_THAT(rest, testing::AllOf(HasSubstr("Connection: close"), testing::EndsWith("third")));
  EXPECT_TRUE(c.ended());
  EXPECT_FALSE(c.was_reset());
  auto next = connect();
  next.send(get("/hello"));
  EXPECT_THAT(next.until("hello"), StartsWith("HTTP/1.1 200 "));
}

TEST_P(server_limits_test, one_address_gets_as_many_connections_as_it_may_have) {
  peer_limit peers(2, {});
  server_limits limits;
  limits.peers = &peers;
  start(limits);
  auto a = connect(), b = connect();
  for (auto *c : {&a, &b}) {
    c->send(get("/hello"));
    EXPECT_THAT(c->until("hello"), StartsWith("HTTP/1.1 200 "));
  }
  raw_socket third = raw_socket::to(port_);
  EXPECT_EQ(third.until_end(), "");
  EXPECT_TRUE(third.ended());
  EXPECT_EQ(counted(&server_counters::refused_address, 1), 1u);
  a.close();
  EXPECT_EQ(counted(&server_counters::open, 1), 1u);
  auto fourth = connect();
  fourth.send(get("/hello"));
  EXPECT_THAT(fourth.until("hello"), StartsWith("HTTP/1.1 200 "));
  thread_.on_loop([&] { server_.reset(); });
}

// Clients keep pools of their own: who closes first must be they, or a request meets a connection that is being closed. That the limit
// is what ends a connection is the next test.
TEST_F(listening_test, connections_without_a_request_are_kept_for_two_minutes) {
  EXPECT_GE(server_limits{}.idle_timeout_ns, 120 * ns_per_s);
}

TEST_P(server_limits_test, silent_connections_are_closed_after_the_idle_limit) {
  server_limits limits;
  limits.idle_timeout_ns = 500 * ns_per_ms;
  start(limits);
  auto fresh = connect();
  EXPECT_EQ(fresh.until_end(), "");
  EXPECT_TRUE(fresh.ended());
  auto kept = connect();
  kept.send(get("/hello"));
  EXPECT_THAT(kept.until_end(), HasSubstr("hello"));
  EXPECT_TRUE(kept.ended());
  EXPECT_EQ(counted(&server_counters::idle_timeouts, 2), 2u);
}

TEST_F(listening_test, accepting_pauses_at_the_connection_limit) {
  server_limits limits;
  limits.max_connections = 2;
  start(limits);
  auto a = connect(), b = connect(), waiting = connect();
  a.send(get("/hello"));
  a.until("hello");
  b.send(get("/hello"));
  b.until("hello");
  waiting.send(get("/hello"));
  EXPECT_EQ(waiting.receive(50), "");
  EXPECT_EQ(server_->counters().limit_reached, 1u);
  a.close();
  EXPECT_THAT(waiting.until("hello"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(listening_test, listening_needs_a_sound_and_free_address) {
  start();
  thread_.on_loop([&] {
    for (const char *bad : {"", "host", "127.0.0.1:", "127.0.0.1:99999", "::1:80", "nonsense:80", "127.0.0.1:8x"}) {
      server other(thread_.get(), script_, {});
      EXPECT_FALSE(other.listen(bad, false)) << bad;
    }
    server taken(thread_.get(), script_, {});
    EXPECT_FALSE(taken.listen(server_->address(), false));
    server any(thread_.get(), script_, {});
    EXPECT_TRUE(any.listen(":0", true));
    EXPECT_NE(any.port(), 0);
  });
}

}  // namespace
}  // namespace hive::http
