#include "http/client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "http/test_support.hpp"

namespace hive::http {
namespace {

using test::raw_socket;
using testing::HasSubstr;
using testing::Not;

// An origin whose behaviour on its n-th connection is written out by the test.
class scripted_origin {
 public:
  using script = std::function<void(raw_socket &, int number)>;
  explicit scripted_origin(script s, int family = AF_INET) : script_(std::move(s)), family_(family) {
    fd_ = ::socket(family, SOCK_STREAM, 0);
    sockaddr_storage a{};
    a.ss_family = static_cast<sa_family_t>(family);
    if (family == AF_INET) reinterpret_cast<sockaddr_in &>(a).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (family == AF_INET6) reinterpret_cast<sockaddr_in6 &>(a).sin6_addr = in6addr_loopback;
    socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    usable = ::bind(fd_, reinterpret_cast<sockaddr *>(&a), size) == 0 && ::listen(fd_, 16) == 0;
    ::getsockname(fd_, reinterpret_cast<sockaddr *>(&a), &size);
    port = ntohs(family == AF_INET ? reinterpret_cast<sockaddr_in &>(a).sin_port : reinterpret_cast<sockaddr_in6 &>(a).sin6_port);
    if (usable) thread_ = std::thread([this] { run(); });
  }
  ~scripted_origin() {
    ::shutdown(fd_, SHUT_RDWR);
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
    }
    if (thread_.joinable()) thread_.join();
    ::close(fd_);
  }
  uint16_t port = 0;
  bool usable = false;
  std::atomic<int> connections = 0;

 private:
  void run() {
    std::vector<std::thread> each;
    while (true) {
      const int fd = ::accept(fd_, nullptr, nullptr);
      if (fd < 0) break;
      each.emplace_back([this, fd, number = ++connections] {
        {
          const std::lock_guard lock(mutex_);
          open_.insert(fd);
        }
        raw_socket s(fd);
        script_(s, number);
        const std::lock_guard lock(mutex_);
        open_.erase(fd);
        s.close();
      });
    }
    for (auto &t : each) t.join();
  }
  script script_;
  std::mutex mutex_;
  std::set<int> open_;
  int family_;
  int fd_;
  std::thread thread_;
};

struct recorder final : call_events {
  explicit recorder(test::loop_thread &t) : thread(t) {}
  void on_body_written(size_t n) override { written += n; }
  void on_head(const response_head &h) override {
    status = h.status;
    for (const field &f : h.fields) fields += std::string(f.name) + "=" + std::string(f.value) + ";";
    if (in_head) in_head();
  }
  void on_data(std::string_view bytes) override {
    data += bytes;
    ++pieces;
    thread.note("data");
    if (in_data) in_data();
  }
  void on_end() override {
    ++ends;
    thread.note("over");
  }
  void on_failed(const call_failure &f) override {
    ++ends;
    failure = f;
    failed = true;
    thread.note("over");
  }
  test::loop_thread &thread;
  std::function<void()> in_head, in_data;
  int status = 0, ends = 0, pieces = 0;
  std::string data, fields;
  size_t written = 0;
  bool failed = false;
  call_failure failure{};
};

class client_test : public testing::Test {
 protected:
  void open(uint16_t port, const client_options &options = {}, const std::string &host = "127.0.0.1") {
    thread_.on_loop([&] { client_ = std::make_unique<client>(thread_.get(), origin{host, port, "/base"}, options); });
  }
  ~client_test() override {
    thread_.on_loop([&] {
      call_.reset();
      client_.reset();
    });
  }
  void start(recorder &r, call_request request = {}, const std::string &body = "") {
    thread_.on_loop([&] {
      request.content_length = body.size();
      if (request.target.empty()) request.target = "/x";
      call_ = client_->start(std::move(request), r);
      if (!body.empty()) call_->body(body);
    });
  }
  // Runs a call to its end.
  void run(recorder &r, call_request request = {}, const std::string &body = "") {
    start(r, std::move(request), body);
    ASSERT_TRUE(thread_.wait_for("over", ++overs_));
    thread_.on_loop([&] { EXPECT_EQ(r.ends, 1); });
  }
  size_t kept() {
    size_t n = 0;
    thread_.on_loop([&] { n = client_->kept(); });
    return n;
  }

  test::loop_thread thread_;
  std::unique_ptr<client> client_;
  std::unique_ptr<call> call_;
  size_t overs_ = 0;
};

const std::string ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

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
  for (int i = 0; i < 1000 && kept() > 0; ++i) std::this_thread::yield();
  boost::asio::steady_timer wait(thread_.get().io(), std::chrono::milliseconds(100));
  wait.async_wait([&](const boost::system::error_code &) { thread_.note("waited"); });
  ASSERT_TRUE(thread_.wait_for("waited"));
  EXPECT_EQ(kept(), 0u);
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
  scripted_origin o([&](raw_socket &s, int) {
    s.until("\r\n\r\n");
    s.send(ok);
    s.receive(400);  // then it closes, as a server with a short keep-alive does
  });
  open(o.port);
  for (int i = 0; i < 2; ++i) {
    recorder r(thread_);
    run(r);
    for (int n = 0; n < 10'000 && kept() > 0; ++n) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  thread_.on_loop([&] {
    EXPECT_LT(client_->idle_limit_ns(), 500 * ns_per_ms);
    EXPECT_GE(client_->idle_limit_ns(), 200 * ns_per_ms);
  });
}

TEST_F(client_test, limits_end_a_call_in_each_phase) {
  scripted_origin o([&](raw_socket &s, int number) {
    s.until("\r\n\r\n");
    if (number == 2) s.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n");
    s.until_end();
  });
  open(o.port);
  recorder silent(thread_), stuck(thread_), whole(thread_);
  call_request q;
  q.first_byte_deadline_ns = now_ns() + 50 * ns_per_ms;
  run(silent, std::move(q));
  EXPECT_TRUE(silent.failure.timed_out);
  q = {};
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

TEST_F(client_test, a_paused_call_brings_nothing_until_resumed_and_the_origin_feels_it) {
  std::atomic<size_t> sent = 0;
  constexpr size_t total = 64 << 20;
  scripted_origin o([&](raw_socket &s, int) {
    s.until("\r\n\r\n");
    s.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(total) + "\r\n\r\n");
    const std::string piece(1 << 16, 'p');
    for (sent = 0; sent < total && s.send(piece); sent += piece.size()) {}
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
  size_t before = 1;
  for (size_t now = 0; now != before || now == 0;) {  // until the origin stands still
    before = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    now = sent;
  }
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

TEST_F(client_test, connect_failures_name_the_address) {
  uint16_t dead = 0;
  {
    scripted_origin o([](raw_socket &, int) {});
    dead = o.port;
  }
  open(dead);
  recorder r(thread_);
  run(r);
  EXPECT_EQ(r.failure.phase, call_phase::connecting);
  EXPECT_FALSE(r.failure.bytes_sent);
  EXPECT_THAT(r.failure.message, HasSubstr("127.0.0.1:" + std::to_string(dead) + ": Connection refused"));
  open(dead, {}, "no-such-name.invalid");
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
                          "http://h /", "http://[]"}) {
    EXPECT_FALSE(parse_origin(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace hive::http
