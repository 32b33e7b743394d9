#include "router_side.hpp"

#include <sys/epoll.h>
#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace hive::transport_zmq {

namespace {

constexpr int zap_enforce_domain = 93;  // hidden behind the draft switch in zmq.h, taken by every build since 4.3
constexpr size_t routing_bytes = 5;  // a zero and libzmq's counter
constexpr int suspect_probes = 8;    // 5 ms doubling: 1.3 s in all, then the connection counts as another one's
constexpr uint64_t blocked_probe_ns = 10 * ns_per_ms;
constexpr uint64_t over_probe_ns = 1000 * ns_per_ms;

void routing_frame(uint32_t routing, unsigned char (&out)[routing_bytes]) {
  out[0] = 0;
  std::memcpy(out + 1, &routing, sizeof routing);
}

}  // namespace

std::string router_side::listen(const literal &address, std::string &bound) {
  if (socket_ != nullptr) return "this instance listens already";
  const uint64_t serial = core_.zmq->next_serial();
  domain_ = "hive." + std::to_string(serial);
  socket_ = zmq_socket(core_.zmq->raw(), ZMQ_ROUTER);
  const auto failed = [&](const std::string &what) {
    close(0);
    return what;
  };
  if (socket_ == nullptr) return std::string("socket: ") + zmq_strerror(zmq_errno());
  set_common_options(socket_, core_);
  set_option(socket_, ZMQ_IPV6, address.ipv6 ? 1 : 0);
  set_option(socket_, ZMQ_ROUTER_MANDATORY, 1);
  set_option(socket_, ZMQ_ROUTER_HANDOVER, 0);
  set_option(socket_, ZMQ_BACKLOG, 1024);
  set_option(socket_, zap_enforce_domain, 1);
  zmq_setsockopt(socket_, ZMQ_ZAP_DOMAIN, domain_.data(), domain_.size());
  if (set_option(socket_, ZMQ_CURVE_SERVER, 1) != 0) return failed("libzmq was built without CURVE");
  gate_ = std::make_unique<gatekeeper>(core_);
  if (std::string why = gate_->start(core_.zmq->raw(), socket_, serial); !why.empty()) return failed(why);

  literal at = address;
  core_.zmq->set_denied(domain_, denied_);
  gate_->set_port(at.port);
  const std::string host = at.ipv6 ? "[" + at.host + "]" : at.host;
  const std::string endpoint = "tcp://" + host + ":" + (at.port == 0 ? "*" : std::to_string(at.port));
  if (zmq_bind(socket_, endpoint.c_str()) != 0) return failed(to_text(at) + ": " + zmq_strerror(zmq_errno()));
  char last[256];
  size_t n = sizeof last;
  if (zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, last, &n) == 0) {
    const std::string_view text(last, n == 0 ? 0 : n - 1);
    at.port = static_cast<uint16_t>(std::strtoul(text.data() + text.rfind(':') + 1, nullptr, 10));
  }
  port_ = at.port;
  gate_->set_port(port_);
  bound = to_text(at);
  epoll_event e{};
  e.events = EPOLLIN;
  if (epoll_ctl(core_.epoll, EPOLL_CTL_ADD, readiness_fd(socket_), &e) != 0 ||
      epoll_ctl(core_.epoll, EPOLL_CTL_ADD, gate_->wake_fd(), &e) != 0)
    return failed(std::string("epoll: ") + std::strerror(errno));
  touched_ = true;
  return {};
}

bool router_side::pump(budget &b, uint64_t &wake) {
  if (gate_->disconnected(gone_fds_))
    for (const int fd : gone_fds_)
      for (auto &[id, p] : peers_)
        if (p->fd == fd) suspect(*p);
  const uint64_t now = core_.now();
  for (;;) {
    touched_ = false;
    if (!drain(b)) return false;
    finish_unreachable();
    const bool again = step_all(now, b);
    if (b.spent()) return false;
    if (!again && (!touched_ || (ready_events(socket_) & ZMQ_POLLIN) == 0)) break;
  }
  touched_ = false;
  for (const peer *p : watched_) wake = std::min(wake, wake_of(*p, now));
  return true;
}

bool router_side::drain(budget &b) {
  while (receive_one(b))
    if (b.spent()) return false;
  return true;
}

bool router_side::receive_one(budget &b) {
  unsigned char id[routing_bytes];
  const int n = zmq_recv(socket_, id, sizeof id, ZMQ_DONTWAIT);
  if (n < 0) return false;
  message *m = core_.pool->take();
  zmq_msg_recv(&m->frame, socket_, ZMQ_DONTWAIT);
  const bool more = zmq_msg_more(&m->frame) != 0;
  bool farewell = false;
  for (int rest = more ? 1 : 0, first = 1; rest != 0; first = 0) {
    zmq_msg_t extra;
    zmq_msg_init(&extra);
    zmq_msg_recv(&extra, socket_, ZMQ_DONTWAIT);
    rest = zmq_msg_more(&extra);
    farewell = first != 0 && rest == 0 && zmq_msg_size(&extra) == 1 && *static_cast<char *>(zmq_msg_data(&extra)) == goodbye;
    zmq_msg_close(&extra);
  }
  if (n != static_cast<int>(routing_bytes) || id[0] != 0) {
    cut_stranger(m);  // chose its own routing id: none of our diallers
    core_.pool->finish(m);
    b.take();
    return true;
  }
  uint32_t routing;
  std::memcpy(&routing, id + 1, sizeof routing);
  const auto found = by_routing_.find(routing);
  peer *p = found != by_routing_.end() ? found->second : greet(routing, m);
  if (p == nullptr) {
    cut_stranger(m);
  } else if (!p->over && !p->closing) {
    const char *user = zmq_msg_gets(&m->frame, "User-Id");
    if (user == nullptr || std::strcmp(user, p->key_text) != 0) {
      lose(*p, HIVE_LOST_PROTOCOL, "a message came under another key than the connection's");
    } else if (farewell) {
      lose(*p, HIVE_LOST_CLOSED, "the other side closed the connection");
    } else if (more) {
      lose(*p, HIVE_LOST_PROTOCOL, "a message of several frames");
    } else if (zmq_msg_size(&m->frame) != 0) {
      core_.raise_message(p->id, m);
    }
  } else if (p->closing && !p->over && farewell) {
    lose(*p, HIVE_LOST_CLOSED, "closed");
  }
  core_.pool->finish(m);
  b.take();
  return true;
}

router_side::peer *router_side::greet(uint32_t routing, message *first) {
  const char *user = zmq_msg_gets(&first->frame, "User-Id");
  const char *ip = zmq_msg_gets(&first->frame, "Peer-Address");
  key32 key;
  if (user == nullptr || std::strlen(user) != 40 || zmq_z85_decode(key.data(), user) == nullptr) return nullptr;
  auto owned = std::make_unique<peer>();
  peer *p = owned.get();
  p->id = ++core_.last_peer;
  p->routing = routing;
  std::memcpy(p->key_text, user, sizeof p->key_text);
  p->fd = zmq_msg_get(&first->frame, ZMQ_SRCFD);
  p->name = name_of(p->fd);
  const std::string_view plain = ip == nullptr ? "" : std::string_view(ip).starts_with("::ffff:") ? ip + 7 : ip;
  const bool same = p->name.known() && p->name.local_port == port_ && p->name.peer_ip == plain;
  if (!same) p->name = {};  // over already, and the descriptor may be somebody else's
  by_routing_[routing] = p;
  const hive_peer id = p->id;
  peers_.emplace(id, std::move(owned));
  std::string address(plain);
  if (same) {
    gate_->admit(p->fd, p->name);
    address = to_text(literal{p->name.peer_ip, p->name.peer_port, plain.find(':') != std::string_view::npos});
  } else {
    suspect(*p);
  }
  core_.events->on_peer(core_.events->ctx, id, key.data(), hive_str{address.data(), address.size()});
  return p;
}

void router_side::cut_stranger(message *m) {
  const int fd = zmq_msg_get(&m->frame, ZMQ_SRCFD);
  const connection_name name = name_of(fd);
  if (name.local_port == port_) cut_connection(fd, name);
}

// 0, EAGAIN or EHOSTUNREACH. Only the first frame can fail: what follows it is dropped when the connection has ended.
int router_side::send_frame(peer &p, zmq_msg_t *last, bool as_goodbye) {
  unsigned char id[routing_bytes];
  routing_frame(p.routing, id);
  touched_ = true;
  int rc = zmq_send(socket_, id, sizeof id, ZMQ_SNDMORE | ZMQ_DONTWAIT);
  if (rc < 0 && zmq_errno() == EAGAIN) {
    ready_events(socket_);  // room may have been announced already
    rc = zmq_send(socket_, id, sizeof id, ZMQ_SNDMORE | ZMQ_DONTWAIT);
  }
  if (rc < 0) {
    const int error = zmq_errno();
    if (error != EAGAIN && !p.unreachable) {
      p.unreachable = true;
      watch(p);
    }
    return error == EAGAIN ? EAGAIN : EHOSTUNREACH;
  }
  if (as_goodbye) {
    zmq_send(socket_, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    zmq_send(socket_, &goodbye, 1, ZMQ_DONTWAIT);
  } else if (last == nullptr) {
    zmq_send(socket_, "", 0, ZMQ_DONTWAIT);
  } else {
    zmq_msg_send(last, socket_, ZMQ_DONTWAIT);
  }
  return 0;
}

int router_side::probe(peer &p) { return send_frame(p, nullptr, false); }

hive_status router_side::send(hive_peer id, const hive_bytes *parts, size_t count) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return HIVE_GONE;
  peer &p = *found->second;
  if (p.over || p.closing || p.unreachable) return HIVE_GONE;
  zmq_msg_t m;
  hive_status why;
  if (!gather(parts, count, m, why)) return why;
  const int error = send_frame(p, &m, false);
  if (error == 0) return HIVE_OK;
  zmq_msg_close(&m);
  if (error != EAGAIN) return HIVE_GONE;
  p.blocked = true;
  watch(p);
  return HIVE_FULL;
}

void router_side::close_peer(hive_peer id, uint32_t linger_ms) {
  const auto found = peers_.find(id);
  if (found == peers_.end() || found->second->over || found->second->closing) return;
  peer &p = *found->second;
  p.closing = true;
  p.blocked = false;
  p.deadline_ns = core_.now() + linger_ms * ns_per_ms;
  if (linger_ms != 0 && send_frame(p, nullptr, true) == 0) p.goodbye_sent = true;
  watch(p);
}

bool router_side::step(peer &p, uint64_t now, budget &b) {
  if (p.unreachable) return false;
  if (p.closing && !p.over) {
    if (now >= p.deadline_ns) {
      lose(p, HIVE_LOST_CLOSED, "closed");
      b.take();
    } else if (!p.goodbye_sent) {
      p.goodbye_sent = send_frame(p, nullptr, true) == 0;
    }
  } else if (p.blocked && !p.over && probe(p) == 0) {
    p.blocked = false;
    core_.events->on_writable(core_.events->ctx, p.id);
    b.take();
  }
  if ((p.suspect || p.over) && !p.unreachable && now >= p.probe_at_ns) {
    const int answer = probe(p);
    p.probe_at_ns = now + (p.over && !p.suspect ? over_probe_ns : (5 * ns_per_ms) << p.probes);
    if (p.suspect && ++p.probes >= suspect_probes) {
      p.probes = 0;
      p.suspect = answer == EAGAIN;
    }
  }
  return p.unreachable;
}

bool router_side::step_all(uint64_t now, budget &b) {
  bool unreachable = false;
  size_t kept = 0;
  const size_t count = watched_.size();
  for (size_t i = 0; i < count; ++i) {
    peer *p = watched_[i];
    if (!b.spent()) unreachable |= step(*p, now, b);
    p->watched = p->closing || p->over || p->blocked || p->suspect || p->unreachable;
    if (p->watched) watched_[kept++] = p;
  }
  watched_.erase(watched_.begin() + static_cast<std::ptrdiff_t>(kept), watched_.begin() + static_cast<std::ptrdiff_t>(count));
  return unreachable;
}

// Called when a read found nothing after libzmq had said EHOSTUNREACH: all that the peer had sent was delivered.
void router_side::finish_unreachable() {
  for (size_t i = 0; i < watched_.size();) {
    peer *p = watched_[i];
    if (!p->unreachable) {
      ++i;
      continue;
    }
    watched_.erase(watched_.begin() + static_cast<std::ptrdiff_t>(i));
    by_routing_.erase(p->routing);
    const auto node = peers_.extract(p->id);
    if (!p->over)
      core_.raise_lost(p->id, HIVE_LOST_CLOSED, p->closing ? "closed" : "the connection ended, or gave no sign of life");
  }
}

uint64_t router_side::wake_of(const peer &p, uint64_t now) const {
  uint64_t at = no_wake;
  if (p.unreachable) return now;
  if (p.suspect || p.over) at = p.probe_at_ns;
  if (p.blocked || (p.closing && !p.over && !p.goodbye_sent)) at = std::min(at, now + blocked_probe_ns);
  if (p.closing && !p.over) at = std::min(at, p.deadline_ns);
  return at;
}

void router_side::suspect(peer &p) {
  p.suspect = true;
  p.probes = 0;
  p.probe_at_ns = 0;
  watch(p);
}

void router_side::watch(peer &p) {
  if (p.watched) return;
  p.watched = true;
  watched_.push_back(&p);
}

// The entry stays until libzmq has forgotten the routing id: what still comes from it must not make a new peer.
void router_side::lose(peer &p, int32_t reason, std::string_view text) {
  p.over = true;
  p.blocked = false;
  p.probe_at_ns = core_.now() + over_probe_ns;
  cut_connection(p.fd, p.name);
  watch(p);
  core_.raise_lost(p.id, reason, text);
}

void router_side::set_denied(std::span<const key32> keys) {
  denied_ = {keys.begin(), keys.end()};
  if (!domain_.empty()) core_.zmq->set_denied(domain_, denied_);
}

void router_side::stop(uint32_t linger_ms) {
  if (socket_ == nullptr) return;
  if (linger_ms != 0)
    for (auto &[id, p] : peers_)
      if (!p->over && !p->closing && !p->unreachable) send_frame(*p, nullptr, true);
  std::vector<hive_peer> lost;
  for (auto &[id, p] : peers_)
    if (!p->over) lost.push_back(id);
  close(linger_ms);
  for (const hive_peer id : lost) core_.raise_lost(id, HIVE_LOST_CLOSED, "the transport was stopped");
}

void router_side::close(uint32_t linger_ms) {
  if (socket_ == nullptr) return;
  epoll_ctl(core_.epoll, EPOLL_CTL_DEL, readiness_fd(socket_), nullptr);
  if (gate_ != nullptr) {
    epoll_ctl(core_.epoll, EPOLL_CTL_DEL, gate_->wake_fd(), nullptr);
    gate_.reset();
  }
  set_option(socket_, ZMQ_LINGER, static_cast<int>(linger_ms));
  zmq_close(socket_);
  socket_ = nullptr;
  core_.zmq->forget(domain_);
  domain_.clear();
  touched_ = false;
  gone_fds_.clear();
  watched_.clear();
  by_routing_.clear();
  peers_.clear();
}

}  // namespace hive::transport_zmq
