// One accepted connection: reads requests, hands each to the service as an exchange, writes the answers. Internal to http/.
// Loop thread only.
//
// Reading, answering and closing are three small state machines on one object. One read is outstanding whenever there is
// room for its bytes, also while a handler works: that is how a client's leaving is noticed in every state. One write is
// outstanding at most; what is written meanwhile collects in a second buffer and leaves in one send when the first is gone.
// Calls that a service makes from its own callbacks only record what to do; the turn task does it, so that no callback comes
// from inside a method and a responder is never destroyed under its own feet.
#pragma once

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_budget.hpp"
#include "base/loop.hpp"
#include "http/connector.hpp"
#include "http/decoder.hpp"
#include "http/head.hpp"
#include "http/server.hpp"
#include "http/tls_server.hpp"

namespace hive::http {

class connection;

// What the connections of one server share. Outlived by none: the server closes them all in its destructor.
struct server_core {
  server_core(loop &l, service &s, const server_limits &given) : home(l), handler(s), limits(given) {}
  loop &home;
  service &handler;
  server_limits limits;
  server_counters counters;
  std::shared_ptr<const tls_identity> tls;  // of the next connection
  detail::hook_list connections;
  size_t busy = 0;
  bool draining = false;
  // Buffers of answers are lent: a connection that waits for a request has none.
  void lend(std::string &to) {
    if (to.capacity() > std::string().capacity() || spare.empty()) return;
    to = std::move(spare.back());
    spare.pop_back();
  }
  void take_back(std::string &from) {
    std::string buffer = std::exchange(from, std::string());
    if (buffer.capacity() < least_spare || spare.size() == most_spare) return;
    buffer.clear();
    spare.push_back(std::move(buffer));
  }
  static constexpr size_t most_spare = 64, least_spare = 256;
  std::vector<std::string> spare;   // each at most kept_write_buffer
  // "Date: ...\r\n" of the current second.
  std::string_view date_line();
  void (*on_closed)(server_core &) = nullptr;
  void *owner = nullptr;  // the server, for on_closed

 private:
  int64_t date_second_ = -1;
  std::string date_;
};

class connection final : public exchange, private detail::hook {
 public:
  // `counted`: the address has been entered into the server's peer_limit.
  connection(server_core &, loop_socket, std::string client_address, bool counted = false);
  ~connection();
  void start();
  void close_if_idle();
  void shut(gone why);            // ends everything now; the responder learns why
  static connection &from(detail::hook &h) { return static_cast<connection &>(h); }

  // exchange
  const request_head &head() const override { return parser_.head(); }
  std::string_view client_address() const override { return client_address_; }
  uint64_t arrived_ns() const override { return arrived_ns_; }
  void serve(std::unique_ptr<responder>) override;
  void read_body(uint64_t limit, bool sheds) override;
  void add_fields(std::string_view lines) override { added_fields_ += lines; }
  void respond(const response_head &, std::string_view body) override;
  void begin(const response_head &, framing) override;
  void write(std::string_view bytes) override;
  void end() override;
  void abort() override;
  void drop() override;
  void fail() override { guard_exception(); }
  size_t unwritten() const override { return pending_payload_ + sending_payload_ - reported_payload_; }

 private:
  friend void intrusive_ptr_add_ref(connection *c) { ++c->references_; }
  friend void intrusive_ptr_release(connection *c) {
    if (--c->references_ == 0) delete c;
  }
  using self_ptr = boost::intrusive_ptr<connection>;

  enum class input { secure, head, held, body, done, linger, closed };   // secure: TLS's handshake; held: a body nobody has asked for
  enum class output { none, streaming, ended };

  struct turn final : turn_task {
    explicit turn(connection &c) : owner(c) {}
    void on_turn_end() override { self_ptr(&owner)->on_turn(); }
    connection &owner;
  };
  template <void (connection::*member)()>
  struct timer final : loop_timer {
    explicit timer(connection &c) : owner(c) {}
    void on_timer() override { (self_ptr(&owner).get()->*member)(); }
    connection &owner;
  };
  struct read_done;
  struct write_done;
  template <class F>
  struct socket_ready;
  template <class F>
  void when(tls_step wanted, F then);   // calls it when the socket is ready for that

  // connection.cpp: reading
  void read_more();
  void read_into(char *at, size_t size);
  void on_read(const boost::system::error_code &, size_t n);
  void on_input_end(gone why);
  void process();
  bool take_head();
  bool take_body();
  void finish_body();
  bool count_body();              // false: the program holds too much
  void body_failed(body_error);
  void let_go_of_body();
  void refuse(int status, std::string_view what);
  void deliver_failure();
  void on_turn();
  void next_request();
  void on_read_timer();
  void await_input(uint64_t deadline_ns);
  uint64_t body_deadline_ns() const;
  void begin_body();
  size_t buffered() const { return in_end_ - in_begin_; }
  void guard_exception();

  // connection_answer.cpp: writing and closing
  void write_head(const response_head &, bool chunked, const size_t *content_length);
  bool body_can_be_discarded() const;
  void finish_answer();
  void flush();
  void send_rest();
  void settle_sent();             // may close
  void on_written(const boost::system::error_code &, size_t n);
  void after_flush();
  void on_write_timer();
  void watch_write();              // the socket has taken bytes, and there are more
  uint64_t write_look_ns() const { return core_->limits.write_stall_timeout_ns / 4; }
  void start_linger();

  // connection_tls.cpp: the same over TLS
  void secure();
  void on_plain_http();
  void read_secured(char *at, size_t size);
  void wait_to_read(char *at, size_t size, tls_step wanted);
  void send_secured();
  void wait_to_send(tls_step wanted);
  bool said_goodbye();             // else it is under way, and after_flush() comes again
  void on_goodbye_ready();

  void close() { shut(gone::failed); }
  // Pipelined requests wait, because their client does not take the answers that are there.
  bool held_back() const { return input_ == input::head && writing_ && out_.size() >= max_unsent && buffered() > 0; }
  void count_busy();
  void return_buffers();          // if it waits for a request
  void count_bytes() { claim_.set(allocated(out_) + allocated(sending_) + std::max(in_.size(), small_buffer) - small_buffer); }
  bool idle() const { return input_ == input::head && !serving_ && output_ == output::none; }

  static size_t allocated(const std::string &s) { return s.capacity() > std::string().capacity() ? s.capacity() : 0; }

  static constexpr size_t small_buffer = 4 * 1024;    // of an idle connection; grown while there is more to read
  static constexpr size_t kept_head = 1024;           // of the last request, while idle
  static constexpr size_t large_buffer = 16 * 1024;
  static constexpr size_t max_ahead = 64 * 1024;      // pipelined bytes held while a handler works
  static constexpr size_t max_unsent = 64 * 1024;     // of answers behind the send under way; beyond, no further request is taken up
  static constexpr size_t most_reserved = 16 * 1024 * 1024;  // of a body, before it comes
  static constexpr size_t body_step = 64 * 1024;      // a body's memory is committed at most this far ahead of its bytes
  static constexpr uint64_t drain_bytes = 256 * 1024; // of an unread body, to keep a connection
  static constexpr uint64_t linger_bytes = 32ull << 20;

  server_core *core_;
  loop_socket socket_;
  std::unique_ptr<tls_channel> tls_;   // null: plain
  std::string client_address_;
  std::string added_fields_;      // to the answer of the current request
  long references_ = 0;

  input input_ = input::head;
  std::string in_;                // storage; bytes in [in_begin_, in_end_) are unread
  size_t in_begin_ = 0, in_end_ = 0;
  size_t head_searched_ = 0;
  uint64_t head_began_ns_ = 0;
  const bool counted_;            // in the server's peer_limit
  bool cut_ = false;              // the answer was aborted: its end must not look like one
  uint32_t requests_ = 0;
  bool reading_ = false;
  bool reading_into_body_ = false;
  bool input_ended_ = false;      // the client shut down its side and that is allowed
  bool processing_ = false;
  request_head_parser parser_;
  body_decoder decoder_;
  std::shared_ptr<std::string> body_;
  byte_claim *body_claim_ = nullptr;  // stands beside body_
  uint64_t body_limit_ = 0;
  bool body_sheds_ = false;
  size_t body_size_ = 0;          // received; body_ may be longer while a read is under way
  uint64_t body_began_ns_ = 0, body_wire_bytes_ = 0;
  bool want_failure_ = false;
  body_error failure_ = body_error::malformed;
  bool dropped_ = false;          // drop() was called
  bool discard_body_ = false;     // answered before the body was asked for, and it is short
  uint64_t lingered_ = 0;
  uint64_t read_deadline_ = never_ns;

  bool serving_ = false;
  bool busy_ = false;             // serving, or an answer is not yet with the socket
  uint64_t arrived_ns_ = 0;
  std::unique_ptr<responder> responder_;

  output output_ = output::none;
  bool close_after_ = false;
  bool chunked_ = false;
  bool suppress_body_ = false;    // HEAD, 204, 304
  bool continue_sent_ = false;
  std::string out_, sending_;
  size_t sent_ = 0;
  size_t pending_payload_ = 0;    // in out_
  size_t sending_payload_ = 0;    // in sending_
  size_t reported_payload_ = 0;   // of sending_payload_
  bool writing_ = false;
  size_t sent_at_once_ = 0;       // went without waiting and is not settled yet
  uint64_t write_deadline_ = never_ns;
  int unacknowledged_ = 0;        // bytes in the kernel's queue at the last look; 0 = not looked since the socket took some
  byte_claim claim_;              // on the buffers

  turn turn_{*this};
  timer<&connection::on_read_timer> read_timer_{*this};
  timer<&connection::on_write_timer> write_timer_{*this};
};

}  // namespace hive::http
