// What the parts of one instance share. Belongs to the instance's loop.
#pragma once

#include <zmq.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "context.hpp"
#include "hive/abi/transport.h"
#include "hive/sdk/core.hpp"
#include "message_pool.hpp"
#include "settings.hpp"

namespace hive::transport_zmq {

inline constexpr uint64_t ns_per_ms = 1'000'000;
// libzmq measures the encrypted frame: command name, nonce, flags and authenticator are 33 bytes more than the message.
inline constexpr int64_t curve_envelope_bytes = 64;
inline constexpr uint64_t no_wake = UINT64_MAX;

// How much one pump may still do. The clock is read every sixteenth event only.
class budget {
 public:
  budget(const hive_host *host, uint32_t events, uint64_t max_ns)
      : host_(host), left_(events == 0 ? 1 : events), until_ns_(host->now_ns(host) + max_ns) {}
  void take() {
    if (left_ != 0) --left_;
    if (++taken_ % 16 == 0 && host_->now_ns(host_) >= until_ns_) left_ = 0;
  }
  bool spent() const { return left_ == 0; }

 private:
  const hive_host *host_;
  uint32_t left_;
  uint32_t taken_ = 0;
  uint64_t until_ns_;
};

// Connections that were ended before they were peers, by reason.
struct rejection_metrics {
  sdk::host::metric connections, strangers, strangers_per_ip, failures_per_ip;
};

struct core {
  const hive_host *host = nullptr;
  settings set;
  rejection_metrics refused;
  const hive_transport_events *events = nullptr;
  context *zmq = nullptr;
  message_pool *pool = nullptr;
  key32 secret{}, own{};
  std::optional<key32> router;
  uint64_t affinity = 1;
  int epoll = -1;
  hive_peer last_peer = 0;

  uint64_t now() const { return host->now_ns(host); }
  void raise_message(hive_peer p, message *m) const {
    message_pool::seal(m);
    events->on_message(events->ctx, p, m);
  }
  void raise_lost(hive_peer p, int32_t reason, std::string_view text) const {
    events->on_lost(events->ctx, p, reason, hive_str{text.data(), text.size()});
  }
};

inline int set_option(void *socket, int option, int value) { return zmq_setsockopt(socket, option, &value, sizeof value); }

// Everything both kinds of socket have in common, before bind or connect.
inline void set_common_options(void *socket, const core &c) {
  set_option(socket, ZMQ_LINGER, 0);
  set_option(socket, ZMQ_SNDHWM, c.set.hwm);
  set_option(socket, ZMQ_RCVHWM, c.set.hwm);
  const int64_t largest = max_message_bytes + curve_envelope_bytes;
  zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &largest, sizeof largest);
  zmq_setsockopt(socket, ZMQ_AFFINITY, &c.affinity, sizeof c.affinity);
  set_option(socket, ZMQ_HEARTBEAT_IVL, c.set.heartbeat_ms);
  set_option(socket, ZMQ_HEARTBEAT_TIMEOUT, c.set.heartbeat_timeout_ms);
  set_option(socket, ZMQ_HEARTBEAT_TTL, c.set.heartbeat_timeout_ms);
  set_option(socket, ZMQ_HANDSHAKE_IVL, c.set.handshake_timeout_ms);
  set_option(socket, ZMQ_TCP_MAXRT, 5000);
  set_option(socket, ZMQ_TCP_KEEPALIVE, 1);
  zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, c.secret.data(), c.secret.size());
}

// Whether the socket has something to read or room to write, after all commands that libzmq's I/O thread left for it.
inline int ready_events(void *socket) {
  int events = 0;
  size_t n = sizeof events;
  return zmq_getsockopt(socket, ZMQ_EVENTS, &events, &n) == 0 ? events : 0;
}

inline int readiness_fd(void *socket) {
  int fd = -1;
  size_t n = sizeof fd;
  return zmq_getsockopt(socket, ZMQ_FD, &fd, &n) == 0 ? fd : -1;
}

// One frame of all parts; false when it would be empty or above max_message_bytes.
bool gather(const hive_bytes *parts, size_t count, zmq_msg_t &out, hive_status &why);

// Messages of the kernel are one frame and never empty. The transport's own: an empty frame says nothing (it makes a
// connection known, or asks libzmq whether it still is); two frames, empty and this byte, say that the sender's messages
// are all before and the connection may be closed.
inline constexpr char goodbye = 'B';

}  // namespace hive::transport_zmq
