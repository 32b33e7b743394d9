// A session: one client request on its way through the policy's steps. Opened on the policy snapshot of that moment, lives on
// one worker's loop, hands out one lease an attempt until the request is done or the chain is exhausted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.hpp"
#include "fleet/lease.hpp"
#include "hive/abi/views.h"
#include "routing/policy.hpp"

namespace hive::routing {

// What costs something to find out and only some components ask for: called once, when a session is opened whose policy has
// one that does (hive_component.needs). The answers live as long as the session.
class on_demand_facts {
 public:
  virtual std::span<const uint64_t> prefix_blocks() = 0;   // docs/abi/prefix-blocks.md
  virtual std::span<const hive_header> headers() = 0;      // lower-case names, no credentials

 protected:
  ~on_demand_facts() = default;
};

// What routing must know of a request. Views live as long as the session.
struct request_facts {
  std::string_view request_id;
  std::string_view model;
  std::string_view capability;     // llm, embedding, reranker, any
  std::string_view route;
  std::string_view tenant;
  std::string_view key_id;         // of the tenant's key; "" = none
  std::string_view session_id;
  int32_t priority = 0;
  bool streaming = false;
  bool generates = true;           // false: nothing is generated for it, as for a count of tokens
  std::span<const std::string_view> provider_engines;   // of fallback_provider: those that can answer this route
  uint64_t deadline_ns = 0;
  uint64_t prompt_tokens = HIVE_TOKENS_UNKNOWN;
  uint64_t output_tokens = HIVE_TOKENS_UNKNOWN;
  size_t body_bytes = 0;
  on_demand_facts *on_demand = nullptr;   // null: there are none
};

// The estimate of latency that it goes by and adds to.
fleet::request_kind kind_of(const request_facts &);

// As components see it, with what they need (HIVE_NEEDS_*); borrows from the facts.
hive_request request_of(const request_facts &, uint32_t needs);

// How an attempt ended, for the rules of docs/life-of-a-request.md.
enum class attempt_result {
  completed,        // answer relayed to its end
  terminal,         // the client's mistake: neutral for the agent, ends the session
  refused,          // busy, draining, open_timeout: free, another agent
  overloaded,       // its engine took no more, or was starting: nobody to blame and no try, but another agent costs a retry
  link_lost,        // before any content: first time per agent free, then charged
  retryable,        // engine failure: charged, agent joins the step's failed set
  broken,           // failed after content was relayed: counted, no retry
  cancelled,        // client gone: neutral
  timed_out,        // the request's deadline
};

struct attempt_report {
  attempt_result what = attempt_result::completed;
  uint64_t prompt_tokens = 0;
  uint64_t output_tokens = 0;
  bool exclude = false;            // refused: never this agent again in this request; else once more if there is nobody else
  bool had_its_time = true;        // timed_out: the agent had at least half of the request's time, so it is to blame
  uint64_t cached_tokens = HIVE_TOKENS_UNKNOWN;   // of the prompt, in the engine's cache
};

// The final word when nobody could serve: code of the error envelope and words for the client.
struct exhaustion {
  std::string code;                // model_not_found, no_agents_available, no_capacity, request_timeout
  std::string message;
  uint64_t retry_after_s = 0;
  const provider_choice *provider = nullptr;  // who is to be asked now; lives as long as the session. Null: it is final
  bool model_claimed = false;      // the policy lists the model by name, whether or not an agent has ever served it
};

class session_events {
 public:
  // A slot is held. Never from inside session::next.
  virtual void on_lease(fleet::lease, std::string_view step) = 0;
  virtual void on_exhausted(const exhaustion &) = 0;
  // The session waits in the capacity queue now, or keeps the pause before a retry: once a wait, however often it is woken for
  // nothing. Never from inside next.
  virtual void on_parked() {}

 protected:
  ~session_events() = default;
};

class session {
 public:
  virtual ~session() = default;         // leaves any line it waits in
  virtual void next() = 0;              // looks for the next agent; on_lease or on_exhausted follows
  // The agent answered, or failed after OPEN was sent: one latency sample, counted now (> 0), not at the stream's end.
  virtual void sample(double rtt_ms) = 0;
  virtual void first_content() = 0;     // FIRST_TOKEN to the instances; no retry from here on
  // Ends the attempt whose lease was handed out: counters, estimator, on_outcome(END), failed set, tries. Then call next()
  // for another agent or destroy the session.
  virtual void report(const attempt_report &) = 0;
  virtual uint32_t attempts() const = 0;
  virtual uint64_t queue_ns() const = 0;       // sum of waits in the capacity queue
  virtual std::string_view step() const = 0;
};

}  // namespace hive::routing
