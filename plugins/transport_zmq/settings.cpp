#include "settings.hpp"

#include <string>

#include "hive/sdk/core.hpp"

namespace hive::transport_zmq {

settings read_settings(const sdk::options &o) {
  settings s;
  const auto number = [&](std::string_view name, int &out) { out = static_cast<int>(o.integer(name, out)); };
  number("max_connections_per_ip", s.max_connections_per_ip);
  number("max_strangers", s.max_strangers);
  number("max_strangers_per_ip", s.max_strangers_per_ip);
  number("max_failures_per_ip", s.max_failures_per_ip);
  number("io_threads", s.io_threads);
  number("connect_timeout_ms", s.connect_timeout_ms);
  number("handshake_timeout_ms", s.handshake_timeout_ms);
  number("heartbeat_ms", s.heartbeat_ms);
  number("heartbeat_timeout_ms", s.heartbeat_timeout_ms);
  number("hwm", s.hwm);
  s.limit_loopback = o.boolean("limit_loopback", s.limit_loopback);
  if (s.heartbeat_timeout_ms < s.heartbeat_ms)
    throw sdk::failure(HIVE_E_CONFIG, "heartbeat_timeout_ms (" + std::to_string(s.heartbeat_timeout_ms) +
                                          ") must not be below heartbeat_ms (" + std::to_string(s.heartbeat_ms) +
                                          "): every connection would be cut between two heartbeats");
  return s;
}

}  // namespace hive::transport_zmq
