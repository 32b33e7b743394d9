// For tests of the server: a service that answers by path and notes what happens, and a server of it on a loop of its own.
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "base/test_folder.hpp"
#include "http/server.hpp"
#include "http/test_support.hpp"
#include "http/tls_server.hpp"
#include "http/tls_wire.hpp"

namespace hive::http {

using test::raw_socket;

inline constexpr uint64_t body_limit = 10 * 1024 * 1024;

// Answers by path; notes what happens to each exchange.
class script_service final : public service {
 public:
  explicit script_service(test::loop_thread &t) : thread_(t) {}
  std::map<std::string, exchange *> held;

  void on_request(exchange &x) override {
    const std::string path(x.head().path);
    if (path == "/throw-unserved") throw std::runtime_error("service broke");
    x.serve(std::make_unique<note_taker>(*this, x, path));
    const field text[] = {{"content-type", "text/plain"}, {"X-RateLimit-Remaining", "1"}};
    if (path == "/hello") return x.respond({200, text}, "hello");
    if (path == "/large") return x.respond({200, text}, std::string(64 * 1024, 'l') + "end of large");
    if (path == "/huge") return x.respond({200, text}, std::string(16 << 20, 'h'));
    if (path == "/refuse") return x.respond({401, text}, "no");
    if (path == "/added") {
      x.add_fields("X-Added: yes\r\n");
      return x.respond({200, text}, "added");
    }
    if (path == "/odd-names") {
      const field odd[] = {{"X-A: 1\r\nX-Injected", "1"}, {"X-B\r\n\r\nX-Injected", "2"}, {"Content-Length ", "9"}, {"", "3"}, {"X-C", "4\r\nX-Injected: 5"}};
      return x.respond({200, odd}, "odd");
    }
    if (path == "/none") return x.respond({204, text}, "");
    if (path == "/throw") throw std::runtime_error("handler broke");
    if (path == "/throw-begun") {
      x.begin({200, text});
      throw std::runtime_error("handler broke");
    }
    if (path == "/early") {
      x.read_body(body_limit);
      return x.respond({200, text}, "early");
    }
    if (path == "/echo") return x.read_body(body_limit);
    if (path == "/hold-body") {
      held[path] = &x;
      thread_.note("reads " + path);
      return x.read_body(body_limit);
    }
    if (path == "/answer-held") {
      held.at("/hold-body")->respond({401, text}, "no");
      return x.respond({200, text}, "done");
    }
    if (path == "/stream" || path == "/cut" || path == "/stall") {
      x.begin({200, text});
      x.write("one ");
      x.write("two");
      if (path == "/stream") x.end();
      if (path == "/cut") x.abort();
      for (int i = 0; path == "/stall" && i < 1024; ++i) x.write(std::string(16 * 1024, 's'));
    }
    if (path == "/stall") thread_.note("unwritten " + std::string(x.unwritten() > (1 << 20) ? "many" : "few"));
    held[path] = &x;
    thread_.note("held " + path);
  }
  std::string on_thrown(exchange &x) override {
    thread_.note("thrown at " + std::string(x.head().path));
    return "id-of-the-service";
  }
  std::string refusal_body(int status, std::string_view what) override {
    return "{\"refused\":" + std::to_string(status) + ",\"what\":\"" + std::string(what) + "\"}";
  }

 private:
  struct note_taker final : responder {
    note_taker(script_service &s, exchange &exchange, std::string p) : owner(s), x(exchange), path(std::move(p)) {}
    ~note_taker() override { owner.thread_.note("over " + path); }
    void on_body(body_ptr body) override {
      EXPECT_GE(body->capacity(), body->size() + body_padding);
      owner.thread_.note("body " + path);
      if (path == "/echo") x.respond({200, {}}, *body);
    }
    void on_body_failed(body_error e) override {
      const int status = e == body_error::too_large ? 413 : e == body_error::timed_out ? 408 : 400;
      x.respond({status, {}}, "body refused");
    }
    void on_written(size_t n) override { written += n; }
    std::string on_thrown(bool begun) override {
      owner.thread_.note("thrown " + path + (begun ? " begun" : ""));
      return "id-of-the-responder";
    }
    void on_gone(gone why) override {
      static constexpr const char *names[] = {"left", "slow", "failed", "shutdown"};
      owner.thread_.note(path + " gone " + names[static_cast<int>(why)]);
    }
    script_service &owner;
    exchange &x;
    std::string path;
    size_t written = 0;
  };
  test::loop_thread &thread_;
};

// A certificate of localhost in files.
struct test_identity {
  test_identity() {
    certificate.write(files.certificate);
    certificate.write_key(files.key);
  }
  std::shared_ptr<const tls_identity> load() const {
    auto made = tls_identity::load(files);
    EXPECT_TRUE(made) << made.why().text();
    return made ? *made : nullptr;
  }
  test_folder folder;
  test::own_certificate certificate{"DNS:localhost"};
  tls_files files{folder.at("cert.pem"), folder.at("key.pem"), {}, false};
};

class server_bed : public testing::Test {
 protected:
  void start(const server_limits &limits = {}) {
    std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
    thread_.on_loop([&] {
      server_ = std::make_unique<server>(thread_.get(), script_, limits);
      if (over_tls_) server_->use_tls(mine_.load());
      const status listening = server_->listen("127.0.0.1:0", false);
      ASSERT_TRUE(listening) << listening.text();
      port_ = server_->port();
    });
  }
  ~server_bed() override {
    thread_.on_loop([&] { server_.reset(); });
  }
  raw_socket connect(int receive_buffer = 0, int segment = 0) {
    raw_socket s = raw_socket::to(port_, receive_buffer, segment);
    if (over_tls_) s.wear(std::make_unique<test::tls_wire>(s.fd(), test::tls_wishes{&mine_.certificate}));
    return s;
  }
  static std::string get(const std::string &path, const std::string &fields = "", const std::string &method = "GET") {
    return method + " " + path + " HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n";
  }
  static std::string post(const std::string &path, const std::string &body, const std::string &fields = "") {
    return get(path, "Content-Length: " + std::to_string(body.size()) + "\r\n" + fields, "POST") + body;
  }
  // A counter of the server once it is what it should be; what it is after a while, if it never is.
  uint64_t counted(tally server_counters::*what, uint64_t wanted) {
    uint64_t is = 0;
    for (const uint64_t end = now_ns() + 5 * ns_per_s; now_ns() < end;) {
      thread_.on_loop([&] { is = server_->counters().*what; });
      if (is == wanted) break;
    }
    return is;
  }

  bool over_tls_ = false;
  const test_identity mine_;
  test::loop_thread thread_;
  script_service script_{thread_};
  std::unique_ptr<server> server_;
  uint16_t port_ = 0;
};

// Everything a connection does it does over TLS, too: "plain" or "tls".
class server_over : public server_bed, public testing::WithParamInterface<const char *> {
 protected:
  server_over() { over_tls_ = std::string(GetParam()) == "tls"; }
};
inline std::string name_of_wire(const testing::TestParamInfo<const char *> &each) { return each.param; }

}  // namespace hive::http
