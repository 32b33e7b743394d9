// What the tests of this room share: a blocking client socket, ports of loopback, and a loop on a thread of its own.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/loop.hpp"

namespace hive::http::test {

inline constexpr int patience_ms = 10'000;

// What a test may put between a raw_socket and its descriptor. A send and a receive may run on two threads.
class wire_layer {
 public:
  virtual ~wire_layer() = default;
  // Like those of a socket that does not block.
  virtual ssize_t send(const void *, size_t) = 0;
  virtual ssize_t receive(void *, size_t) = 0;
  virtual void half_close() = 0;
};

class raw_socket {
 public:
  explicit raw_socket(int fd) : fd_(fd) {}
  raw_socket(raw_socket &&other) noexcept : fd_(std::exchange(other.fd_, -1)), layer_(std::move(other.layer_)) {}
  ~raw_socket() { close(); }
  // `segment`: the largest TCP segment, as if the loopback were a network; 0 = the loopback's own 64 KiB.
  static raw_socket to(uint16_t port, int receive_buffer = 0, int segment = 0) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer > 0) ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    if (segment > 0) ::setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd, reinterpret_cast<sockaddr *>(&a), sizeof a) != 0) throw std::runtime_error("connect");
    return raw_socket(fd);
  }
  void wear(std::unique_ptr<wire_layer> layer) { layer_ = std::move(layer); }
  // False when the other side has reset the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = put(bytes, true);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  // The same; calls `full` whenever the socket takes nothing more, before it waits.
  bool send(std::string_view bytes, const std::function<void()> &full) {
    while (!bytes.empty()) {
      ssize_t n = put(bytes, false);
      if (n < 0 && errno == EAGAIN) {
        full();
        n = put(bytes, true);
      }
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  // One read, or "" at the end of the stream (ended() tells) or when patience runs out.
  std::string receive(int wait_ms = patience_ms) {
    std::string piece(65536, '\0');
    const ssize_t n = get(piece.data(), piece.size(), wait_ms);
    if (n == nothing) return {};
    if (n <= 0) {
      ended_ = true;
      reset_ = n < 0;
      return {};
    }
    piece.resize(static_cast<size_t>(n));
    return piece;
  }
  // At most n bytes, in one read.
  size_t take(size_t n) {
    std::string piece(n, '\0');
    const ssize_t got = get(piece.data(), n, patience_ms);
    return got > 0 ? static_cast<size_t>(got) : 0;
  }
  std::string until(std::string_view mark) {
    while (seen_.find(mark) == std::string::npos) {
      const std::string piece = receive();
      if (piece.empty()) break;
      seen_ += piece;
    }
    const size_t at = seen_.find(mark);
    const size_t n = at == std::string::npos ? seen_.size() : at + mark.size();
    std::string out = seen_.substr(0, n);
    seen_.erase(0, n);
    return out;
  }
  std::string until_end() {
    while (!ended_) {
      const std::string piece = receive();
      if (piece.empty()) break;
      seen_ += piece;
    }
    return std::exchange(seen_, {});
  }
  int fd() const { return fd_; }
  bool ended() const { return ended_; }
  bool was_reset() const { return reset_; }
  void half_close() {
    if (layer_) layer_->half_close();
    else ::shutdown(fd_, SHUT_WR);
  }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void reset() {
    const linger hard{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close();
  }

 private:
  static constexpr ssize_t nothing = -2;

  ssize_t put(std::string_view bytes, bool wait) {
    if (!layer_) return ::send(fd_, bytes.data(), bytes.size(), wait ? MSG_NOSIGNAL : MSG_NOSIGNAL | MSG_DONTWAIT);
    while (true) {
      const ssize_t n = layer_->send(bytes.data(), bytes.size());
      if (n >= 0 || errno != EAGAIN || !wait) return n;
      pollfd p{fd_, POLLOUT, 0};
      ::poll(&p, 1, patience_ms);
    }
  }
  ssize_t get(void *into, size_t size, int wait_ms) {
    while (true) {
      if (layer_)
        if (const ssize_t n = layer_->receive(into, size); n >= 0 || errno != EAGAIN) return n;
      pollfd p{fd_, POLLIN, 0};
      if (::poll(&p, 1, wait_ms) != 1) return nothing;
      if (!layer_) return ::recv(fd_, into, size, 0);
    }
  }

  int fd_;
  std::unique_ptr<wire_layer> layer_;
  std::string seen_;
  bool ended_ = false;
  bool reset_ = false;
};

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
  boost::asio::ip::tcp::endpoint at;

 private:
  int listener_, filling_[4] = {-1, -1, -1, -1};
};

// A loop on its own thread; `on_loop` runs something there and waits for it.
class loop_thread {
 public:
  loop_thread() : thread_([this] { loop_.run([this](const char *what) { note(std::string("exception ") + what); }); }) {}
  ~loop_thread() {
    loop_.stop();
    thread_.join();
  }
  loop &get() { return loop_; }
  void on_loop(const std::function<void()> &f) {
    std::mutex m;
    std::condition_variable done;
    bool ran = false;
    loop_.post([&] {
      f();
      const std::lock_guard lock(m);
      ran = true;
      done.notify_all();
    });
    std::unique_lock lock(m);
    done.wait(lock, [&] { return ran; });
  }
  void note(std::string event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    changed_.notify_all();
  }
  bool wait_for(const std::string &event, size_t times = 1) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(patience_ms), [&] { return count_locked(event) >= times; });
  }
  size_t count(const std::string &event) {
    const std::lock_guard lock(mutex_);
    return count_locked(event);
  }

 private:
  size_t count_locked(const std::string &event) const {
    size_t n = 0;
    for (const std::string &e : events_) n += e == event;
    return n;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> events_;
  loop loop_;
  std::thread thread_;
};

}  // namespace hive::http::test
