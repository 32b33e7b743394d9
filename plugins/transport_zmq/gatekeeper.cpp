#include "gatekeeper.hpp"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <cstring>
#include <system_error>

namespace hive::transport_zmq {

namespace {
constexpr uint64_t sweep_period_ns = 500'000'000;
constexpr size_t early_limit = 4096;
}

std::string gatekeeper::start(void *zmq_context, void *socket, uint64_t serial) {
  wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_ < 0) return "no descriptor left for the monitor";
  const std::string at = "inproc://hive.gate." + std::to_string(serial);
  const int events = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_MONITOR_STOPPED;
  if (zmq_socket_monitor(socket, at.c_str(), events) != 0) return std::string("monitor: ") + zmq_strerror(zmq_errno());
  socket_ = socket;
  monitor_ = zmq_socket(zmq_context, ZMQ_PAIR);
  const int timeout = 500, linger = 0, hwm = 0;
  if (monitor_ == nullptr) return std::string("monitor: ") + zmq_strerror(zmq_errno());
  zmq_setsockopt(monitor_, ZMQ_RCVTIMEO, &timeout, sizeof timeout);
  zmq_setsockopt(monitor_, ZMQ_LINGER, &linger, sizeof linger);
  zmq_setsockopt(monitor_, ZMQ_RCVHWM, &hwm, sizeof hwm);
  if (zmq_connect(monitor_, at.c_str()) != 0) return std::string("monitor: ") + zmq_strerror(zmq_errno());
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error &e) {
    return std::string("monitor thread: ") + e.what();
  }
  return {};
}

void gatekeeper::stop() {
  if (socket_ != nullptr) zmq_socket_monitor(socket_, nullptr, 0);  // the thread reads MONITOR_STOPPED and ends
  socket_ = nullptr;
  if (thread_.joinable())
    thread_.join();
  else if (monitor_ != nullptr)
    zmq_close(monitor_);
  monitor_ = nullptr;
}

gatekeeper::~gatekeeper() {
  stop();
  if (wake_ >= 0) close(wake_);
}

void gatekeeper::run() {
  uint64_t swept = host_->now_ns(host_);
  for (;;) {
    zmq_msg_t head, endpoint;
    zmq_msg_init(&head);
    const int n = zmq_msg_recv(&head, monitor_, 0);
    uint16_t event = 0;
    uint32_t value = 0;
    if (n == 6) {
      std::memcpy(&event, zmq_msg_data(&head), 2);
      std::memcpy(&value, static_cast<const char *>(zmq_msg_data(&head)) + 2, 4);
      zmq_msg_init(&endpoint);
      zmq_msg_recv(&endpoint, monitor_, 0);
      zmq_msg_close(&endpoint);
    }
    const int error = n < 0 ? zmq_errno() : 0;
    zmq_msg_close(&head);
    if (event == ZMQ_EVENT_MONITOR_STOPPED || (error != 0 && error != EAGAIN && error != EINTR)) break;
    if (event != 0) on_event(event, static_cast<int>(value));
    if (const uint64_t now = host_->now_ns(host_); now - swept > sweep_period_ns) {
      swept = now;
      sweep();
    }
  }
  zmq_close(monitor_);
}

void gatekeeper::on_event(uint16_t event, int fd) {
  if (event == ZMQ_EVENT_ACCEPTED) {
    accepted(fd);
  } else if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(fd);
    if (found == open_.end() || found->second.handshaken) return;
    found->second.handshaken = true;
    found->second.admitted = std::erase(early_, found->second.name) != 0;
    --strangers_;
  } else if (event == ZMQ_EVENT_DISCONNECTED) {
    {
      const std::lock_guard lock(mutex_);
      forget(fd);
      gone_.push_back(fd);
    }
    news_.store(true, std::memory_order_release);
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = write(wake_, &one, sizeof one);
  }
}

// Only shutdown, never close: the descriptor is libzmq's, which then raises DISCONNECTED and the entry goes.
void gatekeeper::accepted(int fd) {
  connection c;
  c.name = name_of(fd);
  const std::string &ip = c.name.peer_ip;
  c.since_ns = host_->now_ns(host_);
  std::string refused;
  {
    const std::lock_guard lock(mutex_);
    forget(fd);
    const bool counted = !ip.empty() && (settings_.limit_loopback || !is_loopback(ip));
    const int of_ip = ++per_ip_[ip];
    ++strangers_;
    if (counted && of_ip > settings_.max_connections_per_ip)
      refused = ip + " has " + std::to_string(settings_.max_connections_per_ip) + " connections (max_connections_per_ip)";
    else if (strangers_ > settings_.max_strangers)
      refused = std::to_string(settings_.max_strangers) + " connections are in their handshake (max_strangers)";
    open_[fd] = c;
    if (!refused.empty()) shutdown(fd, SHUT_RDWR);
  }
  if (!refused.empty()) log("connection refused: " + refused);
}

void gatekeeper::forget(int fd) {
  const auto found = open_.find(fd);
  if (found == open_.end()) return;
  if (!found->second.handshaken) --strangers_;
  if (const auto n = per_ip_.find(found->second.name.peer_ip); n != per_ip_.end() && --n->second == 0) per_ip_.erase(n);
  open_.erase(found);
}

// Our own diallers announce themselves as soon as they are connected; who stays silent after the handshake is not one.
void gatekeeper::sweep() {
  const uint64_t now = host_->now_ns(host_), limit = 2'000'000ull * static_cast<uint64_t>(settings_.handshake_timeout_ms);
  const std::lock_guard lock(mutex_);
  for (const auto &[fd, c] : open_)
    if (c.handshaken && !c.admitted && now - c.since_ns > limit) cut_connection(fd, c.name);
}

bool gatekeeper::disconnected(std::vector<int> &out) {
  if (!news_.exchange(false, std::memory_order_acquire)) return false;
  uint64_t count;
  [[maybe_unused]] const auto got = read(wake_, &count, sizeof count);
  const std::lock_guard lock(mutex_);
  out.swap(gone_);
  gone_.clear();
  return true;
}

void gatekeeper::admit(int fd, const connection_name &name) {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(fd);
  if (found != open_.end() && found->second.handshaken && found->second.name == name)
    found->second.admitted = true;
  else if (early_.size() < early_limit)
    early_.push_back(name);
}

void gatekeeper::log(const std::string &line) { host_->log(host_, HIVE_LOG_WARN, hive_str{line.data(), line.size()}); }

}  // namespace hive::transport_zmq
