// The agent's end: one link to one router worker, and the bundle of links to all workers of a router. A bundle belongs
// to one loop of the agent; it must not be destroyed from inside one of its handler's calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.hpp"
#include "base/status.hpp"
#include "link/identity.hpp"
#include "link/router_hub.hpp"
#include "link/stream.hpp"

namespace hive::link {

// An agent of one router whose data half stands in several loops has one bundle with one link in each; to the router they
// are one agent.
struct agent_part {
  uint32_t link_index = 0;                     // the worker it belongs to; 0 speaks for the agent (metadata, heartbeats, signals)
  uint64_t boot_id = 0;                        // the same in every part
};

struct agent_link_options {
  std::string router;                          // HOST:PORT of worker 0; names are resolved here, never by libzmq
  std::vector<std::string> secrets;            // newest first; tried in turn when the router accepts one not
  std::vector<key32> router_keys;              // CURVE keys, one of which the router must have; empty = derived from the secrets
  uint32_t stream_window = 256 * 1024;
  uint64_t goodbye_ns = ns_per_s;              // for the router to answer GOODBYE
  uint64_t stream_write_timeout_ns = 120 * ns_per_s;
  uint64_t reconnect_min_ns = ns_per_s / 2;    // full jitter between min and a doubling bound
  uint64_t reconnect_max_ns = 30 * ns_per_s;
  uint64_t auth_limit_ns = 5 * ns_per_s;       // connection to WELCOME; a probe of a duplicate takes 1 s of it
  uint64_t accept_delay_ns = 250 * ns_per_ms;  // accept() without a HEAD by then sends ACCEPT
  std::optional<agent_part> part;              // `router` is then that worker; WELCOME's endpoints are not followed
};

// An incoming request on the agent. Owned by the link until the handler took it.
class agent_stream {
 public:
  virtual ~agent_stream() = default;           // without end, reset or refuse before: RESET(agent_failed)
  virtual void accept() = 0;                   // the record is sent only if no HEAD has gone within 250 ms
  virtual void refuse(cause, std::string_view message, uint64_t retry_after_ms) = 0;
  virtual void head(const http::response_head &, bool streaming) = 0;
  virtual bool data(std::string_view) = 0;     // false: no credit left, stop reading until on_writable
  virtual void end(const usage &) = 0;
  virtual void reset(cause, std::string_view message, bool reached_engine, uint64_t retry_after_ms = 0) = 0;
  virtual void body_consumed(size_t) = 0;      // request-body credit
};

struct incoming_request {
  std::string_view method, target, request_id, model, route;
  bool streaming = false, buffered_head = false;
  uint64_t deadline_ns = never_ns;             // monotonic, this host's clock
  uint64_t body_length = 0;
  std::vector<http::field> fields;             // borrowed for on_open
};

class agent_stream_events {
 public:
  virtual ~agent_stream_events() = default;
  virtual void on_body(std::string_view, bool last) = 0;
  virtual void on_writable() = 0;
  virtual void on_cancelled(cause) = 0;        // CANCEL or lost link; the stream is gone, the engine's request must end now
};

class agent_link_handler {
 public:
  virtual ~agent_link_handler() = default;
  // Returns what listens to the stream from now on; the stream lives until its listener is destroyed by the link, after
  // the stream is over.
  virtual std::unique_ptr<agent_stream_events> on_open(const incoming_request &, agent_stream &) = 0;
  virtual std::string metadata() = 0;                       // JSON for AUTH
  virtual void on_welcomed() = 0;                           // all links are up: signals and heartbeats flow
  virtual void on_lost(std::string_view reason) = 0;
  virtual void on_kicked(std::string_view code, std::string_view message, bool final) = 0;
  virtual void on_drain_requested(uint64_t deadline_ms) = 0;
  // Both counts are of slots and change together: what one shows beyond the other the router takes for another router's work.
  virtual pong_info load() = 0;
};

class agent_router_link {
 public:
  agent_router_link(loop &, transport_ref, const identity &, agent_link_handler &, const agent_link_options &);
  ~agent_router_link();
  void start();                                             // dials, reconnects for ever with jitter
  void request_pump();
  bool welcomed() const;
  void heartbeat(bool engine_ready, std::string_view reason);
  void signals(const std::vector<signal_value> &, std::string_view structured_json);
  void models(std::string_view metadata_json);
  void draining(uint64_t deadline_ms);
  // In the place of those it had, newest first; not empty. Links stay, whose secret is gone too: the router decides about them.
  void set_secrets(std::vector<std::string> secrets);
  void slot_freed();                                        // a PONG at once if a request was refused as busy
  void goodbye(std::function<void()> done);                 // last record, waits for GOAWAY at most 1 s
  uint64_t heartbeat_period_ns() const;                     // as welcomed
  bool slot_release_at_head() const;                        // as welcomed: count slots until HEAD, not to the stream's end

  class impl;  // opaque; named by the room's own files

 private:
  std::unique_ptr<impl> impl_;
};

}  // namespace hive::link
