// Which connection a call of the client gets, and when one is kept, retried or closed.
#include "http/client.hpp"

#include <gmock/gmock.h>

#include "base/test_wait.hpp"
#include "http/client_bed.hpp"

namespace hive::http {
namespace {

using testing::HasSubstr;
using test::client_test;
using test::ok;
using test::raw_socket;
using test::recorder;
using test::scripted_origin;

TEST_F(client_test, a_kept_connection_that_dies_without_a_byte_is_replaced_once_with_the_whole_body) {
  std::string second;
  scripted_origin o([&](raw_socket &s, int number) {
    if (number == 1) {
      s.until("first");
      s.send(ok);
      s.until("second");  // the request arrives, then the connection dies
      s.reset();
    } else {
      second = s.until("second");
      s.send(ok);
      s.until_end();
    }
  });
  open(o.port);
  recorder a(thread_), b(thread_);
  run(a, {}, "first");
  run(b, {}, "a body and a second");
  EXPECT_FALSE(b.failed) << b.failure.message;
  EXPECT_EQ(b.data, "ok");
  EXPECT_EQ(b.written, 19u) << "bytes are reported once";
  EXPECT_THAT(second, HasSubstr("\r\n\r\na body and a second"));
  EXPECT_EQ(o.connections, 2);
}

TEST_F(client_test, a_fresh_connection_or_one_that_has_answered_is_not_retried) {
  scripted_origin fresh([&](raw_socket &s, int) { s.until("\r\n\r\n"); });
  open(fresh.port);
  recorder a(thread_);
  run(a);
  EXPECT_TRUE(a.failed);
  EXPECT_TRUE(a.failure.bytes_sent);
  EXPECT_FALSE(a.failure.timed_out);
  EXPECT_EQ(a.failure.phase, call_phase::waiting);
  EXPECT_EQ(fresh.connections, 1);
  scripted_origin partial([&](raw_socket &s, int) {
    s.until("\r\n\r\n");
    s.send(ok);
    s.until("\r\n\r\n");
    s.send("HTTP");
  });
  open(partial.port);
  recorder b(thread_), c(thread_);
  run(b);
  run(c);
  EXPECT_TRUE(c.failed);
  EXPECT_EQ(partial.connections, 1);
}

TEST_F(client_test, connections_retire_before_the_origin_closes_them_and_after_their_share_of_requests) {
  scripted_origin o([&](raw_socket &s, int) {
    while (!s.until("\r\n\r\n").empty() && !s.ended()) s.send(ok);
  });
  client_options options;
  options.idle_limit_ns = 50 * ns_per_ms;
  open(o.port, options);
  recorder a(thread_);
  run(a);
  ASSERT_TRUE(within_limit([&] { return kept() == 0; }, test::patience_ms / 2)) << "the origin keeps it for as long as its patience";
  options = {};
  options.requests_per_connection = 2;
  open(o.port, options);
  const int before = o.connections;
  for (int i = 0; i < 4; ++i) {
    recorder r(thread_);
    run(r);
    EXPECT_EQ(r.data, "ok");
  }
  EXPECT_EQ(o.connections, before + 2);
}

TEST_F(client_test, the_idle_limit_is_learned_from_an_origin_that_closes_early) {
  scripted_origin o([&](raw_socket &s, int number) {
    s.until("\r\n\r\n");
    s.send(ok);
    s.receive(1200);  // then it closes, as a server with a short keep-alive does
    thread_.note((s.ended() ? "client closed " : "origin closes ") + std::to_string(number));
  });
  open(o.port);
  for (const char *end : {"origin closes 1", "origin closes 2", "client closed 3"}) {
    recorder r(thread_);
    run(r);
    ASSERT_TRUE(thread_.wait_for(end));
    ASSERT_TRUE(within_limit([&] { return kept() == 0; })) << end;
  }
  thread_.on_loop([&] {
    EXPECT_LT(client_->idle_limit_ns(), 1500 * ns_per_ms);
    EXPECT_GE(client_->idle_limit_ns(), 200 * ns_per_ms);
  });
}

TEST_F(client_test, destroying_a_call_closes_its_connection_at_once_also_from_its_own_events) {
  std::atomic<int> closed = 0;
  scripted_origin o([&](raw_socket &s, int) {
    s.until("\r\n\r\n");
    s.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n");
    s.until_end();
    ++closed;
    thread_.note("closed");
  });
  open(o.port);
  recorder from_outside(thread_), in_data(thread_), in_head(thread_);
  start(from_outside);
  ASSERT_TRUE(thread_.wait_for("data"));
  thread_.on_loop([&] { call_.reset(); });
  ASSERT_TRUE(thread_.wait_for("closed", 1));
  in_data.in_data = [&] { call_.reset(); };
  start(in_data);
  ASSERT_TRUE(thread_.wait_for("closed", 2));
  in_head.in_head = [&] { call_.reset(); };
  start(in_head);
  ASSERT_TRUE(thread_.wait_for("closed", 3));
  thread_.on_loop([&] {
    EXPECT_EQ(from_outside.ends + in_data.ends + in_head.ends, 0);
    EXPECT_EQ(client_->open(), 0u);
  });
}

TEST_F(client_test, connect_failures_name_the_address) {
  const test::port_of_loopback nobody(test::port_that::refuses);
  const uint16_t dead = nobody.at.port();
  open(dead);
  recorder r(thread_);
  run(r);
  EXPECT_EQ(r.failure.phase, call_phase::connecting);
  EXPECT_FALSE(r.failure.bytes_sent);
  EXPECT_THAT(r.failure.message, HasSubstr("127.0.0.1:" + std::to_string(dead) + ": Connection refused"));
  open(dead, {}, std::string(70, 'x') + ".invalid");  // no label is that long: no server is asked
  recorder name(thread_);
  run(name);
  EXPECT_THAT(name.failure.message, HasSubstr("does not resolve"));
}

TEST_F(client_test, localhost_works_whichever_family_listens) {
  for (const int family : {AF_INET, AF_INET6}) {
    scripted_origin o(
        [&](raw_socket &s, int) {
          s.until("\r\n\r\n");
          s.send(ok);
          s.until_end();
        },
        family);
    if (!o.usable) continue;  // no IPv6 here
    open(o.port, {}, family == AF_INET ? "localhost" : "::1");
    recorder r(thread_);
    run(r);
    EXPECT_EQ(r.data, "ok") << r.failure.message;
    thread_.on_loop([&] {
      call_.reset();
      client_.reset();
    });
  }
}

}  // namespace
}  // namespace hive::http
