#include "http/client.hpp"

#include <gmock/gmock.h>

#include "http/client_bed.hpp"

namespace hive::http {
namespace {

using test::client_test;
using test::ok;
using test::raw_socket;
using test::recorder;
using test::scripted_origin;

TEST_F(client_test, requests_share_a_kept_connection_and_carry_what_was_asked) {
  std::string seen;
  scripted_origin o([&](raw_socket &s, int) {
    for (int i = 0; i < 3; ++i) {
      seen = s.until("body!");
      s.send(ok);
    }
    s.until_end();
  });
  open(o.port);
  for (int i = 0; i < 3; ++i) {
    recorder r(thread_);
    call_request q;
    q.fields = {{"X-A", "b"}, {"Host", "evil"}, {"Content-Length", "9"}, {"Transfer-Encoding", "chunked"}};
    run(r, std::move(q), "body!");
    EXPECT_EQ(r.status, 200);
    EXPECT_EQ(r.data, "ok");
    EXPECT_EQ(r.written, 5u);
    EXPECT_EQ(kept(), 1u);
  }
  EXPECT_EQ(o.connections, 1);
  EXPECT_EQ(seen, "POST /base/x HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(o.port) +
                      "\r\nX-A: b\r\nContent-Length: 5\r\n\r\nbody!");
}

// Naive variant: fields are written as they are, and one can end the request and begin another.
TEST_F(client_test, a_field_puts_no_line_of_its_own_into_a_request) {
  std::string seen;
  scripted_origin o([&](raw_socket &s, int) {
    seen = s.until("body!");
    s.send(ok);
    s.until_end();
  });
  open(o.port);
  recorder r(thread_);
  call_request q;
  q.fields = {{"X-A: 1\r\nX-Injected", "1"}, {"", "2"}, {"Content-Length ", "9"}, {"X-B", "3\r\n\r\nPOST /sleep HTTP/1.1"}};
  run(r, std::move(q), "body!");
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(seen, "POST /base/x HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(o.port) +
                      "\r\nX-B: 3    POST /sleep HTTP/1.1\r\nContent-Length: 5\r\n\r\nbody!");
}

TEST_F(client_test, answers_are_framed_strictly) {
  const struct {
    const char *name;
    std::string wire;
    bool fails;
    std::string data;
    size_t kept;
  } cases[] = {
      {"length", ok, false, "ok", 1},
      {"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", false, "ok", 1},
      {"until close", "HTTP/1.1 200 OK\r\n\r\nok", false, "ok", 0},
      {"1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false, "ok", 0},
      {"close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", false, "ok", 0},
      {"interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok, false, "ok", 1},
      {"no content", "HTTP/1.1 204 No Content\r\n\r\n", false, "", 1},
      {"not modified", "HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n", false, "", 1},
      {"extra bytes", ok + "HTTP/1.1 200", false, "ok", 0},
      {"cut", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", true, "ok", 0},
      {"cut chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", true, "ok", 0},
      {"trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n", true, "ok", 0},
      {"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", true, "", 0},
      {"odd coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\nok", true, "", 0},
      {"both", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\nok", true, "", 0},
      {"fold", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok", true, "", 0},
      {"switch", "HTTP/1.1 101 Switching Protocols\r\n\r\n", true, "", 0},
      {"half a head", "HTTP/1.1 200 OK\r\nConte", true, "", 0},
      {"big head", "HTTP/1.1 200 OK\r\nX: " + std::string(70'000, 'x') + "\r\n\r\n", true, "", 0},
      {"not http", "SSH-2.0-x\r\n\r\n", true, "", 0},
      {"too long", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", true, "", 0},
  };
  for (const auto &c : cases) {
    for (const bool bytewise : {false, true}) {
      if (bytewise && c.wire.size() > 1000) continue;
      scripted_origin o([&](raw_socket &s, int) {
        s.until("\r\n\r\n");
        for (size_t i = 0; bytewise && i < c.wire.size(); ++i) s.send(c.wire.substr(i, 1));
        if (!bytewise) s.send(c.wire);
        s.half_close();
        s.until_end();
      });
      open(o.port);
      recorder r(thread_);
      start(r);
      ASSERT_TRUE(thread_.wait_for("over", ++overs_)) << c.name;
      thread_.on_loop([&] {
        EXPECT_EQ(r.failed, c.fails) << c.name << ": " << r.failure.message;
        EXPECT_EQ(r.data, c.data) << c.name;
        call_.reset();
        client_.reset();
      });
    }
  }
}

TEST_F(client_test, an_answer_has_a_cap_however_it_is_framed_and_an_event_stream_none) {
  const std::string head = "HTTP/1.1 200 OK\r\n", json = "Content-Type: application/json\r\n", events = "Content-Type: text/event-stream\r\n";
  const std::string length = "Content-Length: 9\r\n\r\n123456789", chunks = "Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n4\r\n6789\r\n0\r\n\r\n";
  const struct {
    std::string wire;
    uint64_t cap;
    bool fails, until_close;
  } cases[] = {
      {head + json + length, 9, false, false},  {head + json + length, 8, true, false},          {head + json + length, 0, false, false},
      {head + json + chunks, 9, false, false},  {head + json + chunks, 8, true, false},          {head + events + chunks, 8, false, false},
      {head + events + length, 8, false, false}, {head + json + "\r\n123456789", 9, false, true}, {head + json + "\r\n123456789", 8, true, true},
      {head + events + "\r\n123456789", 8, false, true},
  };
  for (const auto &c : cases) {
    scripted_origin o([&](raw_socket &s, int) {
      s.until("\r\n\r\n");
      s.send(c.wire);
      s.half_close();
      s.until_end();
    });
    client_options options;
    options.max_answer_bytes = c.cap;
    open(o.port, options);
    recorder r(thread_);
    run(r);
    EXPECT_EQ(r.failed, c.fails) << c.wire << r.failure.message;
    if (c.fails) EXPECT_NE(r.failure.message.find("exceeds the limit of 8"), std::string::npos) << r.failure.message;
    else EXPECT_EQ(r.data, "123456789") << c.wire;
    EXPECT_EQ(r.until_close, c.until_close) << c.wire;
    thread_.on_loop([&] {
      call_.reset();
      client_.reset();
    });
  }
}

TEST_F(client_test, head_has_no_body_whatever_its_length_says) {
  scripted_origin o([&](raw_socket &s, int) {
    s.until("\r\n\r\n");
    s.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
    s.until("\r\n\r\n");
    s.send(ok);
    s.until_end();
  });
  open(o.port);
  recorder r(thread_), next(thread_);
  call_request q;
  q.method = "HEAD";
  run(r, std::move(q));
  EXPECT_EQ(r.data, "");
  run(next);
  EXPECT_EQ(next.data, "ok");
  EXPECT_EQ(o.connections, 1);
}

TEST_F(client_test, limits_end_a_call_in_each_phase) {
  scripted_origin o([&](raw_socket &s, int) {
    if (s.until("\r\n\r\n").starts_with("POST /base/stuck ")) s.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n");
    s.until_end();
  });
  open(o.port);
  recorder silent(thread_), stuck(thread_), whole(thread_);
  call_request q;
  q.first_byte_deadline_ns = now_ns() + 50 * ns_per_ms;
  run(silent, std::move(q));
  EXPECT_TRUE(silent.failure.timed_out);
  q = {};
  q.target = "/stuck";
  q.read_idle_ns = 50 * ns_per_ms;
  run(stuck, std::move(q));
  EXPECT_TRUE(stuck.failure.timed_out);
  EXPECT_EQ(stuck.failure.phase, call_phase::answering);
  EXPECT_EQ(stuck.data, "ok");
  q = {};
  q.deadline_ns = now_ns() + 50 * ns_per_ms;
  run(whole, std::move(q));
  EXPECT_TRUE(whole.failure.timed_out);
  thread_.on_loop([&] { EXPECT_EQ(client_->open(), 0u); });
}

TEST_F(client_test, a_paused_call_brings_nothing_until_resumed_and_the_origin_feels_it) {
  std::atomic<size_t> sent = 0;
  constexpr size_t total = 64 << 20;
  scripted_origin o([&](raw_socket &s, int) {
    s.until("\r\n\r\n");
    s.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(total) + "\r\n\r\n");
    const std::string piece(1 << 16, 'p');
    for (sent = 0; sent < total && s.send(piece, [&] { thread_.note("full"); }); sent += piece.size()) {}
    s.until_end();
  });
  open(o.port);
  recorder r(thread_);
  r.in_head = [&] {
    call_->pause();
    thread_.note("paused");
  };
  start(r);
  ASSERT_TRUE(thread_.wait_for("paused"));
  ASSERT_TRUE(thread_.wait_for("full"));
  // A client that goes on reading, wherever it puts the bytes, takes at least one read a turn.
  for (int turn = 0; turn < 5'000; ++turn) thread_.on_loop([] {});
  EXPECT_LT(sent, total / 2);
  thread_.on_loop([&] {
    EXPECT_EQ(r.data.size(), 0u);
    call_->resume();
  });
  ASSERT_TRUE(thread_.wait_for("over", ++overs_));
  EXPECT_EQ(r.data.size(), total);
}

TEST_F(client_test, a_body_given_in_pieces_arrives_whole) {
  std::string seen;
  scripted_origin o([&](raw_socket &s, int) {
    seen = s.until("END");
    s.send(ok);
    s.until_end();
  });
  open(o.port);
  recorder r(thread_);
  std::string body;
  for (int i = 0; i < 100; ++i) body += std::to_string(i) + std::string(30'000, 'b');
  body += "END";
  thread_.on_loop([&] {
    call_request q;
    q.target = "/x";
    q.content_length = body.size();
    call_ = client_->start(std::move(q), r);
  });
  for (size_t at = 0; at < body.size(); at += 100'000) {
    thread_.on_loop([&] { call_->body(std::string_view(body).substr(at, 100'000)); });
  }
  ASSERT_TRUE(thread_.wait_for("over", ++overs_));
  EXPECT_FALSE(r.failed);
  EXPECT_EQ(r.written, body.size());
  EXPECT_EQ(seen.substr(seen.find("\r\n\r\n") + 4), body);
}

TEST_F(client_test, an_early_answer_is_delivered_although_the_request_is_not_fully_sent) {
  scripted_origin o([&](raw_socket &s, int) {
    s.until("\r\n\r\n");
    s.send("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
    s.until_end();
  });
  open(o.port);
  recorder r(thread_);
  thread_.on_loop([&] {
    call_request q;
    q.target = "/x";
    q.content_length = 100;
    call_ = client_->start(std::move(q), r);
  });
  ASSERT_TRUE(thread_.wait_for("over", ++overs_));
  EXPECT_EQ(r.status, 413);
  EXPECT_EQ(r.data, "no");
  EXPECT_EQ(kept(), 0u);
}

TEST(parse_origin, reads_base_urls_and_names_what_is_wrong) {
  const struct {
    const char *url, *host;
    int port;
    const char *base;
  } good[] = {{"http://h", "h", 80, ""},
              {"http://h/", "h", 80, ""},
              {"HTTP://h:8000/v1/", "h", 8000, "/v1"},
              {"http://[::1]:1/a/b//", "::1", 1, "/a/b"},
              {"http://[fe80::1]", "fe80::1", 80, ""}};
  for (const auto &g : good) {
    const auto o = parse_origin(g.url);
    ASSERT_TRUE(o.ok()) << g.url;
    EXPECT_EQ(o->host, g.host);
    EXPECT_EQ(o->port, g.port);
    EXPECT_EQ(o->base, g.base);
  }
  for (const char *bad : {"", "h:80", "https://h", "http://", "http://:80", "http://h:", "http://h:0", "http://h:70000",
                          "http://h:8x", "http://::1:80", "http://[::1", "http://[::1]x", "http://u:p@h", "http://h/?q",
                          "http://h /", "http://[]", "http://[[fAAAA]:80", "http://[h]:80", "http://h]", "http://h,i", "http://1.2.3"}) {
    EXPECT_FALSE(parse_origin(bad).ok()) << bad;
  }
  for (const char *secret : {"http://user:hidden@h", "http://h/?key=hidden", "ftp://h#hidden"})
    EXPECT_THAT(parse_origin(secret).why().message(), testing::Not(testing::HasSubstr("hidden"))) << secret;
  const auto secure = parse_origin("https://api.example/v1/", schemes::http_and_https);
  ASSERT_TRUE(secure.ok());
  EXPECT_TRUE(secure->tls);
  EXPECT_EQ(secure->port, 443);
  EXPECT_EQ(secure->base, "/v1");
  EXPECT_EQ(parse_origin("https://h:8443", schemes::http_and_https)->port, 8443);
  EXPECT_FALSE(parse_origin("http://h", schemes::http_and_https)->tls);
  EXPECT_FALSE(parse_origin("ftp://h", schemes::http_and_https).ok());
}

}  // namespace
}  // namespace hive::http
