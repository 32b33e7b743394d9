#include "transport.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string.h>

namespace hive::transport_zmq {

namespace {
// libzmq frees dead pipes only inside calls, and one lost edge must not stop a link for longer than this.
constexpr uint64_t insurance_ns = 1000 * ns_per_ms;

void refuse_if(const std::string &why) {
  if (!why.empty()) throw sdk::failure(HIVE_E_UNAVAILABLE, why);
}
}  // namespace

transport::transport(const sdk::setup &s) {
  core_.host = s.host.raw();
  core_.set = read_settings(s.options);
  core_.refused = {s.host.counter("rejected_connections_total", "Connections ended because their address had max_connections_per_ip"),
                   s.host.counter("rejected_strangers_total", "Connections ended because max_strangers were in their handshake"),
                   s.host.counter("rejected_strangers_per_ip_total", "Connections ended because max_strangers_per_ip of their address were in their handshake"),
                   s.host.counter("rejected_failures_per_ip_total",
                                  "Connections ended because max_failures_per_ip of their address had failed within a minute")};
}

transport::~transport() {
  stop(0);
  if (core_.zmq != nullptr) context::release();
}

void transport::start(const hive_transport_setup &setup) {
  if (started_) refuse_if("started twice");
  if (setup.secret_key == nullptr || setup.public_key == nullptr || setup.events == nullptr) refuse_if("setup lacks a key or the events");
  const unsigned workers = std::max(setup.workers, 1u);
  const int io_threads = core_.set.io_threads != 0 ? core_.set.io_threads : static_cast<int>(std::min(workers, 64u));
  // Kept over stop and start: letting go of it may end it, which waits for sockets that linger.
  if (core_.zmq == nullptr) core_.zmq = context::acquire(io_threads);
  if (core_.zmq == nullptr) refuse_if("libzmq could not start");
  core_.epoll = epoll_create1(EPOLL_CLOEXEC);
  if (core_.epoll < 0) refuse_if(std::string("epoll: ") + std::strerror(errno));
  core_.affinity = 1ull << (setup.worker % static_cast<unsigned>(core_.zmq->io_threads()));
  core_.events = setup.events;
  std::memcpy(core_.secret.data(), setup.secret_key, HIVE_KEY_BYTES);
  std::memcpy(core_.own.data(), setup.public_key, HIVE_KEY_BYTES);
  if (setup.router_key != nullptr) {
    core_.router.emplace();
    std::memcpy(core_.router->data(), setup.router_key, HIVE_KEY_BYTES);
  }
  core_.pool = message_pool::make();
  started_ = true;
}

std::string transport::listen(std::string_view address) {
  literal at;
  refuse_if(parse_literal(address, at));
  if (!started_) refuse_if("listen before start");
  std::string bound;
  refuse_if(router_.listen(at, bound));
  return bound;
}

hive_peer transport::connect(std::string_view address) {
  literal at;
  refuse_if(parse_literal(address, at));
  if (at.port == 0) refuse_if("address \"" + std::string(address) + "\": port 0 cannot be dialled");
  if (!started_) refuse_if("connect before start");
  if (!core_.router) refuse_if("connect needs the router's public key in the setup");
  auto d = std::make_unique<dialler>(core_, ++core_.last_peer);
  refuse_if(d->open(at));
  const hive_peer peer = d->id();
  diallers_.push_back(std::move(d));
  want_pump();
  return peer;
}

dialler *transport::find(hive_peer peer) {
  for (const auto &d : diallers_)
    if (d->id() == peer) return d.get();
  return nullptr;
}

uint64_t transport::pump(uint32_t max_messages, uint64_t max_ns) {
  if (!started_) return no_wake;
  budget b(core_.host, max_messages, max_ns);
  pumping_ = true;
  asked_ = false;
  uint64_t wake = core_.now() + insurance_ns;
  bool done = !router_.listening() || router_.pump(b, wake);
  // Events may dial again: the vector can grow, an entry never moves away before the end of this pump.
  const size_t count = diallers_.size();
  for (size_t i = 0; done && i < count; ++i) {
    const size_t at = (first_ + i) % count;
    done = diallers_[at]->pump(b, wake) && !b.spent();
    if (!done) first_ = at + 1;
  }
  std::erase_if(diallers_, [](const auto &d) { return d->over(); });
  // An event of one socket may have sent on another that had its turn before.
  done = done && !router_.touched() && std::none_of(diallers_.begin(), diallers_.end(), [](const auto &d) { return d->touched(); });
  pumping_ = false;
  return !done || asked_ ? 0 : wake;
}

hive_status transport::send(hive_peer peer, std::span<const hive_bytes> parts) {
  hive_status answer = HIVE_GONE;
  if (router_.owns(peer))
    answer = router_.send(peer, parts.data(), parts.size());
  else if (dialler *d = find(peer); d != nullptr)
    answer = d->send(parts.data(), parts.size());
  if (!pumping_) want_pump();
  return answer;
}

void transport::close_peer(hive_peer peer, uint32_t linger_ms) {
  if (router_.owns(peer))
    router_.close_peer(peer, linger_ms);
  else if (dialler *d = find(peer); d != nullptr)
    d->close_peer(linger_ms);
  want_pump();
}

void transport::want_pump() {
  if (asked_ || !started_) return;
  asked_ = true;
  if (!pumping_) core_.host->request_pump(core_.host);
}

void transport::stop(uint32_t linger_ms) {
  if (!started_) return;
  started_ = false;  // nothing is dialled by what the losses below call
  router_.stop(linger_ms);
  const auto all = std::move(diallers_);
  diallers_.clear();
  for (const auto &d : all) d->stop(linger_ms);
  core_.pool->close();
  core_.pool = nullptr;
  ::close(core_.epoll);
  core_.epoll = -1;
  core_.router.reset();
  core_.events = nullptr;
  explicit_bzero(core_.secret.data(), core_.secret.size());
  first_ = 0;
  pumping_ = asked_ = false;
}

}  // namespace hive::transport_zmq
