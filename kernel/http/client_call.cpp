#include "http/client_call.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/text.hpp"
#include "http/token.hpp"

namespace hive::http {

namespace {
constexpr size_t small_read = 4 * 1024;     // of an answer that comes in drops, as most streams do
constexpr size_t read_buffer = 16 * 1024;   // once a read has filled it
constexpr size_t usual_head = 2 * 1024;   // room for a body of its turn, too, which goes behind it
constexpr size_t join_below = 64 * 1024;  // pieces that wait are joined up to this size

bool written_by_the_client(std::string_view name) {
  switch (name.size()) {
    case 4: return iequals(name, "host");
    case 6: return iequals(name, "expect");
    case 10: return iequals(name, "connection");
    case 14: return iequals(name, "content-length");
    case 17: return iequals(name, "transfer-encoding");
    default: return false;
  }
}
}  // namespace

struct origin_connection::read_done {
  connection_ptr self;
  void operator()(const boost::system::error_code &error, size_t n) {
    self->reading = false;
    if (self->closed) return;
    if (self->carries != nullptr) {
      try {
        return self->carries->on_read(error, n);
      } catch (...) {
        if (self->carries != nullptr) self->carries->on_thrown();
        throw;  // the loop reports it
      }
    }
    // In the pool: a close, or bytes that nobody asked for.
    self->owner_->on_kept_closed(*self, tls_session::is_end(error));
  }
};

struct origin_connection::write_done {
  connection_ptr self;
  void operator()(const boost::system::error_code &error, size_t n) {
    if (!self->closed && self->carries != nullptr) self->carries->on_written(error, n);
  }
};

origin_connection::origin_connection(std::shared_ptr<client::impl> owner, loop_socket socket)
    : owner_(std::move(owner)), socket_(std::move(socket)) {
  in.resize(small_read);
  ++owner_->open;
}

origin_connection::~origin_connection() { close(); }

void origin_connection::secure() {
  tls_ = std::make_unique<tls_session>(*owner_->options.trust, socket_, static_cast<tls_events &>(*this));
  tls_->secure(owner_->to.host);
}

void origin_connection::on_secured(const boost::system::error_code &error, std::string why) {
  if (!closed && carries != nullptr) carries->on_secured(error, std::move(why));
}

void origin_connection::on_tls_read(const boost::system::error_code &error, size_t n) {
  read_done{connection_ptr(this)}(error, n);
}

void origin_connection::on_tls_written(const boost::system::error_code &error, size_t n) { write_done{connection_ptr(this)}(error, n); }

void origin_connection::close() {
  if (closed) return;
  closed = true;
  --owner_->open;
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void origin_connection::read_more(size_t limit) {
  if (reading || closed) return;
  if (begin == end) {
    if (end == in.size() && end < read_buffer) in.resize(read_buffer);
    begin = end = 0;
  } else if (end == in.size() && begin > 0) {
    std::memmove(in.data(), in.data() + begin, end - begin);
    end -= begin;
    begin = 0;
  }
  if (end == in.size()) in.resize(std::max(in.size(), std::min(in.size() * 2, limit + 1)));
  reading = true;
  if (tls_) return tls_->read(in.data() + end, in.size() - end);
  socket_.async_read_some(boost::asio::buffer(in.data() + end, in.size() - end), read_done{connection_ptr(this)});
}

size_t origin_connection::write(std::string_view bytes) {
  if (tls_) {
    tls_->write(bytes);
    return 0;
  }
  boost::system::error_code error;
  size_t n = socket_.write_some(boost::asio::buffer(bytes.data(), bytes.size()), error);
  if (error) n = 0;  // met again below
  bytes.remove_prefix(n);
  if (!bytes.empty()) socket_.async_write_some(boost::asio::buffer(bytes.data(), bytes.size()), write_done{connection_ptr(this)});
  return n;
}

template <class F>
bool running_call::tell(F &&f) {
  bool destroyed = false;
  struct watch {
    running_call *call;
    bool &flag;
    ~watch() {
      if (!flag) call->destroyed_ = nullptr;
    }
  };
  destroyed_ = &destroyed;
  {
    const watch w{this, destroyed};
    f();
  }
  return !destroyed;
}

running_call::running_call(std::shared_ptr<client::impl> c, call_request request, call_events &events)
    : client_(std::move(c)), request_(std::move(request)), events_(events) {
  std::string head;
  head.reserve(usual_head);
  head.append(request_.method).append(" ").append(client_->to.base).append(request_.target);
  head.append(" HTTP/1.1\r\nHost: ").append(client_->host_value).append("\r\n");
  for (const field &f : request_.fields) {
    if (!is_token(f.name) || written_by_the_client(f.name)) continue;
    head.append(f.name).append(": ");
    append_field_value(head, f.value);
    head.append("\r\n");
  }
  if (request_.content_length > 0 || request_.method == "POST" || request_.method == "PUT" || request_.method == "PATCH") {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, request_.content_length).ptr;
    head.append("Content-Length: ").append(digits, static_cast<size_t>(end - digits)).append("\r\n");
  }
  if (client_->options.requests_per_connection == 1) head += "Connection: close\r\n";
  head += "\r\n";
  request_.fields.clear();
  head_size_ = head.size();
  pieces_.push_back(std::move(head));
  rearm();
  if (connection_ptr kept = client_->take_kept()) {
    attach(std::move(kept), true);
  } else {
    connect();
  }
}

running_call::~running_call() {
  if (destroyed_ != nullptr) *destroyed_ = true;
  if (connector_) connector_->cancel();
  let_go(connection_);
  let_go(securing_);
}

void running_call::let_go(connection_ptr &c) {
  if (!c) return;
  c->carries = nullptr;
  c->close();
  c.reset();
}

void running_call::connect() {
  phase_ = call_phase::connecting;
  connector_ = connector::start(client_->home, client_->to.host, client_->to.port, client_->options.connect_timeout_ns, *this);
}

void running_call::on_connected(loop_socket socket) {
  connector_.reset();
  const connection_ptr fresh(new origin_connection(client_, std::move(socket)));
  if (!client_->to.tls) return attach(fresh, false);
  if (!client_->options.trust) return fail(false, "no certificate authority is trusted, so that no https origin is reached");
  securing_ = fresh;
  securing_->carries = this;
  secure_by_ns_ = now_ns() + client_->options.connect_timeout_ns;
  rearm();
  securing_->secure();
}

void running_call::on_secured(const boost::system::error_code &error, std::string why) {
  secure_by_ns_ = never_ns;
  if (error) return fail(false, "no TLS with " + client_->to.host + ": " + why);
  attach(std::exchange(securing_, nullptr), false);
}

void running_call::on_connect_failed(bool timed_out, std::string why) {
  connector_.reset();
  fail(timed_out, std::move(why));
}

void running_call::attach(connection_ptr c, bool reused) {
  connection_ = std::move(c);
  connection_->carries = this;
  ++connection_->calls;
  reused_ = reused;
  phase_ = call_phase::sending;
  connection_->read_more(client_->options.max_header_bytes);
  client_->home.at_turn_end(*this);  // the head leaves together with the body bytes of this turn
}

void running_call::body(std::string_view bytes) {
  if (over_ || bytes.empty()) return;
  body_given_ += bytes.size();
  const bool last_is_free = !(writing_ && piece_ + 1 == pieces_.size()) && piece_ < pieces_.size();
  if (last_is_free && pieces_.back().size() + bytes.size() <= std::max(join_below, head_size_ + bytes.size())) {
    pieces_.back().append(bytes);
  } else {
    pieces_.emplace_back(bytes);
  }
  if (connection_ && !writing_) client_->home.at_turn_end(*this);
}

void running_call::resume() {
  if (!std::exchange(paused_, false) || over_) return;
  last_read_ns_ = now_ns();
  client_->home.at_turn_end(*this);
}

void running_call::on_turn_end() {
  if (over_) return;
  send_some();
  if (tell_sent() && !over_ && connection_ && !connection_->reading) process();
}

void running_call::send_some() {
  while (connection_ && !writing_ && !write_broken_) {
    while (piece_ < pieces_.size() && offset_ == pieces_[piece_].size()) {
      if (!reused_ || received_any_) std::string().swap(pieces_[piece_]);  // no retry will want it
      ++piece_;
      offset_ = 0;
    }
    if (piece_ == pieces_.size()) return;
    const std::string_view rest = std::string_view(pieces_[piece_]).substr(offset_);
    const size_t sent = connection_->write(rest);
    writing_ = sent < rest.size();
    count_sent(sent);
  }
}

void running_call::count_sent(size_t n) {
  if (n == 0) return;
  any_sent_ = true;
  offset_ += n;
  written_ += n;
  if (written_ == head_size_ + request_.content_length && phase_ == call_phase::sending) phase_ = call_phase::waiting;
}

bool running_call::tell_sent() {
  const uint64_t body_written = written_ > head_size_ ? written_ - head_size_ : 0;
  if (body_written <= body_reported_) return true;
  const auto news = static_cast<size_t>(body_written - body_reported_);
  body_reported_ = body_written;
  return tell([&] { events_.on_body_written(news); });
}

void running_call::on_written(const boost::system::error_code &error, size_t n) {
  writing_ = false;
  if (error) {
    write_broken_ = true;  // the read knows better: an early answer may be there, or the reason
    return;
  }
  count_sent(n);
  send_some();
  tell_sent();
}

void running_call::on_read(const boost::system::error_code &error, size_t n) {
  if (!error) {
    connection_->end += n;
    last_read_ns_ = now_ns();
    received_any_ = true;
    return process();
  }
  if (error == boost::asio::error::eof && head_done_) {
    decoder_.end_of_input();
    if (decoder_.done()) return finish();
  }
  if (reused_ && !received_any_) return retry();
  const char *where = head_done_ ? "inside its answer" : received_any_ ? "inside the head of its answer" : "before it answered";
  fail(false, error == boost::asio::error::eof ? std::string("the origin closed the connection ") + where
                                              : std::string("the connection broke ") + where + ": " + error.message());
}

// A kept connection died with nothing received: the origin closed it while our request was on its way (reuse race).
void running_call::retry() {
  connection_->carries = nullptr;
  connection_->close();
  connection_.reset();
  piece_ = offset_ = 0;
  written_ = 0;
  writing_ = write_broken_ = false;
  connect();
}

void running_call::process() {
  while (!paused_) {
    if (!head_done_) {
      if (!take_head()) return;
      continue;
    }
    if (decoder_.done()) return finish();
    origin_connection &c = *connection_;
    if (c.begin == c.end) break;
    const auto step = decoder_.decode({c.in.data() + c.begin, c.end - c.begin});
    c.begin += step.consumed;
    if (!step.payload.empty() && !tell([&] { events_.on_data(step.payload); })) return;
    if (decoder_.now() == body_decoder::state::too_large)
      return fail(false, "the answer exceeds the limit of " + std::to_string(body_cap()) + " bytes");
    if (decoder_.failed()) return fail(false, std::string("the answer's framing is broken: ") + decoder_.what());
  }
  rearm();
  if (!paused_) connection_->read_more(client_->options.max_header_bytes);
}

// True when there may be more to do at once.
bool running_call::take_head() {
  origin_connection &c = *connection_;
  const std::string_view bytes(c.in.data() + c.begin, c.end - c.begin);
  const size_t limit = client_->options.max_header_bytes;
  const size_t length = find_head_end(bytes, searched_);
  if (length > limit || (length == 0 && bytes.size() >= limit)) {
    fail(false, "the head of the answer is longer than " + std::to_string(limit) + " bytes");
    return false;
  }
  if (length == 0) {
    c.read_more(limit);
    return false;
  }
  searched_ = 0;
  const auto refusal = parser_.parse(bytes.substr(0, length));
  c.begin += length;
  if (refusal) {
    fail(false, "the head of the answer is refused: " + refusal->what);
    return false;
  }
  const answer_head &head = parser_.head();
  if (head.status == 101) {
    fail(false, "the origin switched protocols unasked");
    return false;
  }
  if (head.status < 200) return true;
  const uint64_t cap = body_cap();
  if (head.content_length.value_or(0) > cap) {
    fail(false, "the answer of " + std::to_string(*head.content_length) + " bytes exceeds the limit of " + std::to_string(cap));
    return false;
  }
  start_body();
  head_done_ = true;
  phase_ = call_phase::answering;
  return tell([&] { events_.on_head({head.status, head.fields, decoder_.is_until_close(), head.date}); });
}

// An answer of known kind that grows without end is nobody's answer; how long an event stream runs is the caller's business.
uint64_t running_call::body_cap() const {
  constexpr std::string_view events = "text/event-stream";
  const uint64_t cap = client_->options.max_answer_bytes;
  const field *type = find_field(parser_.head().fields, "content-type");
  const bool endless = cap == 0 || (type != nullptr && iequals(type->value.substr(0, events.size()), events));
  return endless ? UINT64_MAX : cap;
}

void running_call::start_body() {
  const answer_head &head = parser_.head();
  if (request_.method == "HEAD" || head.status == 204 || head.status == 304) {
    decoder_.start_length(0);
  } else if (head.chunked) {
    decoder_.start_chunked(body_cap());
  } else if (head.content_length) {
    decoder_.start_length(*head.content_length);
  } else {
    decoder_.start_until_close(body_cap());
  }
}

void running_call::finish() {
  over_ = true;
  disarm();
  const bool whole_request = written_ == head_size_ + request_.content_length;
  const connection_ptr c = std::move(connection_);
  c->carries = nullptr;
  const uint32_t limit = client_->options.requests_per_connection;
  const bool framed = head_done_ && (parser_.head().chunked || decoder_.is_length());
  if (whole_request && framed && parser_.head().keep_alive && c->begin == c->end && (limit == 0 || c->calls < limit)) {
    client_->keep(c);
  } else {
    c->close();
  }
  events_.on_end();
}

// An event of the caller's threw: its call cannot go on.
void running_call::on_thrown() { fail(false, "internal error while an answer was handled"); }

void running_call::fail(bool timed_out, std::string why) {
  over_ = true;
  disarm();
  if (connector_) std::exchange(connector_, nullptr)->cancel();
  let_go(connection_);
  let_go(securing_);
  events_.on_failed({phase_, timed_out, any_sent_, std::move(why)});
}

// Arms for the nearest limit, unless an earlier firing is coming anyway.
void running_call::rearm() {
  uint64_t due = std::min(request_.deadline_ns, secure_by_ns_);
  if (!head_done_) due = std::min(due, request_.first_byte_deadline_ns);
  if (head_done_ && request_.read_idle_ns != 0 && !paused_) due = std::min(due, last_read_ns_ + request_.read_idle_ns);
  if (due != never_ns && (!armed() || due_ns() > due)) client_->home.arm(*this, due);
}

void running_call::on_timer() {
  if (over_) return;
  const uint64_t now = now_ns();
  if (now >= request_.deadline_ns) return fail(true, "the call's deadline passed");
  if (now >= secure_by_ns_) return fail(true, "no TLS with " + client_->to.host + ": no answer in time");
  if (!head_done_ && now >= request_.first_byte_deadline_ns) return fail(true, "no answer before the first-byte deadline");
  if (head_done_ && request_.read_idle_ns != 0 && !paused_ && now >= last_read_ns_ + request_.read_idle_ns) {
    return fail(true, "the answer stood still for " + format_duration(request_.read_idle_ns));
  }
  rearm();
}

}  // namespace hive::http
