#include <boost/asio/buffer.hpp>
#include <charconv>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <utility>

#include "base/text.hpp"
#include "http/connection.hpp"
#include "http/peer_limit.hpp"
#include "http/token.hpp"

namespace hive::http {

namespace {

// Clients of the Go product see names in canonical case; letters that are upper case already stay so (X-RateLimit-...).
void append_name(std::string &out, std::string_view name) {
  size_t at = out.size();
  out += name;
  for (bool word = true; at < out.size(); ++at) {
    const char c = out[at];
    if (word && c >= 'a' && c <= 'z') out[at] = static_cast<char>(c - 32);
    word = c == '-';
  }
}

void append_number(std::string &out, uint64_t n, int base = 10) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, n, base).ptr;
  out.append(digits, static_cast<size_t>(end - digits));
}

// The server writes these itself; a second one would be a smuggling shape.
bool written_by_the_server(std::string_view name) {
  switch (name.size()) {
    case 4: return iequals(name, "date");
    case 10: return iequals(name, "connection") || iequals(name, "keep-alive");
    case 14: return iequals(name, "content-length");
    case 17: return iequals(name, "transfer-encoding");
    default: return false;
  }
}

constexpr size_t kept_write_buffer = 16 * 1024;

}  // namespace

struct connection::write_done {
  self_ptr self;
  void operator()(const boost::system::error_code &error, size_t n) {
    try {
      self->on_written(error, n);
    } catch (...) {
      self->guard_exception();
      throw;  // the loop reports it
    }
  }
};

void connection::write_head(const response_head &answer, bool chunked, const size_t *content_length) {
  core_->lend(out_);
  out_ += "HTTP/1.1 ";
  append_number(out_, static_cast<uint64_t>(answer.status));
  out_ += ' ';
  out_ += reason_of(answer.status);
  out_ += "\r\n";
  for (const field &f : answer.fields) {
    if (!is_token(f.name) || written_by_the_server(f.name)) continue;
    append_name(out_, f.name);
    out_ += ": ";
    append_field_value(out_, f.value);
    out_ += "\r\n";
  }
  out_ += added_fields_;
  out_ += core_->date_line();
  if (content_length != nullptr) {
    out_ += "Content-Length: ";
    append_number(out_, *content_length);
    out_ += "\r\n";
  } else if (chunked) {
    out_ += "Transfer-Encoding: chunked\r\n";
  }
  if (close_after_) {
    out_ += "Connection: close\r\n";
  } else if (parser_.head().version < 11) {
    out_ += "Connection: keep-alive\r\n";
  }
  out_ += "\r\n";
}

// A short rest of a body may be read and dropped to keep the connection. A client that still waits for 100 may or may not
// send it, so that connection has to end.
bool connection::body_can_be_discarded() const {
  return decoder_.is_length() && !decoder_.failed() && decoder_.remaining() <= drain_bytes && !want_failure_ &&
         !(parser_.head().expect_continue && !continue_sent_);
}

void connection::respond(const response_head &answer, std::string_view body) {
  if (input_ == input::closed || output_ != output::none) return;
  if (input_ != input::done && !body_can_be_discarded()) close_after_ = true;
  const bool bodiless = answer.status == 204 || answer.status == 304 || answer.status < 200;
  const size_t length = body.size();
  write_head(answer, false, bodiless ? nullptr : &length);
  if (!bodiless && !suppress_body_) {
    out_ += body;
    pending_payload_ += body.size();
  }
  finish_answer();
}

void connection::begin(const response_head &answer, framing how) {
  if (input_ == input::closed || output_ != output::none) return;
  if (input_ == input::held && !body_can_be_discarded()) close_after_ = true;
  chunked_ = how == framing::chunked && parser_.head().version >= 11;
  const bool bodiless = answer.status == 204 || answer.status == 304;
  if (!chunked_ && !bodiless) close_after_ = true;
  output_ = output::streaming;
  write_head(answer, chunked_ && !bodiless, nullptr);
  suppress_body_ = suppress_body_ || bodiless;
  core_->home.at_turn_end(turn_);
}

void connection::write(std::string_view bytes) {
  if (output_ != output::streaming || bytes.empty() || suppress_body_) return;
  if (chunked_) {
    append_number(out_, bytes.size(), 16);
    out_ += "\r\n";
    out_ += bytes;
    out_ += "\r\n";
  } else {
    out_ += bytes;
  }
  pending_payload_ += bytes.size();
  count_bytes();
  core_->home.at_turn_end(turn_);
}

void connection::end() {
  if (output_ != output::streaming) return;
  if (chunked_ && !suppress_body_) out_ += "0\r\n\r\n";
  finish_answer();
}

void connection::abort() {
  if (input_ == input::closed || output_ == output::ended) return;
  close_after_ = cut_ = true;
  finish_answer();
}

void connection::finish_answer() {
  output_ = output::ended;
  serving_ = false;
  if (!close_after_ && input_ != input::done) {
    if (body_can_be_discarded()) {
      input_ = input::body;
      discard_body_ = true;
      await_input(now_ns() + core_->limits.linger_ns);
      let_go_of_body();
    } else {
      close_after_ = true;
    }
  }
  core_->home.at_turn_end(turn_);
  flush();
  count_bytes();
  count_busy();
}

void connection::drop() {
  if (input_ == input::closed) return;
  dropped_ = true;
  core_->home.at_turn_end(turn_);
}

void connection::flush() {
  if (writing_ || out_.empty() || input_ == input::closed) return;
  sending_.swap(out_);
  out_.clear();
  sent_ = 0;
  sending_payload_ = std::exchange(pending_payload_, 0);
  reported_payload_ = 0;
  writing_ = true;
  send_rest();
}

// Most answers fit the socket's buffer: what goes at once needs neither a completion nor a look at the sockets in between, and is
// settled in the turn, where nobody who wrote is still on the stack.
void connection::send_rest() {
  if (tls_ != nullptr) return send_secured();
  boost::system::error_code error;
  const size_t n = socket_.write_some(boost::asio::buffer(sending_.data() + sent_, sending_.size() - sent_), error);
  if (!error && sent_ + n == sending_.size()) {
    sent_at_once_ = n;
    return core_->home.at_turn_end(turn_);
  }
  if (!error) sent_ += n;
  watch_write();
  // An error is met again there.
  socket_.async_write_some(boost::asio::buffer(sending_.data() + sent_, sending_.size() - sent_), write_done{self_ptr(this)});
}

void connection::settle_sent() {
  while (sent_at_once_ > 0 && input_ != input::closed) on_written({}, std::exchange(sent_at_once_, 0));
}

void connection::on_written(const boost::system::error_code &error, size_t n) {
  if (input_ == input::closed) return;
  if (error) {
    const bool left = error == boost::asio::error::broken_pipe || error == boost::asio::error::connection_reset;
    return shut(left ? gone::client_left : gone::failed);
  }
  sent_ += n;
  // Framing and payload share the buffer: progress inside it is counted in proportion, its end exactly.
  const bool all = sent_ == sending_.size();
  const auto taken = all ? sending_payload_
                         : static_cast<size_t>(static_cast<double>(sending_payload_) * static_cast<double>(sent_) /
                                               static_cast<double>(sending_.size()));
  const size_t news = taken > reported_payload_ ? taken - reported_payload_ : 0;
  reported_payload_ += news;
  if (all) {
    if (sending_.capacity() > kept_write_buffer) sending_ = {};
    sending_.clear();
    sending_payload_ = reported_payload_ = 0;
    writing_ = false;
    count_bytes();
  } else {
    send_rest();
  }
  if (news > 0 && serving_ && responder_) responder_->on_written(news);
  if (writing_ || input_ == input::closed) return;
  if (!out_.empty()) {
    flush();
  } else {
    after_flush();
    count_busy();
    return_buffers();
  }
  if (input_ == input::head && buffered() > 0) core_->home.at_turn_end(turn_);  // it may have been held back
}

void connection::count_busy() {
  const bool now = input_ != input::closed && (serving_ || writing_ || !out_.empty());
  if (now == busy_) return;
  busy_ = now;
  if (now) ++core_->busy;
  else --core_->busy;
}

void connection::return_buffers() {
  if (idle() && buffered() == 0 && !writing_ && out_.empty()) {
    core_->take_back(out_);
    core_->take_back(sending_);
  }
  count_bytes();
}

void connection::after_flush() {
  if (!close_after_ || output_ == output::streaming || serving_ || !said_goodbye()) return;
  if (input_ != input::done || buffered() > 0) {
    start_linger();
  } else {
    close();
  }
}

void connection::watch_write() {
  const uint64_t now = now_ns();
  write_deadline_ = now + core_->limits.write_stall_timeout_ns;
  unacknowledged_ = 0;
  if (!write_timer_.armed()) core_->home.arm(write_timer_, now + write_look_ns());
}

// The socket says that it can be written to only when much of the kernel's buffer is free, which a slow reader may need minutes
// for: so what the client has acknowledged is looked at, too.
void connection::on_write_timer() {
  if (!writing_ || sent_at_once_ > 0 || input_ == input::closed) return;  // what has gone already waits for its turn only
  const uint64_t now = now_ns();
  int queued = 0;
  if (::ioctl(socket_.native_handle(), SIOCOUTQ, &queued) == 0) {
    if (queued < unacknowledged_) write_deadline_ = now + core_->limits.write_stall_timeout_ns;
    unacknowledged_ = queued;
  }
  if (now >= write_deadline_) return shut(gone::client_slow);
  core_->home.arm(write_timer_, std::min(write_deadline_, now + write_look_ns()));
}

// Closing with unread bytes in the kernel would reset the connection and may take the answer with it: read on for a while.
void connection::start_linger() {
  if (input_ == input::linger) return;
  if (input_ended_) return close();
  boost::system::error_code ignored;
  socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
  input_ = input::linger;
  in_begin_ = in_end_ = 0;
  await_input(now_ns() + core_->limits.linger_ns);
  let_go_of_body();
  read_more();
}

void connection::shut(gone why) {
  if (input_ == input::closed) return;
  const self_ptr last_hold(this, false);  // the reference of being open
  if (tls_ != nullptr && !cut_ && !serving_ && output_ != output::streaming && !writing_ && out_.empty()) tls_->say_goodbye();  // if it fits
  input_ = input::closed;
  read_timer_.disarm();
  write_timer_.disarm();
  boost::system::error_code ignored;
  socket_.close(ignored);
  detail::hook::unlink();
  --core_->counters.open;
  if (counted_) core_->limits.peers->leave(client_address_);
  const std::unique_ptr<responder> told = std::move(responder_);
  const bool was_serving = std::exchange(serving_, false);
  count_busy();
  if (was_serving && why == gone::client_left) ++core_->counters.client_gone;
  if (why == gone::client_slow) ++core_->counters.client_slow;  // also one whose answer was complete here
  core_->on_closed(*core_);
  if (was_serving && told) told->on_gone(why);
}

void connection::close_if_idle() {
  if (input_ == input::secure || (idle() && buffered() == 0 && !writing_ && out_.empty())) close();
}

}  // namespace hive::http
