// What the tests of the client share: a scripted origin, a recorder of one call, and a client on a loop of its own thread.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "http/client.hpp"
#include "http/test_support.hpp"

namespace hive::http::test {

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
  explicit recorder(loop_thread &t) : thread(t) {}
  void on_body_written(size_t n) override { written += n; }
  void on_head(const response_head &h) override {
    status = h.status;
    until_close = h.until_close;
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
  loop_thread &thread;
  std::function<void()> in_head, in_data;
  int status = 0, ends = 0, pieces = 0;
  bool until_close = false;
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

  loop_thread thread_;
  std::unique_ptr<client> client_;
  std::unique_ptr<call> call_;
  size_t overs_ = 0;
};

inline const std::string ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

}  // namespace hive::http::test
