#include "http/server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/server_fixture.hpp"

namespace hive::http {
namespace {

using test::raw_socket;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class server_test : public server_over {};
INSTANTIATE_TEST_SUITE_P(over, server_test, testing::Values("plain", "tls"), name_of_wire);

TEST_P(server_test, a_whole_answer_has_length_date_and_canonical_names) {
  start();
  auto c = connect();
  c.send(get("/hello?x=y"));
  const std::string answer = c.until("hello");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-RateLimit-Remaining: 1\r\nDate: "));
  EXPECT_THAT(answer, HasSubstr(" GMT\r\nContent-Length: 5\r\n\r\nhello"));
  c.send(get("/none"));
  EXPECT_THAT(c.until("\r\n\r\n"), Not(HasSubstr("Content-Length")));
  EXPECT_TRUE(thread_.wait_for("over /none"));
}

TEST_P(server_test, bodies_are_read_whole_whatever_the_framing_and_the_split) {
  start();
  auto c = connect();
  const std::string chunked = get("/echo", "Transfer-Encoding: chunked\r\n", "POST") + "3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n";
  const std::string counted = post("/echo", "abcdefg");
  for (const std::string &wire : {chunked, counted}) {
    for (size_t cut = 0; cut < wire.size(); ++cut) {
      c.send(wire.substr(0, cut));
      c.send(wire.substr(cut));
      ASSERT_THAT(c.until("abcdefg"), HasSubstr("Content-Length: 7\r\n\r\nabcdefg")) << cut;
    }
  }
}

// Naive variant: a name is copied as it is, and what stands behind its line end is a field that nobody has let through.
TEST_P(server_test, a_field_whose_name_is_no_token_is_left_out_of_the_answer) {
  start();
  auto c = connect();
  c.send(get("/odd-names"));
  const std::string answer = c.until("\r\n\r\nodd");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\nX-C: 4  X-Injected: 5\r\nDate: "));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Length: 3\r\n\r\nodd"));
  EXPECT_THAT(answer, Not(HasSubstr("Content-Length :")));
}

// Naive variant: the body's last bytes come in the turn of the answer, and who gave it is handed a request to serve.
TEST_P(server_test, who_has_answered_is_not_given_the_body) {
  start();
  auto a = connect(), b = connect();
  b.send(get("/hello"));
  EXPECT_THAT(b.until("hello"), StartsWith("HTTP/1.1 200 "));
  a.send(get("/hold-body", "Transfer-Encoding: chunked\r\n", "POST") + "3\r\nabc\r\n");
  ASSERT_TRUE(thread_.wait_for("reads /hold-body"));
  // Both are there when the loop looks again, b's first.
  thread_.on_loop([&] {
    b.send(get("/answer-held"));
    a.send("0\r\n\r\n");
  });
  EXPECT_THAT(a.until_end(), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(b.until("done"), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(thread_.count("body /hold-body"), 0u);
}

TEST_P(server_test, pipelined_requests_are_answered_in_order) {
  start();
  auto c = connect();
  std::string wire;
  for (int i = 0; i < 200; ++i) wire += post("/echo", "body-" + std::to_string(i) + ".") + get("/stream");
  std::thread sender([&] { c.send(wire); });
  for (int i = 0; i < 200; ++i) {
    ASSERT_THAT(c.until("body-" + std::to_string(i) + "."), StartsWith("HTTP/1.1 200 OK")) << i;
    ASSERT_THAT(c.until("0\r\n\r\n"), HasSubstr("\r\n\r\n4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n")) << i;
  }
  sender.join();
}

TEST_P(server_test, one_byte_at_a_time_is_understood) {
  start();
  auto c = connect();
  for (char b : post("/echo", "slow bytes")) c.send({&b, 1});
  EXPECT_THAT(c.until("slow bytes"), HasSubstr("200 OK"));
}

TEST_P(server_test, a_body_over_the_limit_is_refused_and_the_client_sees_why) {
  start();
  const std::string big(body_limit + 1, 'x');
  auto counted = connect();
  counted.send(post("/echo", big));
  EXPECT_THAT(counted.until("refused"), StartsWith("HTTP/1.1 413 "));
  EXPECT_EQ(counted.until_end(), "");
  EXPECT_FALSE(counted.was_reset());
  auto chunked = connect();
  chunked.send(get("/echo", "Transfer-Encoding: chunked\r\n", "POST"));
  std::string wire;
  for (int i = 0; i < 11; ++i) wire += "100000\r\n" + std::string(1 << 20, 'y') + "\r\n";
  chunked.send(wire + "0\r\n\r\n");
  EXPECT_THAT(chunked.until("refused"), StartsWith("HTTP/1.1 413 "));
  auto exact = connect();
  std::thread sender([&] { exact.send(post("/echo", std::string(body_limit, 'z') + "")); });
  EXPECT_THAT(exact.until("\r\n\r\n"), HasSubstr("Content-Length: 10485760\r\n"));
  sender.join();
}

TEST_P(server_test, continue_is_sent_only_when_the_body_is_wanted) {
  start();
  auto wanted = connect();
  const std::string fields = "Content-Length: 3\r\nExpect: 100-continue\r\n";
  wanted.send(get("/echo", fields, "POST"));
  EXPECT_EQ(wanted.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  wanted.send("abc");
  EXPECT_THAT(wanted.until("\r\n\r\nabc"), StartsWith("HTTP/1.1 200 OK\r\n"));
  auto refused = connect();
  refused.send(get("/refuse", fields, "POST"));
  EXPECT_THAT(refused.until("\r\n\r\nno"), testing::AllOf(StartsWith("HTTP/1.1 401 "), HasSubstr("Connection: close")));
  auto too_big = connect();
  too_big.send(get("/echo", "Content-Length: 99999999\r\nExpect: 100-continue\r\n", "POST"));
  EXPECT_THAT(too_big.until("refused"), StartsWith("HTTP/1.1 413 "));
}

TEST_P(server_test, a_short_unread_body_keeps_the_connection_and_a_long_one_ends_it) {
  start();
  auto c = connect();
  c.send(post("/refuse", std::string(1000, 'x')) + get("/hello"));
  EXPECT_THAT(c.until("\r\n\r\nno"), Not(HasSubstr("Connection: close")));
  EXPECT_THAT(c.until("hello"), StartsWith("HTTP/1.1 200 OK"));
  c.send(post("/refuse", std::string(5 << 20, 'x')));
  EXPECT_THAT(c.until("\r\n\r\nno"), HasSubstr("Connection: close"));
  EXPECT_EQ(c.until_end(), "");
  EXPECT_FALSE(c.was_reset());
}

TEST_P(server_test, an_answer_before_the_body_has_come_leaves_the_connection_sound) {
  start();
  auto c = connect();
  c.send(get("/early", "Content-Length: 6\r\n", "POST") + "ab");
  EXPECT_THAT(c.until("early"), StartsWith("HTTP/1.1 200 "));
  c.send("cdef" + post("/echo", "whole"));
  EXPECT_THAT(c.until("\r\n\r\nwhole"), StartsWith("HTTP/1.1 200 "));
}

TEST_P(server_test, head_requests_get_no_body) {
  start();
  auto c = connect();
  c.send(get("/hello", "", "HEAD") + get("/stream", "", "HEAD") + get("/none"));
  EXPECT_THAT(c.until("\r\n\r\n"), HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(c.until("\r\n\r\n"), HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(c.until("\r\n\r\n"), StartsWith("HTTP/1.1 204 "));
}

TEST_P(server_test, http_1_0_gets_no_chunks_and_a_close_unless_it_asks_to_keep) {
  start();
  auto plain = connect();
  plain.send("GET /stream HTTP/1.0\r\n\r\n");
  EXPECT_THAT(plain.until_end(), testing::AllOf(HasSubstr("Connection: close\r\n\r\none two"), Not(HasSubstr("chunked"))));
  auto kept = connect();
  kept.send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /hello HTTP/1.0\r\n\r\n");
  EXPECT_THAT(kept.until("hello"), HasSubstr("Connection: keep-alive\r\n"));
  EXPECT_THAT(kept.until_end(), HasSubstr("Connection: close\r\n"));
}

TEST_P(server_test, a_client_that_leaves_is_noticed_in_every_state) {
  start();
  const struct {
    std::string wire, wait, gone;
  } states[] = {
      {get("/hold"), "held /hold", "/hold gone left"},
      {get("/hold-body", "Content-Length: 10\r\n", "POST") + "abc", "", "/hold-body gone left"},
      {post("/hold-body", "abc"), "body /hold-body", "/hold-body gone left"},
      {post("/hold", std::string(100, 'x')), "held /hold", "/hold gone left"},
      {get("/stall"), "held /stall", "/stall gone left"},
  };
  std::map<std::string, size_t> waits, gones;
  for (const auto &leaving : states) {
    for (const char *how : {"close", "reset", "half"}) {
      auto c = connect();
      c.send(leaving.wire);
      if (!leaving.wait.empty()) {
        ASSERT_TRUE(thread_.wait_for(leaving.wait, ++waits[leaving.wait]));
      }
      if (*how == 'c') c.close();
      if (*how == 'r') c.reset();
      if (*how == 'h') c.half_close();
      ASSERT_TRUE(thread_.wait_for(leaving.gone, ++gones[leaving.gone])) << leaving.wire << how;
    }
  }
  thread_.on_loop([&] {
    EXPECT_EQ(server_->busy(), 0u);
    EXPECT_EQ(server_->counters().open, 0u);
    EXPECT_EQ(server_->counters().client_gone, 15u);
  });
}

TEST_P(server_test, a_half_closed_client_is_answered_where_that_is_allowed) {
  server_limits limits;
  limits.half_close_is_gone = false;
  start(limits);
  auto c = connect();
  c.send(get("/hold"));
  c.half_close();
  ASSERT_TRUE(thread_.wait_for("held /hold"));
  thread_.on_loop([&] { script_.held["/hold"]->respond({200, {}}, "late"); });
  EXPECT_THAT(c.until_end(), HasSubstr("late"));
  EXPECT_TRUE(c.ended());
  EXPECT_EQ(thread_.count("/hold gone left"), 0u);
}

TEST_P(server_test, a_reader_that_stops_is_slow_and_then_gone) {
  server_limits limits;
  limits.write_stall_timeout_ns = 200 * ns_per_ms;
  start(limits);
  auto c = connect(4096);
  c.send(get("/stall"));
  EXPECT_TRUE(thread_.wait_for("unwritten many"));
  EXPECT_TRUE(thread_.wait_for("/stall gone slow"));
  EXPECT_TRUE(thread_.wait_for("over /stall"));
  thread_.on_loop([&] { EXPECT_EQ(server_->counters().client_slow, 1u); });
}

// Naive variant: progress is what the socket takes, and that takes nothing until a third of the kernel's buffer is free.
TEST_P(server_test, a_reader_that_takes_little_at_a_time_is_not_slow_until_it_stops) {
  server_limits limits;
  limits.write_stall_timeout_ns = ns_per_s;  // the reader's kernel tells of its progress in steps of about half a second
  start(limits);
  for (const char *path : {"/stall", "/huge"}) {  // a stream, and an answer that was complete at once
    auto c = connect(4096, 1400);
    c.send(get(path));
    const uint64_t begin = now_ns();
    const size_t little = over_tls_ ? 2048 : 1024;   // a record is taken whole, or not at all
    for (uint64_t step = 1; step <= 60; ++step) {  // 20 or 40 KB/s for three times the limit
      ASSERT_GT(c.take(little), 0u) << path << " was cut after " << (now_ns() - begin) / ns_per_ms << " ms";
      for (uint64_t now; (now = now_ns()) < begin + step * 50 * ns_per_ms;)
        std::this_thread::sleep_for(std::chrono::nanoseconds(begin + step * 50 * ns_per_ms - now));
    }
    const uint64_t stopped = now_ns();
    const uint64_t before = path[1] == 's' ? 0 : 1;
    uint64_t slow = before;
    while (slow == before && now_ns() < stopped + 5 * ns_per_s) thread_.on_loop([&] { slow = server_->counters().client_slow; });
    EXPECT_EQ(slow, before + 1) << path << ": whoever stops is slow, whether its answer is complete here or not";
  }
}

// Each part is written alone, and waited for, so that none can come because of the next.
TEST_P(server_test, what_a_turn_writes_is_with_the_client_before_the_next_is_written) {
  start();
  auto c = connect();
  c.send(get("/hold"));
  ASSERT_TRUE(thread_.wait_for("held /hold"));
  thread_.on_loop([&] { script_.held["/hold"]->begin({200, {}}); });
  EXPECT_THAT(c.until("\r\n\r\n"), HasSubstr("chunked"));
  for (int i = 0; i < 20; ++i) {
    const std::string part = "part " + std::to_string(i) + ";";
    thread_.on_loop([&] { script_.held["/hold"]->write(part); });
    ASSERT_THAT(c.until(part), HasSubstr(part));
  }
  thread_.on_loop([&] { script_.held["/hold"]->end(); });
  EXPECT_THAT(c.until("0\r\n\r\n"), StartsWith("\r\n0"));
}

TEST_P(server_test, an_aborted_stream_ends_without_its_last_chunk) {
  start();
  auto c = connect();
  c.send(get("/cut"));
  const std::string answer = c.until_end();
  EXPECT_THAT(answer, HasSubstr("4\r\none \r\n3\r\ntwo\r\n"));
  EXPECT_THAT(answer, Not(HasSubstr("0\r\n\r\n")));
}

TEST_P(server_test, a_handler_that_throws_gives_500_and_harms_nobody) {
  start();
  auto c = connect();
  c.send(get("/throw"));
  const std::string answer = c.until_end();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(answer, HasSubstr("\r\nX-Request-ID: id-of-the-responder\r\n"));
  EXPECT_TRUE(thread_.wait_for("thrown /throw"));
  EXPECT_TRUE(thread_.wait_for("exception handler broke"));
  auto next = connect();
  next.send(get("/hello"));
  EXPECT_THAT(next.until("hello"), StartsWith("HTTP/1.1 200 "));
}

// Naive variant: only what serves is told, so that this request leaves no record anywhere.
TEST_P(server_test, a_service_that_throws_before_anybody_serves_is_told_so) {
  start();
  auto c = connect();
  c.send(get("/throw-unserved"));
  const std::string answer = c.until_end();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(answer, HasSubstr("\r\nX-Request-ID: id-of-the-service\r\n"));
  EXPECT_TRUE(thread_.wait_for("thrown at /throw-unserved"));
}

TEST_P(server_test, an_answer_that_has_begun_when_its_handler_throws_is_cut_and_its_handler_told) {
  start();
  auto c = connect();
  c.send(get("/throw-begun"));
  const std::string answer = c.until_end();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, Not(HasSubstr("0\r\n\r\n")));
  EXPECT_TRUE(thread_.wait_for("thrown /throw-begun begun"));
}

TEST_P(server_test, reading_ahead_is_bounded_while_a_handler_works) {
  start();
  auto c = connect();
  std::string wire = get("/hold");
  for (int i = 0; i < 4000; ++i) wire += get("/hello");
  std::thread sender([&] { c.send(wire); });
  ASSERT_TRUE(thread_.wait_for("held /hold"));
  thread_.on_loop([&] { script_.held["/hold"]->respond({200, {}}, "first"); });
  EXPECT_THAT(c.until("first"), StartsWith("HTTP/1.1 200 "));
  for (int i = 0; i < 4000; ++i) ASSERT_THAT(c.until("\r\n\r\nhello"), StartsWith("HTTP/1.1 200 ")) << i;
  sender.join();
}

// A client that sends request after request and takes no answer may not make the server hold all the answers.
TEST_P(server_test, answers_that_nobody_takes_stop_the_taking_up_of_requests) {
  start();
  auto c = connect(4096);
  std::string wire;
  for (int i = 0; i < 200; ++i) wire += get("/large");
  ASSERT_TRUE(c.send(wire));  // all of it lies in front of the server now
  ASSERT_TRUE(thread_.wait_for("over /large"));
  size_t taken = 0, still = 0;
  while (still < 1'000) {  // turns of the loop in which it took up nothing
    const size_t before = taken;
    thread_.on_loop([&] { taken = server_->counters().requests; });
    still = taken == before ? still + 1 : 0;
  }
  EXPECT_LT(taken, 100u);
  thread_.on_loop([&] { EXPECT_EQ(server_->busy(), 1u); });
  size_t answers = 0;
  while (answers < 190) {
    ASSERT_THAT(c.until("end of large"), HasSubstr("lll")) << answers;
    ++answers;
  }
}

// Its timer still runs from an answer that went in pieces; those that follow go at once.
TEST_P(server_test, a_client_that_takes_all_it_asks_for_is_never_slow) {
  server_limits limits;
  limits.write_stall_timeout_ns = ns_per_s;
  start(limits);
  auto c = connect(64 * 1024);
  c.send(get("/huge"));
  ASSERT_TRUE(thread_.wait_for("over /huge"));
  for (size_t taken = 0, n; taken < 16 << 20; taken += n) ASSERT_NE(n = c.receive().size(), 0u);
  std::string wire;
  for (int i = 0; i < 500; ++i) wire += get("/hello");
  for (const uint64_t end = now_ns() + 1500 * ns_per_ms; now_ns() < end;) {  // beyond the limit
    ASSERT_TRUE(c.send(wire));
    for (int i = 0; i < 500; ++i) ASSERT_THAT(c.until("\r\n\r\nhello"), HasSubstr("HTTP/1.1 200 ")) << i;
  }
  thread_.on_loop([&] { EXPECT_EQ(server_->counters().client_slow, 0u); });
}

TEST_P(server_test, an_answer_is_busy_until_the_socket_has_it_and_outlives_the_idle_limit) {
  server_limits limits;
  limits.idle_timeout_ns = 500 * ns_per_ms;
  start(limits);
  auto c = connect(4096);
  c.send(get("/huge"));
  ASSERT_TRUE(thread_.wait_for("over /huge"));
  EXPECT_NE(c.receive(), "");
  for (int i = 0; i < 2; ++i) {  // the limit passes, as these find out one after the other
    auto idle = connect();
    idle.send(get("/hello"));
    while (!idle.receive().empty()) {
    }
  }
  thread_.on_loop([&] {
    EXPECT_EQ(server_->busy(), 1u);
    EXPECT_EQ(server_->counters().open, 1u);
  });
  size_t got = 0;
  for (std::string piece = c.receive(); !piece.empty(); piece = c.receive()) got += piece.size();
  EXPECT_GT(got, size_t{15} << 20);
  thread_.on_loop([&] { EXPECT_EQ(server_->busy(), 0u); });
}

TEST_P(server_test, draining_ends_connections_with_their_next_answer_and_idle_ones_when_told) {
  start();
  auto idle = connect();
  idle.send(get("/hello"));
  idle.until("hello");
  ASSERT_TRUE(thread_.wait_for("over /hello"));
  auto busy = connect();
  busy.send(get("/hold"));
  ASSERT_TRUE(thread_.wait_for("held /hold"));
  thread_.on_loop([&] { server_->drain(); });
  auto late = connect();
  late.send(get("/hello"));
  EXPECT_THAT(late.until_end(), HasSubstr("Connection: close\r\n\r\nhello"));
  thread_.on_loop([&] {
    server_->stop_accepting();
    server_->close_idle();
  });
  EXPECT_EQ(idle.until_end(), "");
  EXPECT_TRUE(idle.ended());
  thread_.on_loop([&] { script_.held["/hold"]->respond({200, {}}, "done"); });
  EXPECT_THAT(busy.until_end(), HasSubstr("done"));
}

TEST_P(server_test, destroying_the_server_tells_the_responders) {
  start();
  auto c = connect();
  c.send(get("/hold"));
  ASSERT_TRUE(thread_.wait_for("held /hold"));
  thread_.on_loop([&] { server_.reset(); });
  EXPECT_TRUE(thread_.wait_for("/hold gone shutdown"));
  EXPECT_EQ(c.until_end(), "");
}

}  // namespace
}  // namespace hive::http
