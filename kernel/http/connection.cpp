#include "http/connection.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>

#include "http/counted_body.hpp"

namespace hive::http {

struct connection::read_done {
  self_ptr self;
  void operator()(const boost::system::error_code &error, size_t n) {
    try {
      self->on_read(error, n);
    } catch (...) {
      self->guard_exception();
      throw;  // the loop reports it
    }
  }
};

connection::connection(server_core &core, loop_socket socket, std::string client_address, bool counted)
    : core_(&core), socket_(std::move(socket)), client_address_(std::move(client_address)), counted_(counted), claim_(core.limits.memory) {
  core.connections.push_back(*this);
  intrusive_ptr_add_ref(this);  // of being open; shut() gives it back
  ++core.counters.open;
}

connection::~connection() = default;

std::string_view server_core::date_line() {
  timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (now.tv_sec != date_second_) {
    date_second_ = now.tv_sec;
    static constexpr const char *days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static constexpr const char *months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                             "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    tm t;
    gmtime_r(&now.tv_sec, &t);
    char text[96];
    const int n = std::snprintf(text, sizeof text, "Date: %s, %02d %s %04d %02d:%02d:%02d GMT\r\n", days[t.tm_wday], t.tm_mday,
                                months[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
    date_.assign(text, static_cast<size_t>(n));
  }
  return date_;
}

void connection::start() {
  in_.resize(small_buffer);
  if (core_->tls) {
    tls_ = std::make_unique<tls_channel>(core_->tls, socket_.native_handle());
    input_ = input::secure;
    head_began_ns_ = now_ns();
    await_input(head_began_ns_ + core_->limits.handshake_timeout_ns);
    return secure();
  }
  await_input(now_ns() + core_->limits.idle_timeout_ns);
  read_more();
}

uint64_t connection::body_deadline_ns() const {
  const server_limits &limits = core_->limits;
  const uint64_t silent = now_ns() + limits.body_idle_timeout_ns;
  if (limits.body_bytes_per_s == 0) return silent;
  return std::min(silent, body_began_ns_ + limits.body_idle_timeout_ns + body_wire_bytes_ * ns_per_s / limits.body_bytes_per_s);
}

void connection::begin_body() {
  body_began_ns_ = now_ns();
  body_wire_bytes_ = 0;
}

// The timer is moved only when it would fire too late; a firing before the deadline re-arms it (see on_read_timer).
void connection::await_input(uint64_t deadline_ns) {
  read_deadline_ = deadline_ns;
  if (deadline_ns == never_ns) return;
  if (!read_timer_.armed() || read_timer_.due_ns() > deadline_ns) core_->home.arm(read_timer_, deadline_ns);
}

void connection::on_read_timer() {
  if (input_ == input::closed || read_deadline_ == never_ns) return;
  if (now_ns() < read_deadline_) {
    core_->home.arm(read_timer_, read_deadline_);
    return;
  }
  read_deadline_ = never_ns;
  if (input_ == input::head && (writing_ || !out_.empty())) {
    // The last answer is still on its way; whether it moves is the write timer's business.
    await_input(now_ns() + (buffered() > 0 ? core_->limits.header_timeout_ns : core_->limits.idle_timeout_ns));
    return;
  }
  try {
    if (input_ == input::secure) {
      ++core_->counters.handshake_timeouts;
      close();
    } else if (input_ == input::linger || discard_body_) {
      close();
    } else if (input_ == input::head && buffered() == 0) {
      ++core_->counters.idle_timeouts;
      close();
    } else if (input_ == input::head) {
      ++core_->counters.header_timeouts;
      refuse(408, "the request head was not complete in time");
    } else if (input_ == input::body) {
      ++core_->counters.body_timeouts;
      body_failed(body_error::timed_out);
      deliver_failure();
    }
  } catch (...) {
    guard_exception();
    throw;
  }
}

void connection::read_more() {
  if (reading_ || input_ended_ || input_ == input::closed) return;
  if (input_ == input::body && decoder_.is_length() && buffered() == 0 && !discard_body_) {
    const size_t want = static_cast<size_t>(std::min<uint64_t>(decoder_.remaining(), body_step));
    body_->resize(body_size_ + want);
    reading_into_body_ = true;
    return read_into(body_->data() + body_size_, want);
  }
  if (in_begin_ == in_end_) {
    in_begin_ = in_end_ = 0;
  } else if (in_begin_ > 0 && in_end_ == in_.size()) {
    std::memmove(in_.data(), in_.data() + in_begin_, buffered());
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  const bool bulk = input_ == input::body || input_ == input::linger;
  if (bulk && in_.size() < large_buffer) in_.resize(large_buffer);
  // Kept connections are many and mostly silent: what one request made large is given back.
  if (!bulk && buffered() == 0 && in_.size() > small_buffer) std::string(small_buffer, '\0').swap(in_);
  if (in_end_ == in_.size()) {
    // Enough ahead: reading goes on when the next request is taken up.
    if (in_.size() >= std::max(max_ahead, core_->limits.max_header_bytes)) return;
    in_.resize(in_.size() * 4);
  }
  count_bytes();
  read_into(in_.data() + in_end_, in_.size() - in_end_);
}

// What a lingering connection still sends is thrown away: it need not be decrypted for that.
void connection::read_into(char *at, size_t size) {
  reading_ = true;
  if (tls_ != nullptr && input_ != input::linger) return read_secured(at, size);
  socket_.async_read_some(boost::asio::buffer(at, size), read_done{self_ptr(this)});
}

void connection::on_read(const boost::system::error_code &error, size_t n) {
  reading_ = false;
  const bool into_body = std::exchange(reading_into_body_, false);
  if (input_ == input::closed) return;
  const bool taken_back = into_body && error == boost::asio::error::operation_aborted;
  if (taken_back || (into_body && input_ != input::body)) body_ = nullptr;  // see let_go_of_body
  if (taken_back) return on_read({}, 0);
  if (error == boost::asio::error::eof) return on_input_end(gone::client_left);
  if (error == boost::asio::error::connection_reset || error == boost::asio::error::broken_pipe) {
    shut(gone::client_left);
    return;
  }
  if (error) {
    shut(gone::failed);
    return;
  }
  if (input_ == input::linger) {
    lingered_ += n;
    in_begin_ = in_end_ = 0;
    if (lingered_ > linger_bytes) return close();
    return read_more();
  }
  if (input_ == input::body) body_wire_bytes_ += n;
  if (into_body && input_ == input::body) {
    decoder_.decode({body_->data() + body_size_, n});
    body_size_ += n;
    if (!discard_body_) await_input(body_deadline_ns());
    else body_ = nullptr;
    if (decoder_.done()) finish_body();
    else if (!discard_body_ && !count_body()) body_failed(body_error::over_budget);  // what is thrown away is nobody's to refuse
  } else if (!into_body) {  // else: the tail of a body that has failed already
    if (input_ == input::head && buffered() == 0) {
      head_began_ns_ = now_ns();
      await_input(head_began_ns_ + core_->limits.header_timeout_ns);
    }
    if (input_ == input::body && !discard_body_) await_input(body_deadline_ns());
    in_end_ += n;
  }
  process();
  if (!writing_ && !out_.empty()) core_->home.at_turn_end(turn_);
}

void connection::on_input_end(gone why) {
  input_ended_ = true;
  const bool patient = !core_->limits.half_close_is_gone && input_ != input::linger;
  if (patient && serving_ && input_ == input::done) return;
  if (patient && held_back()) return;
  if (patient && !serving_ && (writing_ || !out_.empty())) {
    close_after_ = true;  // the rest of the answer is still on its way
    return;
  }
  shut(why);
}

void connection::process() {
  if (processing_) return;
  const self_ptr keep(this);
  processing_ = true;
  bool progress = true;
  while (progress && input_ != input::closed) {
    progress = false;
    if (idle() && !held_back()) progress = take_head();
    else if (input_ == input::body) progress = take_body();
  }
  processing_ = false;
  deliver_failure();
  if (input_ended_ && idle() && !held_back()) {  // the client will send no more: the connection ends with what is still to be written
    output_ = output::ended;
    close_after_ = true;
    if (!writing_ && out_.empty()) close();
    return;
  }
  if (input_ != input::closed) read_more();
}

bool connection::take_head() {
  // An empty line before a request is forgiven (RFC 9112 section 2.2).
  while (buffered() >= 2 && in_[in_begin_] == '\r' && in_[in_begin_ + 1] == '\n') in_begin_ += 2;
  if (buffered() == 0) {
    if (core_->draining) close();
    return false;
  }
  const std::string_view bytes(in_.data() + in_begin_, buffered());
  const size_t length = find_head_end(bytes, head_searched_);
  if (length > core_->limits.max_header_bytes || (length == 0 && bytes.size() >= core_->limits.max_header_bytes)) {
    refuse(431, "the request head is longer than " + std::to_string(core_->limits.max_header_bytes) + " bytes");
    return false;
  }
  if (length == 0) return false;
  head_searched_ = 0;
  read_deadline_ = never_ns;
  if (const auto refusal = parser_.parse(bytes.substr(0, length))) {
    in_begin_ += length;
    refuse(refusal->status, refusal->what);
    return false;
  }
  in_begin_ += length;
  const request_head &h = parser_.head();
  arrived_ns_ = now_ns();
  const bool has_body = h.chunked || h.content_length.value_or(0) > 0;
  if (h.chunked) {
    decoder_.start_chunked(UINT64_MAX);
  } else {
    decoder_.start_length(h.content_length.value_or(0));
  }
  input_ = has_body ? input::held : input::done;
  const uint32_t most = core_->limits.max_requests;
  close_after_ = !h.keep_alive || core_->draining || (most != 0 && ++requests_ >= most);
  suppress_body_ = h.method == "HEAD";
  continue_sent_ = false;
  serving_ = true;
  count_busy();
  ++core_->counters.requests;
  core_->handler.on_request(*this);
  return true;
}

void connection::serve(std::unique_ptr<responder> r) { responder_ = std::move(r); }

void connection::read_body(uint64_t limit, bool sheds) {
  if (!serving_ || body_ || want_failure_) return;
  const request_head &h = parser_.head();
  body_limit_ = limit;
  body_sheds_ = sheds && core_->limits.memory != nullptr;
  body_size_ = 0;
  core_->home.at_turn_end(turn_);
  if (h.content_length.value_or(0) > limit) return body_failed(body_error::too_large);
  const auto counted = std::make_shared<counted_body>(core_->limits.memory);
  body_ = std::shared_ptr<std::string>(counted, &counted->bytes);
  body_claim_ = &counted->claim;
  // A number of the client's, which may have no bound: what is longer grows as it comes.
  body_->reserve(static_cast<size_t>(std::min<uint64_t>(h.content_length.value_or(0), most_reserved)) + body_padding);
  if (h.chunked) decoder_.start_chunked(limit);
  input_ = input::body;
  if (decoder_.done()) return;
  begin_body();
  await_input(body_deadline_ns());
  if (h.expect_continue && buffered() == 0 && !continue_sent_) {
    out_ += "HTTP/1.1 100 Continue\r\n\r\n";
    flush();
  }
  continue_sent_ = true;
}

bool connection::take_body() {
  if (!decoder_.done() && buffered() > 0) {
    const auto step = decoder_.decode({in_.data() + in_begin_, buffered()});
    in_begin_ += step.consumed;
    if (!discard_body_) {
      body_->resize(body_size_);
      body_->append(step.payload);
      body_size_ = body_->size();
    }
  }
  if (decoder_.failed()) {
    if (discard_body_) {
      close();
      return false;
    }
    body_failed(decoder_.now() == body_decoder::state::too_large ? body_error::too_large : body_error::malformed);
    return false;
  }
  if (decoder_.done()) {
    finish_body();
    return true;
  }
  if (!discard_body_ && !count_body()) body_failed(body_error::over_budget);
  return false;
}

bool connection::count_body() {
  body_claim_->set(body_size_);
  return !body_sheds_ || !core_->limits.memory->budget().over();
}

void connection::finish_body() {
  input_ = input::done;
  read_deadline_ = never_ns;
  if (std::exchange(discard_body_, false)) {
    body_ = nullptr;
    core_->home.at_turn_end(turn_);
    return;
  }
  body_->resize(body_size_);
  body_->reserve(body_size_ + body_padding);
  body_claim_->set(body_size_);
  body_ptr body = std::move(body_);
  body_ = nullptr;
  if (serving_ && responder_) responder_->on_body(std::move(body));  // who has answered is there until the turn ends
}

void connection::body_failed(body_error why) {
  want_failure_ = true;
  failure_ = why;
  close_after_ = true;
  if (input_ == input::body) input_ = input::held;
  read_deadline_ = never_ns;
  let_go_of_body();
}

// Nobody wants the body any more. A read into it may be under way, and wait for bytes for as long as the connection stays: it is taken
// back, and the body goes with its completion.
void connection::let_go_of_body() {
  if (!reading_into_body_) {
    if (input_ != input::body || discard_body_) body_ = nullptr;
    return;
  }
  boost::system::error_code ignored;
  if (!writing_) socket_.cancel(ignored);
}

void connection::deliver_failure() {
  if (!want_failure_ || processing_ || !serving_) return;
  want_failure_ = false;
  if (responder_) responder_->on_body_failed(failure_);
}

void connection::refuse(int status, std::string_view what) {
  ++core_->counters.refused_heads;
  close_after_ = true;
  input_ = input::held;  // nothing after a bad head can be trusted
  suppress_body_ = false;
  const std::string id = core_->handler.on_head_refused(status, client_address_, head_began_ns_);
  const field fields[] = {{"Content-Type", "application/json; charset=utf-8"}, {"X-Request-ID", id}};
  const std::string body = core_->handler.refusal_body(status, what);
  respond({status, std::span(fields, id.empty() ? 1 : 2)}, body);
}

// The end of a turn: what the service's calls asked for is done here, outside its callbacks.
void connection::on_turn() {
  if (input_ == input::closed) return;
  if (dropped_) return shut(gone::client_slow);
  try {
    settle_sent();
    flush();
    settle_sent();
    if (input_ == input::closed) return;
    if (output_ == output::ended) {
      next_request();
    } else {
      deliver_failure();
      process();
    }
  } catch (...) {
    guard_exception();
    throw;
  }
}

// The answer is complete in our buffers. The next request starts once this one has been read to its end.
void connection::next_request() {
  std::unique_ptr<responder> over = std::move(responder_);
  over.reset();
  if (input_ == input::closed) return;
  if (close_after_) {
    if (!writing_ && out_.empty()) after_flush();
    return;
  }
  if (input_ != input::done) return process();
  output_ = output::none;
  input_ = input::head;
  suppress_body_ = chunked_ = false;
  added_fields_.clear();  // a head that is refused has none
  if (buffered() == 0) parser_.release(kept_head);
  return_buffers();
  head_began_ns_ = now_ns();
  await_input(head_began_ns_ + (buffered() > 0 ? core_->limits.header_timeout_ns : core_->limits.idle_timeout_ns));
  process();
}

// A handler threw: its request ends with 500 when nothing has been sent, else with a cut.
void connection::guard_exception() {
  processing_ = false;
  if (input_ == input::closed || !serving_) return close();
  const bool begun = output_ != output::none;
  const std::string id = responder_ ? responder_->on_thrown(begun) : core_->handler.on_thrown(*this);
  if (begun) return abort();
  close_after_ = true;
  const field fields[] = {{"Content-Type", "application/json; charset=utf-8"}, {"X-Request-ID", id}};
  respond({500, {fields, id.empty() ? 1u : 2u}}, core_->handler.refusal_body(500, "internal error"));
}

}  // namespace hive::http
