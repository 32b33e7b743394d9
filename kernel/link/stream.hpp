// One request's stream between router and agent, as the two ends see it. Everything belongs to the loop of its worker.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "http/message.hpp"

namespace hive::link {

// Why a stream ended before its time. The text forms are labels of metrics, audit and logs; the numbers travel: append only.
enum class cause : uint8_t {
  none = 0,
  // REFUSE: the agent never took it; no penalty, no try charged
  busy, draining, unknown_model, overloaded, starting,
  open_timeout,        // no ACCEPT, HEAD or REFUSE within the limit: this stream only, no try charged
  // RESET by the agent
  engine_unreachable,  // no byte reached the engine
  engine_cut,          // the engine's connection ended early
  engine_timeout,      // the agent's own limit
  agent_failed,        // anything else on its side
  // the link
  link_lost,
  protocol,            // seq gap, credit overrun, bad record
  // CANCEL by the router
  client_gone, client_slow, deadline, superseded, shutdown,
};
std::string_view to_string(cause c);
// The cause as it travels (its number); agent_failed for one this build does not know.
cause cause_from(uint32_t wire);

struct open_request {
  std::string_view method = "POST";
  std::string_view target;            // path and query for the engine
  std::string_view request_id;
  std::string_view model;
  std::string_view route;             // template
  bool streaming = false;             // the client asked for a stream; decides whether the agent holds the head back
  bool buffered_head = false;         // native chat, not streamed: HEAD only when the engine's body is complete
  uint64_t deadline_ns = 0;           // monotonic; travels as time left
  std::span<const http::field> fields; // for the engine: credentials and hop-by-hop already removed
  http::body_ptr body;
};

struct usage {
  uint64_t prompt_tokens = 0;
  uint64_t output_tokens = 0;
  std::optional<uint64_t> cached_tokens;  // of the prompt; not every engine tells
  bool known = false;
};

struct stream_head {
  int status = 200;
  std::span<const http::field> fields;  // borrowed for the call
  bool streaming = false;               // text/event-stream
  double rtt_ms = 0;                    // OPEN handed to the transport -> HEAD arrived
};

struct stream_failure {
  cause why = cause::none;
  std::string message;
  bool reached_engine = false;          // false: safe to send elsewhere whatever the request is
  double rtt_ms = 0;                    // 0 when OPEN was never handed over
  uint64_t retry_after_ms = 0;
};

// Router side. Exactly one of on_end, on_failed comes last, unless the stream object was destroyed before: then none. An exception out of
// one of them ends this stream and no other: on_thrown comes last then.
class stream_events {
 public:
  virtual void on_head(const stream_head &) = 0;
  virtual void on_data(std::string_view) = 0;    // borrowed for the call; give back with router_stream::consumed
  virtual void on_end(const usage &) = 0;
  virtual void on_failed(const stream_failure &) = 0;
  // One of the calls above threw, which is in the log: the agent hears that nobody wants the stream. The owner must still be there.
  virtual void on_thrown() {}
  // Asked when no credit went back for hub_options::write_timeout_ns. True: the client's socket is timed by what it takes, so
  // the stream stays and the agent hears that it does.
  virtual bool client_is_timed() const { return false; }

 protected:
  ~stream_events() = default;
};

// What must live until the agent has let go of the slot: destroyed when END, RESET or REFUSE has arrived or the link is
// lost, which may be after the stream object is gone (a cancelled stream keeps closing).
class held {
 public:
  virtual ~held() = default;
  // The agent's last record of a stream that was cancelled before: tokens for metrics and audit. Called at most once,
  // right before the destruction; must not open or cancel streams.
  virtual void late_usage(const usage &) {}
};

class router_stream {
 public:
  // Without a cancel before: CANCEL(superseded) unless the stream is over.
  virtual ~router_stream() = default;
  virtual void consumed(size_t bytes) = 0;  // written to the client: returns stream credit
  virtual void cancel(cause why) = 0;       // idempotent; no event follows
};

}  // namespace hive::link
