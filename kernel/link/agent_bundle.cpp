// Dialling: names to literals, the race of addresses, back-off, secrets in turn; and the bundle's common state.
#include <boost/asio/ip/address.hpp>
#include <algorithm>
#include <charconv>

#include "link/agent_impl.hpp"
#include "link/notice.hpp"

namespace hive::link {
namespace {

constexpr uint64_t race_step_ns = 250 * ns_per_ms;  // RFC 8305
constexpr uint64_t lacking_ns = 5 * ns_per_s;
constexpr uint32_t linger_ms = 200;
constexpr size_t most_addresses = 16;

struct host_port {
  std::string host;
  std::string port;
};

result<host_port> split(std::string_view address) {
  const size_t colon = address.rfind(':');
  host_port out;
  if (colon != std::string_view::npos) {
    out.host = address.substr(0, colon);
    out.port = address.substr(colon + 1);
    if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']') out.host = out.host.substr(1, out.host.size() - 2);
  }
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(out.port.data(), out.port.data() + out.port.size(), number);
  if (out.host.empty() || error != std::errc() || end != out.port.data() + out.port.size() || number == 0)
    return fail(errc::invalid, "the router's address \"" + std::string(address) + "\" is not HOST:PORT");
  return out;
}

std::string literal(const boost::asio::ip::address &a, const std::string &port) {
  return (a.is_v6() ? "[" + a.to_string() + "]" : a.to_string()) + ":" + port;
}

}  // namespace

dial_slot::dial_slot(agent_router_link::impl &b, uint32_t i, std::string where)
    : bundle(b), index(i), address(std::move(where)), retry([this] { bundle.dial(*this); }), race([this] { bundle.connect_next(*this); }),
      lacking([this] {
        note(level::warning, "no link " + std::to_string(index) + " to the router at " + address + " for 5 s" +
                                 (why.empty() ? std::string() : ": " + why));
      }) {}

agent_router_link::impl::impl(loop &l, transport_ref t, const identity &id, agent_link_handler &h, const agent_link_options &o)
    : loop_(l), options(o), handler(h), pump(l, t, *this), identity_(id),
      boot_id_(o.part ? o.part->boot_id : random_u64()), resolver_(l.io()),
      goodbye_limit_([this] { goodbye_answered(); }) {
  derive(std::exchange(options.secrets, {}));
}

agent_router_link::impl::~impl() {
  *alive_ = false;
  halted = true;
  resolver_.cancel();
  for (auto &s : slots)
    if (s->link) s->link->shut();
  by_peer_.clear();
  pump.stop(0);
  // Frames that never left go back to a pool that stands below the slots; listeners that go with their streams find no slot.
  buried_streams_.clear();
  const auto last = std::exchange(slots, {});
}

status agent_router_link::impl::start_transport() {
  router_key_ = router_keys_[key_at_];
  return pump.start(0, 1, identity_.curve_secret, identity_.curve_public, &router_key_);
}

void agent_router_link::impl::derive(std::vector<std::string> secrets) {
  proof_keys_.clear();
  router_keys_ = options.router_keys;
  for (const std::string &s : secrets) {
    proof_keys_.push_back(proof_key(s));
    if (options.router_keys.empty()) router_keys_.push_back(router_keys(s).public_key);
  }
  wipe(secrets);
}

void agent_router_link::impl::set_secrets(std::vector<std::string> secrets) {
  if (secrets.empty()) return;
  derive(std::move(secrets));
  const auto key = std::find(router_keys_.begin(), router_keys_.end(), router_key_);
  key_at_ = key == router_keys_.end() ? 0 : static_cast<size_t>(key - router_keys_.begin());
  secret_at_ = 0;
  keys_tried_ = secrets_tried_ = 0;
  for (auto &s : slots)
    if (!halted && !s->link && s->retry.armed()) loop_.arm_in(s->retry, 0);
}

void agent_router_link::impl::start() {
  if (proof_keys_.empty()) return note(level::warning, "no shared secret: the agent cannot dial its router");
  slots.push_back(std::make_unique<dial_slot>(*this, 0, options.router));
  loop_.arm_in(slots[0]->lacking, lacking_ns);
  dial(*slots[0]);
}

void agent_router_link::impl::dial(dial_slot &s) {
  if (halted || s.link || s.resolving || !s.attempts.empty()) return;
  if (!pump.started()) {
    if (const status started = start_transport(); !started) {
      s.why = started.text();
      note(level::warning, s.why);
      return again(s, never_ns);
    }
  }
  s.candidates.clear();
  s.next = 0;
  s.worst = 0;
  const auto where = split(s.address);
  if (!where) {
    s.why = where.why().text();
    note(level::warning, s.why);
    return again(s, never_ns);
  }
  boost::system::error_code not_literal;
  boost::asio::ip::make_address(where->host, not_literal);
  if (!not_literal) {
    s.candidates.push_back(s.address);
    return connect_next(s);
  }
  s.resolving = true;
  resolver_.async_resolve(where->host, where->port, boost::asio::ip::tcp::resolver::numeric_service,
      [this, alive = alive_, index = s.index, port = where->port](const boost::system::error_code &error,
                                                                  const boost::asio::ip::tcp::resolver::results_type &found) {
        if (!*alive) return;
        std::vector<std::string> four, six, mixed;
        for (const auto &e : found) (e.endpoint().address().is_v6() ? six : four).push_back(literal(e.endpoint().address(), port));
        for (size_t i = 0; i < std::max(four.size(), six.size()); ++i) {
          if (i < six.size()) mixed.push_back(six[i]);
          if (i < four.size()) mixed.push_back(four[i]);
        }
        resolved(index, std::move(mixed), error ? error.message() : std::string());
      });
}

void agent_router_link::impl::resolved(uint32_t index, std::vector<std::string> addresses, std::string trouble) {
  if (index >= slots.size() || halted) return;
  dial_slot &s = *slots[index];
  s.resolving = false;
  if (addresses.size() > most_addresses) addresses.resize(most_addresses);
  s.candidates = std::move(addresses);
  s.next = 0;
  if (s.candidates.empty()) {
    s.why = "cannot resolve " + s.address + (trouble.empty() ? std::string() : ": " + trouble);
    return dial_failed(s);
  }
  connect_next(s);
}

void agent_router_link::impl::connect_next(dial_slot &s) {
  if (halted || s.link) return;
  while (s.next < s.candidates.size()) {
    auto peer = pump.connect(s.candidates[s.next++]);
    if (!peer) {
      s.why = peer.why().text();
      continue;
    }
    s.attempts.push_back(*peer);
    by_peer_[*peer] = &s;
    if (s.next < s.candidates.size()) loop_.arm_in(s.race, race_step_ns);
    return;
  }
  if (s.attempts.empty()) dial_failed(s);
}

uint64_t agent_router_link::impl::backoff_ns(uint32_t failures) const {
  const uint64_t low = options.reconnect_min_ns;
  uint64_t bound = low;
  for (uint32_t i = 0; i < failures && bound < options.reconnect_max_ns; ++i) bound *= 2;
  bound = std::min(bound, std::max(options.reconnect_max_ns, low));
  return low + (bound > low ? random_u64() % (bound - low) : 0);
}

void agent_router_link::impl::again(dial_slot &s, uint64_t delay_ns) {
  if (halted) return;
  ++s.failures;
  loop_.arm_in(s.retry, delay_ns == never_ns ? backoff_ns(s.failures) : delay_ns);
  if (!s.lacking.armed()) loop_.arm_in(s.lacking, lacking_ns);
}

void agent_router_link::impl::dial_failed(dial_slot &s) {
  s.race.disarm();
  bool none_up = true;
  for (const auto &other : slots) none_up = none_up && !other->link;
  if (s.worst == HIVE_LOST_AUTH) {
    note(level::warning, refused_handshake(s));
    if (none_up && (router_keys_.size() > 1 || router_key_ != router_keys_[key_at_])) return try_next_key();
  } else {
    note(level::info, "no connection to the router at " + s.address + ": " + s.why);
  }
  again(s, never_ns);
}

std::string agent_router_link::impl::refused_handshake(const dial_slot &s) const {
  const std::string router = "the router at " + s.address;
  if (s.why.find("refused this key") != std::string::npos) return router + " refuses this agent's identity: " + identity_.peer_id + " is revoked there";
  if (!options.router_keys.empty())
    return router + " refused the handshake: it is not the router that --router-id names" + (options.router_keys.size() > 1 ? "; the next one is tried" : "");
  return router + " refused the handshake: the shared secret differs from the router's" + (router_keys_.size() > 1 ? "; the next secret is tried" : "");
}

void agent_router_link::impl::try_next_key() {
  // After a change of the secrets the transport may have a key that is none of the list: the list is not tried yet.
  const bool fresh_list = router_key_ != router_keys_[key_at_];
  if (!fresh_list) {
    key_at_ = (key_at_ + 1) % router_keys_.size();
    ++keys_tried_;
  }
  if (options.router_keys.empty()) secret_at_ = key_at_;
  // Not from inside an event: the transport is pumping.
  loop_.post([this, fresh_list, alive = alive_] {
    if (!*alive || halted) return;
    for (auto &s : slots) {
      if (s->link) drop(*s->link, "another key is tried");
      s->attempts.clear();
      s->race.disarm();
    }
    by_peer_.clear();
    slots.resize(1);
    router_boot_ = 0;
    pump.stop(linger_ms);
    dial_slot &s = *slots[0];
    s.retry.disarm();
    // A whole round at once, then with patience. The dial starts the transport with the other key.
    if (fresh_list || keys_tried_ % router_keys_.size() != 0) dial(s);
    else again(s, never_ns);
  });
}

dial_slot *agent_router_link::impl::slot_of(hive_peer peer) {
  const auto it = by_peer_.find(peer);
  return it == by_peer_.end() ? nullptr : it->second;
}

void agent_router_link::impl::on_peer(hive_peer peer, const key32 &, std::string_view address) {
  dial_slot *s = slot_of(peer);
  if (!s || s->link) return pump.close_peer(peer, 0);
  s->race.disarm();
  for (const hive_peer other : s->attempts) {
    if (other == peer) continue;
    by_peer_.erase(other);
    pump.close_peer(other, 0);
  }
  s->attempts.clear();
  s->link = std::make_unique<agent_channel>(*this, peer, s->index, address.empty() ? std::string_view(s->address) : address);
  say_hello(*s->link);
}

void agent_router_link::impl::on_peer_lost(hive_peer peer, int32_t reason, std::string_view text) {
  dial_slot *s = slot_of(peer);
  if (!s) return;
  if (s->link && s->link->peer() == peer) {
    s->link->lost = true;
    s->link->shut();
    return drop(*s->link, text.empty() ? "the connection was closed" : text);
  }
  by_peer_.erase(peer);
  std::erase(s->attempts, peer);
  if (reason == HIVE_LOST_AUTH) s->worst = reason;
  s->why = text.empty() ? "no connection" : std::string(text);
  if (s->next < s->candidates.size()) connect_next(*s);
  else if (s->attempts.empty()) dial_failed(*s);
}

void agent_router_link::impl::drop(agent_channel &c, std::string_view reason, uint64_t delay_ns) {
  if (c.at == agent_channel::phase::gone) return;
  const bool was_leaving = c.at == agent_channel::phase::leaving;
  c.at = agent_channel::phase::gone;
  c.flush();
  c.shut();
  c.stop_pings();
  c.limit.disarm();
  dial_slot &s = *slots[c.index];
  by_peer_.erase(c.peer());
  buried_links_.push_back(std::move(s.link));
  loop_.at_turn_end(*this);
  if (!c.lost) pump.close_peer(c.peer(), linger_ms);
  s.why = reason;
  auto streams = std::exchange(c.streams, {});
  for (auto &[id, stream] : streams) {
    stream->cancelled(cause::link_lost, false);
    buried_streams_.push_back(std::move(stream));
  }
  if (std::exchange(all_welcomed, false)) {
    note(level::info, "link " + std::to_string(c.index) + " to the router at " + c.address + " is lost: " + std::string(reason));
    handler.on_lost(reason);
  }
  if (was_leaving || goodbye_done_) return goodbye_answered();
  again(s, delay_ns);
}

void agent_router_link::impl::drop_later(agent_channel &c, std::string reason) {
  if (c.at == agent_channel::phase::gone || !c.failing.empty()) return;
  c.failing = std::move(reason);
  failing_.push_back(c.peer());
  loop_.at_turn_end(*this);
}

void agent_router_link::impl::on_turn_end() {
  auto failing = std::exchange(failing_, {});
  for (const hive_peer peer : failing)
    if (dial_slot *s = slot_of(peer); s && s->link && s->link->peer() == peer) drop(*s->link, std::string(s->link->failing));
  // The listeners go with their streams; they may call back into nothing that is still in a table.
  burying_.swap(buried_streams_);
  burying_.clear();
  buried_links_.clear();
}

void agent_router_link::impl::halt() {
  halted = true;
  resolver_.cancel();
  for (auto &s : slots) {
    s->retry.disarm();
    s->race.disarm();
    s->lacking.disarm();
    for (const hive_peer p : s->attempts) {
      by_peer_.erase(p);
      pump.close_peer(p, 0);
    }
    s->attempts.clear();
  }
}

void agent_router_link::impl::all_up_or_not() {
  for (const auto &s : slots)
    if (!s->link || s->link->at != agent_channel::phase::welcomed) return;
  if (std::exchange(all_welcomed, true)) return;
  keys_tried_ = secrets_tried_ = 0;
  handler.on_welcomed();
}

void agent_router_link::impl::goodbye(std::function<void()> done) {
  halt();
  goodbye_done_ = std::move(done);
  all_welcomed = false;
  for (auto &s : slots) {
    if (!s->link) continue;
    agent_channel &c = *s->link;
    auto streams = std::exchange(c.streams, {});
    for (auto &[id, stream] : streams) {
      stream->cancelled(cause::shutdown, true);
      buried_streams_.push_back(std::move(stream));
    }
    c.stop_pings();
    if (c.at == agent_channel::phase::welcomed) c.append({.what = kind::goodbye}, {}, {});
    c.flush();
    c.at = agent_channel::phase::leaving;
  }
  loop_.at_turn_end(*this);
  loop_.arm_in(goodbye_limit_, options.goodbye_ns);
  // Even with nothing to say, `done` is not called from inside this call.
  loop_.post([this, alive = alive_] {
    if (*alive) goodbye_answered();
  });
}

void agent_router_link::impl::goodbye_answered() {
  if (!goodbye_done_) return;
  const bool out_of_time = !goodbye_limit_.armed();
  for (auto &s : slots) {
    if (!s->link) continue;
    if (!out_of_time) return;
  }
  goodbye_limit_.disarm();
  auto done = std::exchange(goodbye_done_, nullptr);
  for (auto &s : slots)
    if (s->link) drop(*s->link, "goodbye");
  done();
}

}  // namespace hive::link
