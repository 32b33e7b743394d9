// What the requests of one worker work with: the options of the client side, and the parts of the process that they share. Filled before
// the first request and only read afterwards; each part says itself which threads may call it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/byte_budget.hpp"
#include "base/clock.hpp"
#include "base/loop.hpp"
#include "config/client_routes.hpp"
#include "gateway/forward_line.hpp"
#include "gateway/model_names.hpp"
#include "gateway/request_scan.hpp"
#include "gateway/telemetry.hpp"
#include "gateway/trusted_proxies.hpp"
#include "http/server.hpp"
#include "link/router_hub.hpp"
#include "providers/calls.hpp"
#include "routing/router.hpp"
#include "tenancy/admission_control.hpp"
#include "tenancy/quota.hpp"
#include "tenancy/token_estimator.hpp"

namespace hive::gateway {

class auth_throttle;
class models_view;

struct gateway_options {
  uint64_t max_body_bytes = 10'485'760;          // 0 = no limit
  uint64_t request_timeout_ns = 60 * ns_per_s;   // one deadline over everything
  uint64_t stream_timeout_ns = 0;                // replaces it after HEAD; 0 = off
  size_t buffered_answer_bytes = 1 << 20;        // an answer up to here is held, so that a lost link can be retried
  size_t held_stream_bytes = 64 * 1024;          // a stream is committed at the latest when so much waits for content
  size_t error_body_bytes = 64 * 1024;
  bool ask_usage = true;                         // of streams whose client did not
  std::vector<config::allowed_route> extra_routes;
  uint64_t sse_keepalive_ns = 0;                 // a silent stream gets a comment line after this; 0 = never
  std::vector<std::string> cors_origins;         // of browsers' pages; empty = none
  const model_names *names = nullptr;            // aliases; null: none
  bool expose_routing = false;                   // answers say who served them
  bool admin_apart = false;                      // /admin has a listener of its own
  size_t short_stream_bytes = 64 * 1024;         // what one answer may hold while the byte budget is exceeded
  bool operator==(const gateway_options &) const = default;
};

// The relays of one worker, in the order in which they began.
struct relay_list : detail::hook_list {};

// What a relay works with; all of it outlives every request of the worker.
struct worker_context {
  loop &home;
  link::router_hub *hub;                   // null: no agent can connect
  routing::router &router;
  forward_line &forwards;
  telemetry &records;
  stage_gauges &stages;
  const gateway_options &options;
  const trusted_proxies &proxies;
  byte_share *memory = nullptr;            // null: nothing is counted or refused for want of it
  providers::provider_calls *providers = nullptr;  // null: no policy can name one
  request_scanner *scanner = nullptr;      // the worker's parser; set by the worker, as is what follows
  relay_list *live = nullptr;
  const models_view *models = nullptr;
  auth_throttle *throttle = nullptr;       // null: nobody is held back; of all workers
  tenancy::admission_control *admission = nullptr;  // null: everybody is let in
  tenancy::token_estimator *tokens = nullptr;       // null: nothing is learned
  tenancy::quota_book *quotas = nullptr;            // null: no key has limits
};

inline std::string client_of(const worker_context &c, const http::exchange &e) {
  return c.proxies.client_of(e.client_address(), e.head().fields);
}

}  // namespace hive::gateway
