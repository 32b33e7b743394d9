// The client's two moving parts: a connection to the origin (carries one call at a time, or waits in the pool) and a call.
// Internal to http/. Loop thread only.
#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "http/client.hpp"
#include "http/connector.hpp"
#include "http/decoder.hpp"
#include "http/head.hpp"
#include "http/tls.hpp"

namespace hive::http {

class running_call;
class origin_connection;
using connection_ptr = boost::intrusive_ptr<origin_connection>;

class client::impl : public std::enable_shared_from_this<client::impl> {
 public:
  impl(loop &, origin, const client_options &);
  connection_ptr take_kept();
  void keep(const connection_ptr &);
  void on_kept_closed(origin_connection &, bool orderly);
  void shut();
  void retire();

  loop &home;
  const origin to;
  const std::string host_value;  // of the Host field
  const client_options options;
  uint64_t idle_limit_ns;
  size_t open = 0;
  bool gone = false;             // the client was destroyed; nothing is kept any more
  std::vector<connection_ptr> kept;  // oldest first

 private:
  struct retire_timer final : loop_timer {
    explicit retire_timer(impl &i) : owner(i) {}
    void on_timer() override { owner.retire(); }
    impl &owner;
  };
  uint64_t early_close_ns_ = 0;  // age of the last kept connection that the origin closed before its time
  retire_timer retire_timer_{*this};
};

// One read is outstanding whenever somebody can use its news: a call, or the pool, which learns of a close by it.
class origin_connection final : private tls_events {
 public:
  origin_connection(std::shared_ptr<client::impl>, loop_socket);
  ~origin_connection();
  void secure();  // of an https origin, before anything else; running_call::on_secured follows
  void read_more(size_t limit);  // grows the buffer up to `limit` when it is full
  // Bytes that went at once; the others follow, and on_written tells of them.
  size_t write(std::string_view bytes);
  void close();

  running_call *carries = nullptr;
  uint32_t calls = 0;
  uint64_t kept_since_ns = 0;
  bool closed = false;
  bool reading = false;
  std::string in;                // bytes in [begin, end) are unread
  size_t begin = 0, end = 0;

 private:
  friend void intrusive_ptr_add_ref(origin_connection *c) { ++c->references_; }
  friend void intrusive_ptr_release(origin_connection *c) {
    if (--c->references_ == 0) delete c;
  }
  struct read_done;
  struct write_done;
  void on_secured(const boost::system::error_code &, std::string why) override;
  void on_tls_read(const boost::system::error_code &, size_t n) override;
  void on_tls_written(const boost::system::error_code &, size_t n) override;
  void add_reference() override { ++references_; }
  void drop_reference() override { intrusive_ptr_release(this); }

  std::shared_ptr<client::impl> owner_;
  loop_socket socket_;
  std::unique_ptr<tls_session> tls_;   // null: plain
  long references_ = 0;
};

class running_call final : public call, private connect_events, private turn_task, private loop_timer {
 public:
  running_call(std::shared_ptr<client::impl>, call_request, call_events &);
  ~running_call() override;

  void body(std::string_view bytes) override;
  void pause() override { paused_ = true; }
  void resume() override;

  // from the connection
  void on_secured(const boost::system::error_code &, std::string why);
  void on_read(const boost::system::error_code &, size_t n);
  void on_written(const boost::system::error_code &, size_t n);
  void on_thrown();

 private:
  void on_connected(loop_socket) override;
  void on_connect_failed(bool timed_out, std::string why) override;
  void on_turn_end() override;
  void on_timer() override;

  void connect();
  static void let_go(connection_ptr &);
  void attach(connection_ptr, bool reused);
  void send_some();
  void count_sent(size_t n);
  bool tell_sent();               // false: the call is gone
  void process();
  bool take_head();
  uint64_t body_cap() const;
  void start_body();
  void retry();
  void finish();
  void fail(bool timed_out, std::string why);
  void rearm();
  template <class F>
  bool tell(F &&f);  // false when the call was destroyed by it

  std::shared_ptr<client::impl> client_;
  call_request request_;
  call_events &events_;
  bool *destroyed_ = nullptr;    // set while an event runs
  bool over_ = false;
  call_phase phase_ = call_phase::connecting;
  boost::intrusive_ptr<connector> connector_;
  connection_ptr connection_;
  bool reused_ = false;
  connection_ptr securing_;           // in its handshake, until secure_by_ns_
  uint64_t secure_by_ns_ = never_ns;

  // The request: head in the first piece. Written pieces stay for a retry until the first byte of the answer.
  std::deque<std::string> pieces_;
  size_t head_size_ = 0;
  size_t piece_ = 0, offset_ = 0;  // next byte to write
  uint64_t written_ = 0;           // on this connection, head included
  uint64_t body_given_ = 0, body_reported_ = 0;
  bool writing_ = false, write_broken_ = false, any_sent_ = false;

  // The answer.
  bool received_any_ = false, head_done_ = false, paused_ = false;
  size_t searched_ = 0;
  answer_head_parser parser_;
  body_decoder decoder_;
  uint64_t last_read_ns_ = 0;
};

}  // namespace hive::http
