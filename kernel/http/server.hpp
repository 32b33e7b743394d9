// The HTTP/1.1 server of one loop. Beast parses heads only; bodies go through our strict decoder (see decoder.hpp).
// Everything here belongs to the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/byte_budget.hpp"
#include "base/loop.hpp"
#include "base/status.hpp"
#include "base/tally.hpp"
#include "http/message.hpp"

namespace hive::http {

class peer_limit;     // in peer_limit.hpp
class tls_identity;   // in tls_server.hpp

struct server_limits {
  size_t max_header_bytes = 32 * 1024;               // 431 beyond
  uint64_t handshake_timeout_ns = 10 * ns_per_s;     // accepted to the end of its TLS handshake: closed
  uint64_t header_timeout_ns = 10 * ns_per_s;        // first byte of a head to its end: 408, close
  uint64_t idle_timeout_ns = 120 * ns_per_s;         // a kept connection with no request: closed
  uint64_t body_idle_timeout_ns = 30 * ns_per_s;     // between two reads of a body: 408, close
  uint64_t body_bytes_per_s = 0;                     // a body that is slower, a first body_idle_timeout apart: likewise; 0 = any speed
  uint64_t linger_ns = 5 * ns_per_s;                 // after an answer: all that is left of its body, or of what a client still sends
                                                     // on a connection that ends: closed
  uint64_t write_stall_timeout_ns = 60 * ns_per_s;   // unwritten bytes and the client takes none: gone (client_slow)
  size_t max_connections = 10'000;                   // accepting pauses beyond
  uint32_t max_requests = 0;                         // of one connection, which the last answer closes; 0 = any number
  peer_limit *peers = nullptr;                       // connections of one address, which outlives the server. Null: any number
  bool half_close_is_gone = true;                    // a client that shuts down its sending side has left
  byte_share *memory = nullptr;                      // counts bodies and unsent answers; outlives them. Null: not counted
};

enum class body_error { too_large, malformed, timed_out, over_budget };

enum class gone {
  client_left,   // FIN or RST
  client_slow,   // write_stall_timeout
  failed,        // any other socket error
  shutdown,      // the server is being destroyed
};

enum class framing { chunked, until_close };  // an HTTP/1.0 client always gets until_close

// What a service hangs on an exchange. Nothing is called after respond(), end() or abort(); it is destroyed at the end of that
// loop turn, or right after on_gone. An exception out of a call gives 500 (or a cut) and is thrown on to the loop.
class responder {
 public:
  virtual ~responder() = default;
  virtual void on_body(body_ptr) {}
  virtual void on_body_failed(body_error) {}    // must answer; the connection closes afterwards
  virtual void on_written(size_t /*payload*/) {}  // payload bytes that the socket took; a share of them
                                                  // is estimated until the send that holds them is complete
  virtual void on_gone(gone) {}                 // the last call; the exchange may not be touched in it or after it
  // An exception came out: 500 follows, or, of an answer that has begun, a cut. For whoever keeps a record of it; the exchange may not
  // be touched. Returns what to send as X-Request-ID; "" = nothing.
  virtual std::string on_thrown(bool /*begun*/) { return {}; }
};

// One request and its answer. Owned by its connection; valid until end(), abort() or on_gone.
class exchange {
 public:
  virtual const request_head &head() const = 0;
  virtual std::string_view client_address() const = 0;  // without port; IPv6 without brackets
  virtual uint64_t arrived_ns() const = 0;              // when the head was complete
  // Takes over the request. Must be called once from service::on_request.
  virtual void serve(std::unique_ptr<responder>) = 0;
  // Then, at most once: on_body or on_body_failed follows (never from inside this call). Sends 100 Continue if asked.
  // `sheds`: on_body_failed(over_budget) as soon as the body grows while the program holds more than its byte budget.
  virtual void read_body(uint64_t limit, bool sheds = false) = 0;

  // Fields that every answer to this request carries, also one of the server's own: whole lines, each with its CRLF. Copied.
  virtual void add_fields(std::string_view lines) = 0;

  // A whole answer; Content-Length is added. An unread body is drained for a bounded while or the connection closes.
  virtual void respond(const response_head &, std::string_view body) = 0;
  // Or a streamed one: begin, write..., then end (well-formed) or abort (the connection ends without a last chunk).
  virtual void begin(const response_head &, framing = framing::chunked) = 0;
  virtual void write(std::string_view bytes) = 0;  // copied; what one loop turn writes leaves in one send
  virtual void end() = 0;
  virtual void abort() = 0;
  virtual size_t unwritten() const = 0;            // payload bytes accepted and not yet taken by the socket
  // Gives the client up with what it has not taken, at the end of the turn: on_gone(client_slow) follows.
  virtual void drop() = 0;
  // An exception came out of the responder where no call of the exchange's had led: 500 or a cut, as if one had. on_thrown comes from
  // inside.
  virtual void fail() = 0;

 protected:
  ~exchange() = default;
};

class service {
 public:
  virtual void on_request(exchange &) = 0;
  // A head that never became a request (431, 400, 408, ...): the JSON body to send with that status.
  virtual std::string refusal_body(int status, std::string_view what) = 0;
  // Such a head was refused, for whoever keeps a record of it. `began_ns`: its first byte. Returns what to send as X-Request-ID; "" =
  // nothing.
  virtual std::string on_head_refused(int status, std::string_view client_address, uint64_t began_ns) {
    (void)status, (void)client_address, (void)began_ns;
    return {};
  }
  // The same as a responder's on_thrown, of an exception that came before there was one.
  virtual std::string on_thrown(exchange &) { return {}; }

 protected:
  ~service() = default;
};

// What a server counts. Its loop writes; any thread reads, each number by itself.
struct server_counters {
  tally accepted, open, requests;
  tally refused_heads;           // heads that never became a request
  tally client_gone, client_slow;
  tally accept_failures;         // EMFILE and the like; accepting rests 100 ms after each
  tally limit_reached;           // times accepting stopped because max_connections were open
  tally refused_address;         // connections shut at once because their address has as many as peer_limit lets it have
  tally handshakes, handshakes_failed, handshake_timeouts;  // of TLS; a failed one is of a client that cannot or may not
  tally idle_timeouts, header_timeouts, body_timeouts;
};

class server {
 public:
  server(loop &, service &, const server_limits &);
  ~server();  // ends every connection; responders get on_gone(shutdown)
  // Of connections accepted from now on; null = none.
  void use_tls(std::shared_ptr<const tls_identity>);
  // HOST:PORT, [IPv6]:PORT or :PORT (all addresses); port 0 = any. reuse_port lets several loops share the address.
  status listen(const std::string &address, bool reuse_port);
  std::string address() const;  // bound HOST:PORT
  uint16_t port() const;
  void stop_accepting();        // accepts what is queued, then closes the listener
  void drain();                 // from now on every answer closes its connection
  void close_idle();            // what waits for a request closes now
  size_t busy() const;          // connections with an exchange under way, or with an answer that the socket has not taken
  const server_counters &counters() const;  // any thread

 private:
  class impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace hive::http
