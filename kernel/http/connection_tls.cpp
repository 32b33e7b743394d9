// A connection with TLS. Its states are those of a plain one; what differs is how its buffers are filled and emptied, and that its
// end is said before the socket's.
#include <boost/asio/post.hpp>
#include <utility>

#include "http/connection.hpp"

namespace hive::http {

namespace {

boost::system::error_code error_of(tls_step step) {
  switch (step) {
    case tls_step::ended: return boost::asio::error::eof;
    case tls_step::reset: return boost::asio::error::connection_reset;
    case tls_step::failed: return boost::asio::error::fault;
    default: return {};
  }
}

bool waits(tls_step step) { return step == tls_step::wants_read || step == tls_step::wants_write; }

}  // namespace

template <class F>
struct connection::socket_ready {
  self_ptr self;
  F then;
  void operator()(const boost::system::error_code & = {}) {
    if (self->input_ == input::closed) return;  // any other error is met again by the call itself
    try {
      then(*self);
    } catch (...) {
      self->guard_exception();
      throw;  // the loop reports it
    }
  }
};

template <class F>
void connection::when(tls_step wanted, F then) {
  using socket = boost::asio::socket_base;
  socket_.async_wait(wanted == tls_step::wants_write ? socket::wait_write : socket::wait_read, socket_ready<F>{self_ptr(this), then});
}

void connection::secure() {
  if (input_ != input::secure) return;
  const tls_progress p = tls_->handshake();
  if (waits(p.step)) return when(p.step, [](connection &c) { c.secure(); });
  if (p.step != tls_step::done) {
    ++core_->counters.handshakes_failed;
    if (tls_->met_plain_http()) return on_plain_http();
    if (p.step != tls_step::failed) return close();
    return start_linger();  // or a reset might take OpenSSL's alert with it, which says why
  }
  ++core_->counters.handshakes;
  input_ = input::head;
  await_input(now_ns() + core_->limits.idle_timeout_ns);
  read_more();
}

// Whoever forgot the s in https is told so, in the clear.
void connection::on_plain_http() {
  tls_.reset();
  read_deadline_ = never_ns;
  refuse(400, "this port speaks TLS; write https:// instead of http://");
}

// Bytes that OpenSSL holds already make no socket readable.
void connection::read_secured(char *at, size_t size) {
  tls_progress p{tls_step::wants_read};
  if (tls_->has_bytes()) p = tls_->read(at, size);
  if (waits(p.step)) return wait_to_read(at, size, p.step);
  auto then = [p](connection &c) { c.on_read(error_of(p.step), p.bytes); };
  boost::asio::post(socket_.get_executor(), socket_ready<decltype(then)>{self_ptr(this), then});
}

// The wait arms the socket's readiness anew: bytes that were left in it end the wait at once.
void connection::wait_to_read(char *at, size_t size, tls_step wanted) {
  when(wanted, [at, size](connection &c) {
    if (c.input_ == input::linger) {
      c.reading_ = c.reading_into_body_ = false;
      c.body_ = nullptr;
      return c.read_more();
    }
    if (c.reading_into_body_ && (c.input_ != input::body || c.discard_body_)) return c.on_read(boost::asio::error::operation_aborted, 0);
    const tls_progress got = c.tls_->read(at, size);
    if (waits(got.step)) return c.wait_to_read(at, size, got.step);
    c.on_read(error_of(got.step), got.bytes);
  });
}

void connection::send_secured() {
  const tls_progress p = tls_->write({sending_.data() + sent_, sending_.size() - sent_});
  if (p.step == tls_step::done && sent_ + p.bytes == sending_.size()) {
    sent_at_once_ = p.bytes;
    return core_->home.at_turn_end(turn_);
  }
  sent_ += p.bytes;
  watch_write();
  wait_to_send(p.step == tls_step::wants_read ? p.step : tls_step::wants_write);
}

// A record that the socket takes nothing of is no progress of the client's.
void connection::wait_to_send(tls_step wanted) {
  when(wanted, [](connection &c) {
    const tls_progress p = c.tls_->write({c.sending_.data() + c.sent_, c.sending_.size() - c.sent_});
    if (waits(p.step) && p.bytes == 0) return c.wait_to_send(p.step);
    c.on_written(p.bytes > 0 ? boost::system::error_code() : error_of(p.step), p.bytes);
  });
}

bool connection::said_goodbye() {
  if (tls_ == nullptr || cut_ || tls_->say_goodbye().step == tls_step::done) return true;
  writing_ = true;
  watch_write();
  when(tls_step::wants_write, [](connection &c) { c.on_goodbye_ready(); });
  return false;
}

void connection::on_goodbye_ready() {
  if (tls_->say_goodbye().step != tls_step::done) return when(tls_step::wants_write, [](connection &c) { c.on_goodbye_ready(); });
  writing_ = false;
  after_flush();
  if (input_ != input::closed) count_busy();
}

}  // namespace hive::http
