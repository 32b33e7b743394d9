// What one instance is configured with. Read once in `create`; plain data afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hive::transport_zmq {

// A backstop only: senders are refused above it before libzmq would reset the whole connection.
inline constexpr size_t max_message_bytes = 256 * 1024;

struct settings {
  int max_connections_per_ip = 32;   // counted per listening port
  int max_strangers = 256;           // accepted, handshake not done
  bool limit_loopback = false;       // whether 127.0.0.0/8 and ::1 are counted too
  int io_threads = 0;                // 0: one a worker; the first instance of the process decides
  int connect_timeout_ms = 3000;
  int handshake_timeout_ms = 3000;
  int heartbeat_ms = 1000;
  int heartbeat_timeout_ms = 3000;
  int hwm = 65536;                   // messages a peer and direction; credit keeps the pipe far below
};

// JSON Schema of the instance's block, defaults and ranges included.
std::string_view settings_schema();

// `json` has been validated against the schema: an absent member takes its default. Returns what is wrong, or empty.
std::string read_settings(std::string_view json, settings &out);

}  // namespace hive::transport_zmq
