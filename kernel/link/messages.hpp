// The cold records' metadata as structs and their compact JSON. Decoders answer nothing for anything malformed: what a
// stranger sends is never described back to it. Pure, any thread. Binary values travel as lower-case hex.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "link/auth.hpp"
#include "link/directory.hpp"

namespace hive::link {

struct hello_message {
  uint32_t version_min = 1;
  uint32_t version_max = 1;
  uint64_t boot_id = 0;
  std::string peer_id;
  key32 nonce{};
  uint32_t link_index = 0;
};

struct challenge_message {
  uint32_t version = 1;
  key32 nonce{};
  key32 echo{};            // the agent's nonce
  uint64_t boot_id = 0;    // the router's
};

// The metadata of link 0 is the record's payload, so that its hash is over the bytes as sent.
struct auth_message {
  digest32 proof{};
  uint32_t stream_window = 0;   // what the agent is ready to hold of one request's body
};

struct welcome_message {
  digest32 proof{};
  uint16_t epoch = 0;
  uint64_t ttl_ms = 0;
  uint64_t heartbeat_ms = 0;
  uint64_t ping_ms = 0;
  uint32_t body_window = 0;     // request body, router to agent
  uint32_t link_window = 0;     // where both directions start
  bool slot_release_at_head = false;
  std::vector<std::string> endpoints;
};

struct kick_message {
  std::string code;
  std::string message;
  uint64_t retry_after_ms = 0;
  bool final = false;
};

struct heartbeat_message {
  bool engine_ready = false;
  std::string reason;
};

// Views are into the parsed text's own storage.
struct signals_message {
  struct entry {
    std::string name;
    double value;
    uint64_t age_ms;
  };
  std::vector<entry> values;
};

std::string to_json(const hello_message &);
std::string to_json(const challenge_message &);
std::string to_json(const auth_message &);
std::string to_json(const welcome_message &);
std::string to_json(const kick_message &);
std::string to_json(const heartbeat_message &);
std::string to_json(const pong_info &);
std::string to_json(const std::vector<signal_value> &);   // values that are not finite are left out

std::optional<hello_message> parse_hello(std::string_view);
std::optional<challenge_message> parse_challenge(std::string_view);
std::optional<auth_message> parse_auth(std::string_view);
std::optional<welcome_message> parse_welcome(std::string_view);
std::optional<kick_message> parse_kick(std::string_view);
std::optional<heartbeat_message> parse_heartbeat(std::string_view);
std::optional<pong_info> parse_pong(std::string_view);
std::optional<signals_message> parse_signals(std::string_view);

}  // namespace hive::link
