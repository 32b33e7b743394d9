// The HTTP/1.1 client of one loop with its pool of kept connections, one origin an instance. Used by an agent towards its
// engine and by a router towards a provider. Everything here belongs to the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.hpp"
#include "base/status.hpp"
#include "http/message.hpp"

namespace hive::http {

class tls_trust;  // in tls.hpp

struct client_options {
  uint64_t connect_timeout_ns = 3 * ns_per_s;       // over all addresses of the name (tried 250 ms apart)
  uint64_t idle_limit_ns = 4 * ns_per_s;            // kept connections are retired before the engine closes them
  uint32_t requests_per_connection = 0;             // 0 = no limit
  size_t max_kept = 64;
  size_t max_header_bytes = 64 * 1024;
  uint64_t max_answer_bytes = 64ull << 20;          // a cap on one answer's body; none on an event stream's; 0 = none
  std::shared_ptr<const tls_trust> trust;           // of an https origin; without one it is never reached
};

enum class call_phase { connecting, sending, waiting, answering };

struct call_failure {
  call_phase phase;
  bool timed_out;        // a limit of ours; else the other side
  bool bytes_sent;       // request bytes were handed to the socket
  std::string message;
};

// All of one call's news. Exactly one of on_end, on_failed comes last. None comes from inside a method of call.
class call_events {
 public:
  virtual void on_body_written(size_t) {}  // request body bytes the socket took
  virtual void on_head(const response_head &) = 0;  // 1xx are skipped
  virtual void on_data(std::string_view) = 0;       // body bytes, chunk framing removed, as one read brought them
  virtual void on_end() = 0;                        // the body is complete
  virtual void on_failed(const call_failure &) = 0;

 protected:
  ~call_events() = default;
};

struct call_request {
  std::string method = "POST";          // written as they are, so what comes from elsewhere must pass is_token and is_target
  std::string target;                   // path and query
  std::vector<field> fields;            // borrowed for the call of start(); Host, Content-Length, Connection are added, what has no
                                        // token for a name is left out
  uint64_t content_length = 0;          // body() must bring exactly that many bytes
  uint64_t first_byte_deadline_ns = never_ns;  // monotonic, until the head is complete
  uint64_t deadline_ns = never_ns;      // monotonic, over everything
  uint64_t read_idle_ns = 0;            // between two reads of the answer; 0 = none
};

// Destroying it ends the call at once: its connection is closed unless the answer was complete.
class call {
 public:
  virtual ~call() = default;
  virtual void body(std::string_view bytes) = 0;  // copied; kept until the first byte of the answer for a retry on a fresh
                                                  // connection when a kept one turns out dead (no byte received)
  virtual void pause() = 0;   // no more on_data until resume; the engine feels it
  virtual void resume() = 0;
};

struct origin {
  std::string host;     // name or literal, IPv6 without brackets
  uint16_t port = 80;
  std::string base;     // path prefix without trailing slash, "" usually
  bool tls = false;
};
// http://HOST[:PORT][/BASE], and https:// (port 443) where the caller can do it.
enum class schemes : uint8_t { http, http_and_https };
result<origin> parse_origin(std::string_view url, schemes = schemes::http);

class client {
 public:
  client(loop &, origin, const client_options &);
  ~client();
  std::unique_ptr<call> start(call_request, call_events &);
  // What options.idle_limit_ns has become: lower, once the origin has shown that it closes earlier.
  uint64_t idle_limit_ns() const;
  size_t kept() const;
  size_t open() const;

  class impl;  // in client_call.hpp

 private:
  std::shared_ptr<impl> impl_;
};

}  // namespace hive::http
