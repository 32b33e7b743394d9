#include "link/transport_pump.hpp"

#include <cstring>
#include <exception>

#include "link/notice.hpp"
#include "plugins/error_words.hpp"

namespace hive::link {
namespace {

constexpr uint64_t complaint_period_ns = 10 * ns_per_s;

status failed(hive_status code, const plugins::error_words &why, const std::string &doing) {
  return fail(plugins::code_of(code), doing + ": " + why.or_status(code));
}

void complain(const char *what) noexcept {
  try {
    note(level::error, std::string("exception while a transport told of a connection, which is closed: ") + what);
  } catch (...) {  // not even a line of log can be written
  }
}

// Whether it ended without an exception, which is in the log then.
template <class F>
bool runs_through(F &&f) noexcept {
  try {
    f();
    return true;
  } catch (const std::exception &e) {
    complain(e.what());
  } catch (...) {
    complain("no std::exception");
  }
  return false;
}

}  // namespace

transport_pump::transport_pump(loop &l, transport_ref t, transport_owner &owner, hive_peer mark)
    : loop_(l), transport_(t), owner_(owner), mark_(mark) {
  events_.struct_size = sizeof events_;
  events_.ctx = this;
  events_.on_peer = [](void *ctx, hive_peer peer, const uint8_t key[32], hive_str address) noexcept {
    key32 k{};
    if (key) std::memcpy(k.data(), key, k.size());
    auto *p = static_cast<transport_pump *>(ctx);
    if ((peer & own_process_mark) != 0) return p->transport_.table->close_peer(p->transport_.self, peer, 0);
    if (!runs_through([&] { p->owner_.on_peer(peer | p->mark_, k, {address.ptr, address.len}); })) p->owner_threw(peer);
  };
  events_.on_message = [](void *ctx, hive_peer peer, const hive_message *m) noexcept {
    auto *p = static_cast<transport_pump *>(ctx);
    if (p->has_broken(peer)) return;
    const std::string_view frame(reinterpret_cast<const char *>(m->bytes.ptr), m->bytes.len);
    if (!runs_through([&] { p->owner_.on_frame(peer | p->mark_, frame); })) p->owner_threw(peer);
  };
  // FULL fails the link, so nobody waits to become writable.
  events_.on_writable = [](void *, hive_peer) noexcept {};
  events_.on_lost = [](void *ctx, hive_peer peer, int32_t reason, hive_str text) noexcept {
    auto *p = static_cast<transport_pump *>(ctx);
    if (std::erase(p->broken_, peer) == 0) runs_through([&] { p->owner_.on_peer_lost(peer | p->mark_, reason, {text.ptr, text.len}); });
  };
}

void transport_pump::owner_threw(hive_peer peer) noexcept {
  runs_through([&] {
    broken_.push_back(peer);
    owner_.on_peer_lost(peer | mark_, HIVE_LOST_CLOSED, "an exception in this program");
  });
  transport_.table->close_peer(transport_.self, peer, 0);
}

transport_pump::~transport_pump() { stop(0); }

status transport_pump::start(uint32_t worker, uint32_t workers, const key32 &secret_key, const key32 &public_key, const key32 *router_key) {
  hive_transport_setup setup{};
  setup.struct_size = sizeof setup;
  setup.worker = worker;
  setup.workers = workers;
  setup.secret_key = secret_key.data();
  setup.public_key = public_key.data();
  setup.router_key = router_key ? router_key->data() : nullptr;
  setup.events = &events_;
  plugins::error_words why;
  const hive_status code = transport_.table->start(transport_.self, &setup, why.sink());
  if (code != HIVE_OK) return failed(code, why, "cannot start the transport");
  started_ = true;
  const int fd = transport_.table->fd(transport_.self);
  if (fd >= 0) descriptor_.emplace(loop_.io(), fd);
  request();
  wait_readable();
  return {};
}

result<std::string> transport_pump::listen(const std::string &address) {
  std::string bound;
  hive_text_sink sink{};
  sink.struct_size = sizeof sink;
  sink.ctx = &bound;
  sink.put = [](void *ctx, hive_str text) noexcept { static_cast<std::string *>(ctx)->assign(text.ptr, text.len); };
  plugins::error_words why;
  const hive_status code = transport_.table->listen(transport_.self, {address.data(), address.size()}, &sink, why.sink());
  if (code != HIVE_OK) return failed(code, why, "cannot listen on " + address);
  return bound;
}

result<hive_peer> transport_pump::connect(const std::string &address) {
  hive_peer peer = 0;
  plugins::error_words why;
  const hive_status code = transport_.table->connect(transport_.self, {address.data(), address.size()}, &peer, why.sink());
  if (code != HIVE_OK) return failed(code, why, "cannot connect to " + address);
  request();
  return peer | mark_;
}

status transport_pump::set_denied(const std::vector<key32> &keys) {
  const uint8_t *bytes = keys.empty() ? nullptr : keys.front().data();
  const hive_status code = transport_.table->set_denied(transport_.self, bytes, keys.size());
  if (code == HIVE_OK) return {};
  return fail(errc::unsupported, "the transport did not take the list of denied keys, code " + std::to_string(code));
}

void transport_pump::pump() {
  if (!started_ || pumping_) return;
  uint64_t next_wake = UINT64_MAX;
  pumping_ = true;
  const hive_status code = transport_.table->pump(transport_.self, budget_messages, budget_ns, &next_wake);
  pumping_ = false;
  if (!started_) return;
  disarm();
  if (code != HIVE_OK) return pump_failed(code);
  failures_ = 0;
  if (next_wake == 0) loop_.at_turn_end(*this);
  else if (next_wake != UINT64_MAX) loop_.arm(*this, next_wake);
  wait_readable();
}

// The descriptor is not asked meanwhile: it may stay readable for as long as the pump fails.
void transport_pump::pump_failed(hive_status code) {
  ++failures_;
  loop_.arm_in(*this, failed_pause_ns);
  const uint64_t now = now_ns();
  if (now < next_complaint_ns_) return;
  next_complaint_ns_ = now + complaint_period_ns;
  note(level::warning, "the transport's pump gave code " + std::to_string(code) + ", " + std::to_string(failures_) +
                           " time(s) in a row; tried again every 100 ms");
}

void transport_pump::wait_readable() {
  if (!descriptor_ || waiting_) return;
  waiting_ = true;
  descriptor_->async_wait(boost::asio::posix::descriptor_base::wait_read,
                          [this, alive = alive_](const boost::system::error_code &error) {
                            if (error || !*alive) return;
                            waiting_ = false;
                            pump();
                          });
}

void transport_pump::stop(uint32_t linger_ms) {
  if (!started_) return;
  started_ = false;
  waiting_ = false;
  failures_ = 0;
  disarm();
  *alive_ = false;
  alive_ = std::make_shared<bool>(true);
  if (descriptor_) {
    // The descriptor is the transport's: let Asio forget it before the transport closes it.
    descriptor_->release();
    descriptor_.reset();
  }
  transport_.table->stop(transport_.self, linger_ms);
  broken_.clear();
}

}  // namespace hive::link
