#include "network.hpp"

#include <arpa/inet.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

namespace hive::transport_inproc {

namespace {

message *own(const hive_message *m) { return const_cast<message *>(static_cast<const message *>(m)); }
void retain(const hive_message *m) noexcept { own(m)->refs.fetch_add(1, std::memory_order_relaxed); }
void release(const hive_message *m) noexcept { own(m)->drop(); }

std::mutex names_mutex;  // guards names
std::map<std::string, std::weak_ptr<mailbox>, std::less<>> names;

}  // namespace

message *message::make(const hive_bytes *parts, size_t count, size_t total) {
  void *block = std::malloc(sizeof(message) + total);
  if (block == nullptr) throw std::bad_alloc();
  auto *m = new (block) message;
  auto *to = reinterpret_cast<uint8_t *>(m + 1);
  m->struct_size = sizeof(hive_message);
  m->reserved0 = 0;
  m->bytes = {to, total};
  m->retain = &transport_inproc::retain;
  m->release = &transport_inproc::release;
  for (size_t i = 0; i < count; ++i) {
    if (parts[i].len == 0) continue;
    std::memcpy(to, parts[i].ptr, parts[i].len);
    to += parts[i].len;
  }
  return m;
}

void message::drop() noexcept {
  if (refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  this->~message();
  std::free(this);
}

namespace {
// Its address names the thread.
thread_local const char this_thread = 0;
}  // namespace

mailbox::mailbox(const hive_host *host) : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), host_(host) {}

mailbox::~mailbox() {
  for (event &e : events_)
    if (e.body != nullptr) e.body->drop();
  if (fd_ >= 0) close(fd_);
}

bool mailbox::post(event &&e) {
  const std::lock_guard lock(mutex_);
  if (shut_) return false;
  events_.push_back(std::move(e));
  if (events_.size() > 1) return true;  // the first one has woken it
  if (thread_ == &this_thread) {
    host_->request_pump(host_);
    return true;
  }
  signalled_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(fd_, &one, sizeof one);
  return true;
}

void mailbox::take_all(std::deque<event> &out) {
  const std::lock_guard lock(mutex_);
  thread_ = &this_thread;
  if (events_.empty()) return;
  out.swap(events_);
  if (!signalled_) return;
  signalled_ = false;
  uint64_t count;
  [[maybe_unused]] const auto got = read(fd_, &count, sizeof count);
}

std::deque<event> mailbox::shut() {
  const std::lock_guard lock(mutex_);
  shut_ = true;
  std::deque<event> left;
  left.swap(events_);
  return left;
}

namespace {

std::string parse(std::string_view text, std::string_view &host, uint16_t &port) {
  const std::string wrong = "address \"" + std::string(text) + "\": ";
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong + "expected HOST:PORT, for example 127.0.0.1:0";
  host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (digits.empty() || r.ec != std::errc() || r.ptr != digits.data() + digits.size())
    return wrong + "the port must be a number from 0 to 65535";
  const bool ipv6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string plain(ipv6 ? host.substr(1, host.size() - 2) : host);
  in6_addr buffer;
  if (inet_pton(ipv6 ? AF_INET6 : AF_INET, plain.c_str(), &buffer) != 1)
    return wrong + "the host must be an IPv4 address or an IPv6 address in brackets, not a name";
  return {};
}

}  // namespace

std::string check_address(std::string_view address) {
  std::string_view host;
  uint16_t port = 0;
  return parse(address, host, port);
}

std::string bind_name(std::string_view address, const std::shared_ptr<mailbox> &box, std::string &bound) {
  std::string_view host;
  uint16_t port = 0;
  if (std::string why = parse(address, host, port); !why.empty()) return why;
  const std::lock_guard lock(names_mutex);
  const auto name = [&](unsigned p) { return std::string(host) + ":" + std::to_string(p); };
  if (port == 0) {
    unsigned free = 1;
    while (free < 65536 && names.contains(name(free))) ++free;
    if (free == 65536) return std::string(address) + ": no port is free";
    bound = name(free);
  } else {
    bound = name(port);
    if (names.contains(bound)) return bound + ": already in use";
  }
  names.emplace(bound, box);
  return {};
}

void unbind(const mailbox *box) {
  const std::lock_guard lock(names_mutex);
  std::erase_if(names, [box](const auto &entry) { return entry.second.lock().get() == box; });
}

std::shared_ptr<mailbox> find_name(std::string_view address) {
  const std::lock_guard lock(names_mutex);
  const auto found = names.find(address);
  return found == names.end() ? nullptr : found->second.lock();
}

}  // namespace hive::transport_inproc
