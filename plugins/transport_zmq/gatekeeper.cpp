#include "gatekeeper.hpp"

#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <cstring>
#include <system_error>

namespace hive::transport_zmq {

namespace {
constexpr uint64_t sweep_period_ns = 500'000'000;
constexpr size_t most_lately = 16384, most_told = 1024;
constexpr uint64_t minute_ns = 60'000'000'000;
constexpr uint64_t lately_ns = 10'000'000'000;
}

gatekeeper::gatekeeper(const core &c) : host_(c.host), settings_(c.set), refused_(c.refused) {}

std::string gatekeeper::start(void *zmq_context, void *socket, uint64_t serial) {
  wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_ < 0) return "no descriptor left for the monitor";
  const std::string at = "inproc://hive.gate." + std::to_string(serial);
  const int events = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_MONITOR_STOPPED;
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

// Only shutdown, never close: the descriptor is libzmq's, which then raises DISCONNECTED and the entry goes. It may have closed
// it before this thread reads of it: what the number stands for now is then somebody else's, and no concern of the limits.
void gatekeeper::accepted(int fd) {
  connection c;
  c.name = name_of(fd);
  if (const uint16_t port = port_.load(std::memory_order_acquire); port != 0 && c.name.local_port != port) c.name = {};
  c.site = site_of(c.name.peer_ip);
  c.since_ns = host_->now_ns(host_);
  std::string refused;
  {
    const std::lock_guard lock(mutex_);
    forget(fd);
    of_site &site = sites_[c.site];
    ++site.connections;
    c.admitted = was_admitted(c.name);
    if (!c.admitted) ++site.strangers, ++strangers_;
    open_[fd] = c;
    const bool counted = is_counted(c);
    const sdk::host::metric *count = nullptr;
    if (counted && site.connections > settings_.max_connections_per_ip) {
      refused = "it has " + std::to_string(settings_.max_connections_per_ip) + " connections (max_connections_per_ip; --p2p-max-conns-per-ip)";
      count = &refused_.connections;
    } else if (counted && !c.admitted && site.strangers > settings_.max_strangers_per_ip) {
      refused = std::to_string(settings_.max_strangers_per_ip) + " connections of it are in their handshake (max_strangers_per_ip)";
      count = &refused_.strangers_per_ip;
    } else if (counted && !c.admitted && fails_too_often(c.site, c.since_ns)) {
      refused = std::to_string(settings_.max_failures_per_ip) + " connections of it failed within a minute (max_failures_per_ip)";
      count = &refused_.failures_per_ip;
    } else if (!c.admitted && strangers_ > settings_.max_strangers) {
      refused = std::to_string(settings_.max_strangers) + " connections are in their handshake (max_strangers)";
      count = &refused_.strangers;
    }
    if (refused.empty()) return;
    cut_connection(fd, c.name);
    count->add();
    if (!worth_a_line(c.site, c.since_ns)) return;
  }
  log("connection from " + c.site + " refused: " + refused + "; further ones of the next minute are only counted");
}

// One line a minute and site; the map stays small whoever calls.
bool gatekeeper::worth_a_line(const std::string &site, uint64_t now) {
  const auto known = quiet_until_ns_.find(site);
  if (known != quiet_until_ns_.end() && now < known->second) return false;
  if (known == quiet_until_ns_.end() && quiet_until_ns_.size() >= most_told) {
    std::erase_if(quiet_until_ns_, [&](const auto &e) { return e.second <= now; });
    if (quiet_until_ns_.size() >= most_told) return false;
  }
  quiet_until_ns_[site] = now + minute_ns;
  return true;
}

bool gatekeeper::is_counted(const connection &c) const {
  return !c.site.empty() && (settings_.limit_loopback || !is_loopback(c.name.peer_ip));
}

// Each minute has its own count. The map stays small whoever calls.
void gatekeeper::note_failure(const std::string &site) {
  const uint64_t now = host_->now_ns(host_);
  if (failed_.size() >= most_told && !failed_.contains(site)) {
    std::erase_if(failed_, [&](const auto &e) { return now - e.second.since_ns > minute_ns; });
    if (failed_.size() >= most_told) return;
  }
  of_minute &m = failed_[site];
  if (now - m.since_ns > minute_ns) m = {now, 0};
  ++m.failures;
}

bool gatekeeper::fails_too_often(const std::string &site, uint64_t now) const {
  const auto found = failed_.find(site);
  return found != failed_.end() && now - found->second.since_ns <= minute_ns && found->second.failures >= settings_.max_failures_per_ip;
}

bool gatekeeper::was_admitted(const connection_name &name) const {
  return name.known() && std::any_of(admitted_.begin(), admitted_.end(), [&](const auto &e) { return e.first == name; });
}

void gatekeeper::no_stranger_any_more(connection &c) {
  c.admitted = true;
  --strangers_;
  if (const auto s = sites_.find(c.site); s != sites_.end()) --s->second.strangers;
}

void gatekeeper::forget(int fd) {
  const auto found = open_.find(fd);
  if (found == open_.end()) return;
  const bool short_lived = host_->now_ns(host_) - found->second.since_ns < settling_ns();
  if ((!found->second.admitted || short_lived) && is_counted(found->second)) note_failure(found->second.site);
  if (!found->second.admitted) no_stranger_any_more(found->second);
  if (const auto s = sites_.find(found->second.site); s != sites_.end() && --s->second.connections == 0) sites_.erase(s);
  open_.erase(found);
}

// Our own diallers announce themselves as soon as they are connected; whoever stays silent after the handshake is not one.
void gatekeeper::sweep() {
  const uint64_t now = host_->now_ns(host_);
  const std::lock_guard lock(mutex_);
  for (const auto &[fd, c] : open_)
    if (!c.admitted && now - c.since_ns > settling_ns()) cut_connection(fd, c.name);
  std::erase_if(admitted_, [&](const auto &e) { return now - e.second > lately_ns; });
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
  if (admitted_.size() < most_lately) admitted_.emplace_back(name, host_->now_ns(host_));
  const auto found = open_.find(fd);
  if (found != open_.end() && found->second.name == name && !found->second.admitted) no_stranger_any_more(found->second);
}

void gatekeeper::log(const std::string &line) { host_->log(host_, HIVE_LOG_WARN, hive_str{line.data(), line.size()}); }

}  // namespace hive::transport_zmq
