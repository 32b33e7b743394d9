#include "dialler.hpp"

#include <sys/epoll.h>
#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hive::transport_zmq {

namespace {
constexpr uint64_t flush_poll_ns = ns_per_ms, flush_limit_ns = 200 * ns_per_ms;
constexpr uint64_t blocked_poll_ns = 10 * ns_per_ms;
constexpr const char *auth_text = "the handshake failed: the router has another key, or it refused the connection";
}  // namespace

std::string dialler::open(const literal &address) {
  address_ = to_text(address);
  socket_ = zmq_socket(core_.zmq->raw(), ZMQ_DEALER);
  monitor_ = zmq_socket(core_.zmq->raw(), ZMQ_PAIR);
  const auto failed = [this](const char *what) {
    const std::string text = std::string(what) + ": " + zmq_strerror(zmq_errno());
    close(0);
    return text;
  };
  if (socket_ == nullptr || monitor_ == nullptr) return failed("socket");
  set_common_options(socket_, core_);
  set_option(socket_, ZMQ_IPV6, address.ipv6 ? 1 : 0);
  set_option(socket_, ZMQ_IMMEDIATE, 1);
  set_option(socket_, ZMQ_RECONNECT_IVL, -1);
  set_option(socket_, ZMQ_CONNECT_TIMEOUT, core_.set.connect_timeout_ms);
  set_option(socket_, ZMQ_PROBE_ROUTER, 1);  // the other side learns of us without waiting for our first message
  zmq_setsockopt(socket_, ZMQ_CURVE_PUBLICKEY, core_.own.data(), core_.own.size());
  if (zmq_setsockopt(socket_, ZMQ_CURVE_SERVERKEY, core_.router->data(), core_.router->size()) != 0) return failed("CURVE");

  const std::string at = "inproc://hive.dial." + std::to_string(core_.zmq->next_serial());
  const int events = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                     ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
  set_option(monitor_, ZMQ_LINGER, 0);
  if (zmq_socket_monitor(socket_, at.c_str(), events) != 0 || zmq_connect(monitor_, at.c_str()) != 0) return failed("monitor");
  epoll_event e{};
  e.events = EPOLLIN;
  if (epoll_ctl(core_.epoll, EPOLL_CTL_ADD, readiness_fd(socket_), &e) != 0 ||
      epoll_ctl(core_.epoll, EPOLL_CTL_ADD, readiness_fd(monitor_), &e) != 0)
    return failed("epoll");
  looked_ns_ = core_.now();
  if (zmq_connect(socket_, ("tcp://" + address_).c_str()) != 0) return failed(address_.c_str());
  // Only a backstop: libzmq says nothing when it has no descriptor left for the attempt.
  deadline_ns_ = looked_ns_ + (1000 + static_cast<uint64_t>(core_.set.connect_timeout_ms + core_.set.handshake_timeout_ms)) * ns_per_ms;
  return {};
}

bool dialler::pump(budget &b, uint64_t &wake) {
  const uint64_t now = core_.now();
  if (state_ == state::over) return true;
  read_monitor(now);
  if (state_ == state::connecting && !ended_ && now >= deadline_ns_) ended(HIVE_LOST_TIMEOUT, "no answer in time");
  if (state_ == state::shaken) {
    // Raised only once a send would be taken; the pipe is announced apart from the event.
    if ((ready_events(socket_) & ZMQ_POLLOUT) != 0 || ended_) {
      state_ = state::up;
      b.take();
      core_.events->on_peer(core_.events->ctx, id_, core_.router->data(), hive_str{address_.data(), address_.size()});
    } else {
      wake = std::min(wake, now + flush_poll_ns);
    }
  }
  if (state_ == state::up || state_ == state::closing) {
    do {
      touched_ = false;
      if (!drain(b)) return false;
    } while (touched_ && state_ != state::over && (ready_events(socket_) & ZMQ_POLLIN) != 0);
    touched_ = false;
  }
  if (state_ == state::over) return true;
  const int events = ready_events(socket_);
  // The question itself eats the readiness of what has come since the drain: nothing else would announce it.
  if (!ended_ && (state_ == state::up || state_ == state::closing) && (events & ZMQ_POLLIN) != 0) return false;
  if (state_ == state::up && blocked_ && !ended_) {
    if ((events & ZMQ_POLLOUT) != 0) {
      blocked_ = false;
      b.take();
      core_.events->on_writable(core_.events->ctx, id_);
    } else {
      wake = std::min(wake, now + blocked_poll_ns);
    }
  }
  if (ended_) {
    // The pipe ends after the last message that came over the connection; until then there may be more to read.
    const bool piped = (state_ == state::up || state_ == state::closing) && (events & (ZMQ_POLLOUT | ZMQ_POLLIN)) != 0;
    if (!piped || now >= ended_deadline_ns_) {
      if (!drain(b)) return false;
      lose(state_ == state::closing ? HIVE_LOST_CLOSED : reason_, state_ == state::closing ? "closed" : text_);
      return true;
    }
    wake = std::min(wake, now + flush_poll_ns);
  }
  if (state_ == state::closing) {
    if (now >= deadline_ns_) {
      lose(HIVE_LOST_CLOSED, "closed");
      return true;
    }
    if (!goodbye_sent_ && !send_goodbye()) wake = std::min(wake, now + blocked_poll_ns);
  }
  if (state_ == state::connecting || state_ == state::closing) wake = std::min(wake, deadline_ns_);
  return true;
}

void dialler::read_monitor(uint64_t now) {
  for (;;) {
    unsigned char head[6];
    if (zmq_recv(monitor_, head, sizeof head, ZMQ_DONTWAIT) != 6) break;
    char endpoint[8];
    zmq_recv(monitor_, endpoint, sizeof endpoint, 0);
    uint16_t event;
    uint32_t value;
    std::memcpy(&event, head, 2);
    std::memcpy(&value, head + 2, 4);
    on_event(event, value, now);
  }
  looked_ns_ = now;
}

void dialler::on_event(int event, uint32_t value, uint64_t now) {
  switch (event) {
    case ZMQ_EVENT_CONNECTED:
      connected_ = true;
      connected_ns_ = now;
      return;
    case ZMQ_EVENT_CLOSED:
      if (!connected_) ended(HIVE_LOST_REFUSED, "no connection could be made");
      return;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      if (state_ == state::connecting) state_ = state::shaken;
      return;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      ended(HIVE_LOST_AUTH, "the router refused this key");
      return;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      if (value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC)
        ended(HIVE_LOST_AUTH, auth_text);
      else
        ended(HIVE_LOST_PROTOCOL, "the other side does not speak this protocol");
      return;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      // A router that cannot open our hello with its key hangs up without a word.
      // A loop that was busy reads at once that it is connected and that it no longer is: what the handshake took is counted from when
      // it was not yet. And the limit is not met to the millisecond.
      if (now - (connected_ns_ == now ? looked_ns_ : connected_ns_) >= static_cast<uint64_t>(core_.set.handshake_timeout_ms) * ns_per_ms * 8 / 10)
        ended(HIVE_LOST_TIMEOUT, "no answer to the handshake");
      else
        ended(HIVE_LOST_AUTH, auth_text);
      return;
    case ZMQ_EVENT_DISCONNECTED:
      if (state_ == state::connecting)
        ended(HIVE_LOST_AUTH, auth_text);
      else
        ended(HIVE_LOST_CLOSED, "the connection ended, or gave no sign of life");
      return;
    default:
      return;
  }
}

bool dialler::drain(budget &b) {
  for (;;) {
    message *m = core_.pool->take();
    if (zmq_msg_recv(&m->frame, socket_, ZMQ_DONTWAIT) < 0) {
      core_.pool->finish(m);
      return true;
    }
    bool more = zmq_msg_more(&m->frame) != 0, farewell = false;
    const bool several = more;
    for (bool first = true; more; first = false) {
      char part[2];
      const int n = zmq_recv(socket_, part, sizeof part, ZMQ_DONTWAIT);
      int rest = 0;
      size_t size = sizeof rest;
      zmq_getsockopt(socket_, ZMQ_RCVMORE, &rest, &size);
      more = rest != 0;
      farewell = first && !more && n == 1 && part[0] == goodbye;
    }
    b.take();
    if (several) {
      lose(farewell ? HIVE_LOST_CLOSED : HIVE_LOST_PROTOCOL,
           farewell ? "the other side closed the connection" : "a message of several frames");
      core_.pool->finish(m);
      return true;
    }
    if (state_ == state::up && zmq_msg_size(&m->frame) != 0) core_.raise_message(id_, m);
    core_.pool->finish(m);
    if (b.spent()) {
      touched_ = true;
      return false;
    }
  }
}

hive_status dialler::send(const hive_bytes *parts, size_t count) {
  if (state_ != state::up || ended_) return HIVE_GONE;
  zmq_msg_t m;
  hive_status why;
  if (!gather(parts, count, m, why)) return why;
  touched_ = true;
  int rc = zmq_msg_send(&m, socket_, ZMQ_DONTWAIT);
  if (rc < 0 && zmq_errno() == EAGAIN) {
    ready_events(socket_);
    rc = zmq_msg_send(&m, socket_, ZMQ_DONTWAIT);
  }
  if (rc >= 0) return HIVE_OK;
  const int error = zmq_errno();
  zmq_msg_close(&m);
  if (error != EAGAIN) return HIVE_GONE;
  blocked_ = true;
  return HIVE_FULL;
}

bool dialler::send_goodbye() {
  touched_ = true;
  if (zmq_send(socket_, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) return false;
  zmq_send(socket_, &goodbye, 1, ZMQ_DONTWAIT);
  return goodbye_sent_ = true;
}

void dialler::close_peer(uint32_t linger_ms) {
  if (state_ == state::over || state_ == state::closing) return;
  const bool was_up = state_ == state::up;
  state_ = state::closing;
  blocked_ = false;
  deadline_ns_ = core_.now() + (was_up ? linger_ms * ns_per_ms : 0);
  if (was_up && linger_ms != 0) send_goodbye();
}

void dialler::ended(int32_t reason, const char *text) {
  if (ended_) return;
  ended_ = true;
  reason_ = reason;
  text_ = text;
  ended_deadline_ns_ = core_.now() + flush_limit_ns;
}

void dialler::lose(int32_t reason, std::string_view text) {
  if (state_ == state::over) return;
  state_ = state::over;
  close(0);
  core_.raise_lost(id_, reason, text);
}

void dialler::stop(uint32_t linger_ms) {
  if (state_ == state::over) return;
  if (state_ == state::up && linger_ms != 0) send_goodbye();
  state_ = state::over;
  close(linger_ms);
  core_.raise_lost(id_, HIVE_LOST_CLOSED, "the transport was stopped");
}

void dialler::close(uint32_t linger_ms) {
  for (void *s : {socket_, monitor_})
    if (s != nullptr) epoll_ctl(core_.epoll, EPOLL_CTL_DEL, readiness_fd(s), nullptr);
  if (socket_ != nullptr) zmq_socket_monitor(socket_, nullptr, 0);
  if (monitor_ != nullptr) zmq_close(monitor_);
  if (socket_ != nullptr) {
    set_option(socket_, ZMQ_LINGER, static_cast<int>(linger_ms));
    zmq_close(socket_);
  }
  socket_ = monitor_ = nullptr;
}

}  // namespace hive::transport_zmq
