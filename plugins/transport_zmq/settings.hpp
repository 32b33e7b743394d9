// What one instance is configured with. Read once in `create`; plain data afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hive/sdk/options.hpp"

namespace hive::transport_zmq {

// A backstop only: senders are refused above it before libzmq would reset the whole connection.
inline constexpr size_t max_message_bytes = 256 * 1024;

struct settings {
  int max_connections_per_ip = 32;   // counted per listening port
  int max_strangers = 256;           // accepted, handshake not done
  int max_strangers_per_ip = 8;
  int max_failures_per_ip = 120;     // connections that ended as strangers or soon after, within a minute
  bool limit_loopback = false;       // whether 127.0.0.0/8 and ::1 are counted too
  int io_threads = 0;                // 0: one a worker; the first instance of the process decides
  int connect_timeout_ms = 3000;
  int handshake_timeout_ms = 3000;
  int heartbeat_ms = 1000;
  int heartbeat_timeout_ms = 3000;
  int hwm = 65536;                   // messages a peer and direction; credit keeps the pipe far below
};

// JSON Schema of the instance's block, defaults and ranges included.
inline constexpr std::string_view settings_schema =
    R"({"type":"object","additionalProperties":false,"properties":{
"max_connections_per_ip":{"type":"integer","minimum":1,"maximum":65536,"default":32},
"max_strangers":{"type":"integer","minimum":1,"maximum":65536,"default":256},
"max_strangers_per_ip":{"type":"integer","minimum":1,"maximum":65536,"default":8},
"max_failures_per_ip":{"type":"integer","minimum":1,"maximum":1000000,"default":120},
"limit_loopback":{"type":"boolean","default":false},
"io_threads":{"type":"integer","minimum":0,"maximum":64,"default":0},
"connect_timeout_ms":{"type":"integer","minimum":50,"maximum":60000,"default":3000},
"handshake_timeout_ms":{"type":"integer","minimum":50,"maximum":60000,"default":3000},
"heartbeat_ms":{"type":"integer","minimum":50,"maximum":60000,"default":1000},
"heartbeat_timeout_ms":{"type":"integer","minimum":100,"maximum":60000,"default":3000},
"hwm":{"type":"integer","minimum":1,"maximum":1000000,"default":65536}}})";

// The block has passed the schema. Throws sdk::failure for what a schema cannot say.
settings read_settings(const sdk::options &);

}  // namespace hive::transport_zmq
