// What the gateway tells about its requests: one record when one is over, and gauges of what is under way. Implemented by
// whoever turns it into metrics and audit lines; called on worker loops, must not block.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "link/stream.hpp"
#include "tenancy/keyring.hpp"

namespace hive::gateway {

// Who or what ended a request; a closed set, used as label of metrics and in audit.
enum class ended : uint8_t {
  completed,
  client_gone,
  client_slow,
  deadline,
  agent_lost,
  engine_error,
  rejected_request,    // 4xx of ours before any engine saw it
  rejected_by_engine,  // the engine's own 4xx, passed on
  rejected_no_agent,
  rejected_capacity,
  rejected_queue,
  rejected_memory,
  rejected_auth,
  rejected_admission,  // 429: the model's budget, its fleet's pressure or the key's limits
  failed,              // our own 5xx that is none of the others
  shutdown,
};
std::string_view to_string(ended e);

// Whose keys open what was asked for.
enum class surface : uint8_t { client, admin };

// Views are borrowed for the call.
struct request_record {
  std::string_view request_id;
  std::string_view method;
  std::string_view route;        // label
  std::string_view started_as;   // the label of on_started when it was another; else empty
  surface at = surface::client;
  bool inference = false;        // a request for an engine
  std::string_view client;       // address
  std::string_view tenant;
  std::string_view key_id;       // "" without a key of a client
  std::string_view model;        // empty when it was not read
  std::string_view alias;        // the name that the client used for it, if it was another
  bool model_known = false;      // an agent serves it: it may become a label
  std::string_view agent;        // peer id of the last attempt
  std::string_view step;
  std::string_view provider;       // engine of the provider that was asked, once no agent could serve; else empty
  std::string_view provider_model;
  std::string_view error_code;
  std::string_view refused_by;   // the part of admission that refused it: b1, b3, ...; else empty
  std::string_view token_limited;  // the tokens of its key's day: refused it (input), or did not suffice for the answer (output)
  int status = 0;                // 499 when the client left before an answer
  ended how = ended::completed;
  tenancy::denial denied = tenancy::denial::none;  // of a 401 of ours
  bool streaming = false;
  uint32_t attempts = 0;
  uint64_t started_unix_ms = 0;
  uint64_t duration_ns = 0;
  uint64_t queue_ns = 0;
  uint64_t first_byte_ns = 0;    // 0 = none was sent
  uint64_t estimated_prompt_tokens = 0;  // before routing; 0 = the body was not read
  uint64_t declared_output_tokens = 0;   // the request's own limit; 0 = none
  uint64_t output_footprint = 0;         // over all its choices and prompts: what it was let in and routed with
  link::usage usage;
  bool estimated = false;        // usage, or a part of it, was counted here and not told by the engine
};

class telemetry {
 public:
  virtual void on_started(std::string_view method, std::string_view route) = 0;
  virtual void on_finished(const request_record &) = 0;
  // One attempt at an agent that did not end in success.
  virtual void on_attempt_failed(std::string_view peer_id, std::string_view model, std::string_view cause) = 0;

 protected:
  ~telemetry() = default;
};

// Requests by what they are doing. Any thread.
struct stage_gauges {
  std::atomic<int64_t> reading_body{0};
  std::atomic<int64_t> selecting{0};       // waiting for a slot of an agent included
  std::atomic<int64_t> forwarding{0};      // sent to an agent, no head yet
  std::atomic<int64_t> streaming{0};
  std::atomic<int64_t> leases{0};          // taken by requests that wait for a forward slot; no stage of its own
};

}  // namespace hive::gateway
