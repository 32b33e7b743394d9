#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "http/server.hpp"
#include "http/test_support.hpp"

namespace hive::http {
namespace {

using test::raw_socket;
using testing::HasSubstr;
using testing::StartsWith;

constexpr size_t kib = 1024, mib = 1 << 20;

// Reads bodies of POST (those of /admin are never shed) and keeps the last exchange for the test.
class holding_service final : public service {
 public:
  explicit holding_service(test::loop_thread &t) : thread_(t) {}
  exchange *last = nullptr;
  body_ptr body;
  uint64_t most = 64 * mib;   // of a body

  void on_request(exchange &x) override {
    last = &x;
    x.serve(std::make_unique<note_taker>(*this));
    if (x.head().path == "/hello") return x.respond({200, {}}, "hello");
    x.read_body(most, x.head().path != "/admin");
  }
  std::string refusal_body(int, std::string_view) override { return {}; }

 private:
  struct note_taker final : responder {
    explicit note_taker(holding_service &s) : owner(s) {}
    void on_body(body_ptr b) override {
      owner.body = std::move(b);
      owner.thread_.note("body");
    }
    void on_body_failed(body_error e) override { owner.last->respond({e == body_error::over_budget ? 503 : 400, {}}, "refused"); }
    void on_gone(gone why) override { owner.thread_.note(why == gone::client_slow ? "gone slow" : "gone"); }
    holding_service &owner;
  };
  test::loop_thread &thread_;
};

class server_memory_test : public testing::Test {
 protected:
  void start(uint64_t budget) {
    budget_.emplace(budget);
    thread_.on_loop([&] {
      share_.emplace(*budget_);
      limits.memory = &*share_;
      server_ = std::make_unique<server>(thread_.get(), service_, limits);
      ASSERT_TRUE(server_->listen("127.0.0.1:0", false));
    });
  }
  ~server_memory_test() override {
    thread_.on_loop([&] {
      service_.body.reset();
      server_.reset();
    });
  }
  raw_socket connect(int receive_buffer = 0) { return raw_socket::to(server_->port(), receive_buffer); }
  static std::string post(const std::string &path, size_t length) {
    return "POST " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
  }
  // What is held now, or empty when `done` was not true of it for long.
  std::optional<uint64_t> held_when(const std::function<bool(uint64_t)> &done) {
    for (uint64_t end = now_ns() + 10 * ns_per_s; now_ns() < end;) {
      thread_.on_loop([] {});
      if (done(budget_->held())) return budget_->held();
    }
    return std::nullopt;
  }

  test::loop_thread thread_;
  server_limits limits;
  std::optional<byte_budget> budget_;
  std::optional<byte_share> share_;
  holding_service service_{thread_};
  std::unique_ptr<server> server_;
};

TEST_F(server_memory_test, a_body_counts_while_anybody_holds_it) {
  start(0);
  auto c = connect();
  c.send(post("/", mib));
  c.send(std::string(mib / 2, 'x'));
  EXPECT_TRUE(held_when([](uint64_t n) { return n >= mib / 2 - 2 * byte_share::step; }));
  c.send(std::string(mib / 2, 'x'));
  ASSERT_TRUE(thread_.wait_for("body"));
  EXPECT_TRUE(held_when([](uint64_t n) { return n + byte_share::step >= mib && n < mib + 2 * byte_share::step; }));
  body_ptr elsewhere = service_.body;
  thread_.on_loop([&] {
    service_.body.reset();
    service_.last->respond({200, {}}, "thanks");
  });
  c.until("thanks");
  EXPECT_GE(budget_->held() + byte_share::step, mib) << "still held elsewhere";
  thread_.on_loop([&] { elsewhere.reset(); });
  EXPECT_TRUE(held_when([](uint64_t n) { return n == 0; })) << budget_->held();
}

TEST_F(server_memory_test, what_a_client_does_not_take_counts_and_goes_with_it) {
  start(0);
  auto c = connect(4096);
  c.send(post("/", 1) + "x");
  ASSERT_TRUE(thread_.wait_for("body"));
  thread_.on_loop([&] {
    service_.last->begin({200, {}});
    for (int i = 0; i < 256; ++i) service_.last->write(std::string(64 * kib, 'y'));
  });
  EXPECT_TRUE(held_when([](uint64_t n) { return n > 8 * mib; }));
  thread_.on_loop([&] {
    service_.body.reset();
    service_.last->drop();
  });
  EXPECT_TRUE(thread_.wait_for("gone slow"));
  EXPECT_TRUE(held_when([](uint64_t n) { return n == 0; })) << budget_->held();
}

TEST_F(server_memory_test, a_body_that_grows_over_the_budget_is_refused_unless_it_must_not_be) {
  start(mib);
  for (const bool chunked : {false, true}) {
    auto c = connect();
    c.send(chunked ? "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n400000\r\n" : post("/", 4 * mib));
    c.send(std::string(2 * mib, 'x'));
    EXPECT_THAT(c.until("refused"), StartsWith("HTTP/1.1 503 ")) << chunked;
    EXPECT_TRUE(held_when([](uint64_t n) { return n < 128 * kib; })) << budget_->held();
  }
  auto admin = connect();
  admin.send(post("/admin", 2 * mib) + std::string(2 * mib, 'x'));
  EXPECT_TRUE(thread_.wait_for("body"));
}

// Naive variant: the rest is refused for want of memory, too. Nobody is left to answer, no timer runs: the connection stays for ever.
TEST_F(server_memory_test, the_rest_of_a_body_that_has_its_answer_is_thrown_away_whatever_the_budget_says) {
  start(mib);
  auto c = connect();
  c.send(post("/", 200 * kib) + std::string(100 * kib, 'x'));
  ASSERT_TRUE(held_when([](uint64_t n) { return n >= 64 * kib; })) << "a read into the body is under way";
  std::optional<byte_claim> others;
  thread_.on_loop([&] {
    service_.last->respond({401, {}}, "no key");
    others.emplace(&*share_).set(2 * mib);
  });
  EXPECT_THAT(c.until("no key"), StartsWith("HTTP/1.1 401 "));
  c.send("x");
  c.send(std::string(100 * kib - 1, 'x') + "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(c.until("hello"), HasSubstr("200 OK"));
  EXPECT_EQ(thread_.count("body"), 0u);
  thread_.on_loop([&] { others.reset(); });
}

// Naive variant: the body stays for as long as a read into it waits for a client that stands still.
TEST_F(server_memory_test, a_body_that_nobody_wants_any_more_goes_though_its_client_stands_still) {
  limits.linger_ns = 60 * ns_per_s;
  limits.body_idle_timeout_ns = 100 * ns_per_ms;
  start(0);
  auto late = connect();
  late.send(post("/", 2 * mib) + std::string(mib, 'x'));
  EXPECT_THAT(late.until("refused"), StartsWith("HTTP/1.1 400 "));
  EXPECT_TRUE(held_when([](uint64_t n) { return n < kib; })) << budget_->held();
}

TEST_F(server_memory_test, a_body_that_has_its_answer_goes_though_its_client_stands_still) {
  limits.linger_ns = 60 * ns_per_s;
  start(0);
  for (const size_t left : {100 * kib, 2 * mib}) {   // the first is read to its end, the connection of the other is closed
    auto c = connect();
    c.send(post("/", mib + left) + std::string(mib, 'x'));
    ASSERT_TRUE(held_when([](uint64_t n) { return n >= mib - byte_share::step; })) << "a read into the body is under way";
    thread_.on_loop([&] { service_.last->respond({401, {}}, "no key"); });
    EXPECT_THAT(c.until("no key"), StartsWith("HTTP/1.1 401 "));
    EXPECT_TRUE(held_when([](uint64_t n) { return n < kib; })) << left << " " << budget_->held();
    if (left > 256 * kib) continue;
    c.send(std::string(left, 'x') + "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_THAT(c.until("hello"), HasSubstr("200 OK"));
  }
}

// Naive variant: what a client says that it will send is reserved.
TEST_F(server_memory_test, a_length_beyond_all_memory_costs_nothing_before_it_comes) {
  service_.most = never_ns;
  start(0);
  auto c = connect();
  c.send(post("/", 1'000'000'000'000'000) + std::string(mib, 'x'));
  EXPECT_TRUE(held_when([](uint64_t n) { return n >= mib - byte_share::step; })) << "its body is read like any other";
  EXPECT_EQ(thread_.count("gone"), 0u);
}

TEST_F(server_memory_test, a_connection_that_waits_for_a_request_holds_nothing) {
  start(0);
  auto c = connect();
  for (int i = 0; i < 3; ++i) {
    c.send("GET /hello HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_THAT(c.until("hello"), HasSubstr("200 OK"));
  }
  EXPECT_TRUE(held_when([](uint64_t n) { return n == 0; })) << budget_->held();
}

}  // namespace
}  // namespace hive::http
