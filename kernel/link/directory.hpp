// What the link tells the rest of the router about agents. Implemented by the fleet's registry; called from worker loops,
// so every call is thread-safe and does not block. `worker` is the index of the calling hub.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hive::link {

// Set in the names of connections from agents of this process, which come over a transport of their own.
inline constexpr uint64_t own_process_mark = uint64_t{1} << 63;

// A welcomed or authenticating agent connection.
struct link_id {
  uint32_t worker = 0;
  uint64_t peer = 0;      // the transport's peer on that worker, own_process_mark added
  bool in_own_process() const { return (peer & own_process_mark) != 0; }
  bool operator==(const link_id &) const = default;
};

struct auth_request {
  link_id link;
  std::string peer_id;
  std::array<uint8_t, 32> curve_key{};
  uint64_t boot_id = 0;
  uint32_t link_index = 0;      // 0 carries the metadata
  std::string address;
  std::string metadata;         // JSON text of AUTH on link 0, already proven to come from the agent; else empty
  bool renewal = false;
};

struct auth_decision {
  enum class kind { welcome, wait_for_probe, refuse } what = kind::refuse;
  std::string kick_code;        // bad_secret, duplicate, replaced, metadata, removed, revoked
  std::string message;
  uint64_t retry_after_ms = 0;
  bool final = false;           // the agent must not try again by itself
};

struct signal_value {
  std::string_view name;
  double value;
  uint64_t age_ms;
};

struct pong_info {
  uint32_t in_flight_total = 0;
  uint32_t in_flight_yours = 0;
  uint32_t capacity = 0;
};

class directory {
 public:
  virtual ~directory() = default;
  // Decides who owns the key, on the control thread; `reply` is called on any thread, at once or later (the probe of a
  // live owner takes up to 1 s). Nothing is registered unless it answers welcome.
  virtual void authenticate(auth_request, std::function<void(auth_decision)> reply) = 0;
  virtual void link_lost(link_id, std::string_view reason) = 0;      // also for links that were never welcomed
  virtual void heartbeat(std::string_view peer_id, bool engine_ready, std::string_view reason) = 0;
  virtual void signals(std::string_view peer_id, const std::vector<signal_value> &, std::string_view structured_json) = 0;
  virtual void models(std::string_view peer_id, std::string_view metadata_json) = 0;
  virtual void pong(std::string_view peer_id, const pong_info &, link_id) = 0;
  virtual void refused_busy(std::string_view peer_id, const pong_info &) = 0;
  virtual void draining(std::string_view peer_id, bool on) = 0;
  virtual void goodbye(std::string_view peer_id) = 0;
  // The session's TTL has passed without a renewal (on = true), or a late renewal has come: no new work meanwhile.
  virtual void expired(std::string_view peer_id, bool on) = 0;
};

}  // namespace hive::link
