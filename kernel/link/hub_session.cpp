// Authentication, renewal, liveness and the cold records of a link, router side.
#include <algorithm>

#include "link/hub_impl.hpp"
#include "link/notice.hpp"

namespace hive::link {
namespace {

constexpr uint32_t kick_linger_ms = 200;
constexpr uint64_t renewal_margin_ns = 300 * ns_per_s;
constexpr uint64_t shortest_renewal_ns = ns_per_s;     // with a TTL just above the margin
constexpr uint64_t decision_limit_ns = 10 * ns_per_s;  // the probe of an owner takes 1 s of it
constexpr uint64_t renewal_retry_ns = 30 * ns_per_s;
constexpr uint32_t smallest_window = 64 * 1024;
constexpr uint32_t most_proofs = 8;                    // of one renewal; as many secrets as anybody may have
constexpr uint64_t proof_again_ns = 10 * ns_per_s;     // for links whose secret is not accepted any more

// The settings keep the TTL above the margin; a shorter one, as tests set it, is renewed at its half.
uint64_t renewal_after_ns(uint64_t ttl) {
  return ttl > renewal_margin_ns ? std::max(ttl - renewal_margin_ns, shortest_renewal_ns) : ttl / 2;
}

std::string who(const hub_link &l) { return (l.peer_id.empty() ? "a stranger" : "agent " + l.peer_id) + " at " + l.address; }

}  // namespace

hub_link::hub_link(router_hub::impl &h, hive_peer peer, const key32 &curve_key, std::string_view from, std::string of_group)
    : channel(h.loop_, h.pump_of(peer), h.frames_, h.counters.out, peer, {.ping_ns = h.options.ping_ns}),
      hub(h), key(curve_key), address(from), group(std::move(of_group)),
      limit([this] { hub.on_limit(*this); }),
      renewal([this] { hub.challenge(*this); }),
      expiry([this] {
        expired = true;
        note(level::warning, who(*this) + ": session expired without a renewal; no new work is sent to it");
        hub.directory_.expired(peer_id, true);
      }) {}

void hub_link::on_flushed() {
  if (opens.empty()) return;
  const uint64_t now = now_ns();
  for (const uint64_t id : opens)
    if (const auto it = streams.find(id); it != streams.end()) it->second->open_handed_over(now);
  opens.clear();
}

void hub_link::on_send_failed(hive_status code) {
  hub.drop_later(*this, code == HIVE_FULL ? "the transport's pipe to it is full: a dead peer, or credit is not honoured"
                                          : "the transport has no such peer any more");
}

void hub_link::on_silent() { hub.drop(*this, "three PINGs without a PONG"); }

void router_hub::impl::drop_later(hub_link &l, std::string reason) {
  if (l.at == hub_link::phase::gone || !l.failing.empty()) return;
  l.failing = std::move(reason);
  failing_.push_back(l.peer());
  loop_.at_turn_end(*this);
}

void router_hub::impl::protocol_fault(hub_link &l, std::string what) {
  ++counters.protocol_errors;
  if (l.at < hub_link::phase::welcomed) ++counters.rejected[rejection_of("protocol")];
  drop(l, "protocol fault: " + what);
}

void router_hub::impl::drop(hub_link &l, std::string_view reason, cause why) {
  if (l.at == hub_link::phase::gone) return;
  const bool was_welcomed = l.at == hub_link::phase::welcomed;
  no_stranger_any_more(l);
  if (was_welcomed || l.at == hub_link::phase::leaving) --counters.links_open;
  l.at = hub_link::phase::gone;
  l.flush();
  l.shut();
  l.stop_pings();
  l.limit.disarm();
  l.renewal.disarm();
  l.expiry.disarm();
  if (const auto it = by_peer_id_.find(l.peer_id); it != by_peer_id_.end() && it->second == &l) by_peer_id_.erase(it);
  const auto it = links_.find(l.peer());
  buried_links_.push_back(std::move(it->second));
  links_.erase(it);
  loop_.at_turn_end(*this);
  if (!l.lost) pump_of(l.peer()).close_peer(l.peer(), kick_linger_ms);
  if (was_welcomed) {
    ++counters.links_lost;
    note(level::info, who(l) + ": link lost: " + std::string(reason));
  } else {
    note(level::debug, who(l) + ": connection ended: " + std::string(reason));
  }
  answer_probes(l.peer(), false);
  if (l.known) directory_.link_lost({options.worker, l.peer()}, reason);
  auto streams = std::exchange(l.streams, {});
  for (auto &[id, s] : streams) {
    s->link_is_lost(why, reason);
    buried_streams_.push_back(std::move(s));
  }
}

void router_hub::impl::kick(hub_link &l, const kick_message &m) {
  if (l.at == hub_link::phase::gone) return;
  ++counters.kicked;
  if (l.at < hub_link::phase::welcomed) ++counters.rejected[rejection_of(m.code)];
  note(level::warning, who(l) + ": KICK " + m.code + ": " + m.message);
  l.append({.what = kind::kick}, to_json(m), {});
  drop(l, m.message);
}

void router_hub::impl::on_link_record(hub_link &l, const record &r) {
  using phase = hub_link::phase;
  if (l.at == phase::leaving) return;
  if (l.at != phase::welcomed) {
    if (r.what == kind::hello && l.at == phase::stranger) return on_hello(l, r);
    if (r.what == kind::auth && l.at == phase::challenged) return on_auth(l, r);
    ++counters.protocol_errors;
    return kick(l, {"hello", "a connection begins with HELLO, then AUTH answers the CHALLENGE", 0, false});
  }
  switch (r.what) {
    case kind::auth: return on_auth(l, r);
    case kind::ping: return l.append({.what = kind::pong, .seq = r.seq}, {}, {});
    case kind::pong: return on_pong(l, r);
    case kind::heartbeat:
      if (const auto m = parse_heartbeat(r.meta)) {
        l.append({.what = kind::ack}, {}, {});
        return directory_.heartbeat(l.peer_id, m->engine_ready, m->reason);
      }
      return protocol_fault(l, "a malformed HEARTBEAT");
    case kind::signals: return on_signals(l, r);
    case kind::models: return directory_.models(l.peer_id, r.payload);
    case kind::drain: return directory_.draining(l.peer_id, true);
    case kind::goodbye: return on_goodbye(l);
    case kind::hello: return kick(l, {"hello", "one HELLO a connection: a new attempt is a new connection", 0, false});
    default:
      if ((r.flags & flag_critical) != 0)
        protocol_fault(l, "a critical record of unknown kind " + std::to_string(static_cast<int>(r.what)));
      return;
  }
}

void router_hub::impl::on_hello(hub_link &l, const record &r) {
  const auto hello = parse_hello(r.meta);
  if (!hello) return protocol_fault(l, "a malformed HELLO");
  if (hello->version_min > protocol_version || hello->version_max < protocol_version)
    return kick(l, {"version", "this router speaks version 1 of the link protocol", 0, true});
  const auto expected = curve_key_of(hello->peer_id);
  if (!expected || *expected != l.key) {
    ++counters.auth_failures;
    return kick(l, {"hello", "the peer id of HELLO does not belong to the key of this connection", 0, true});
  }
  l.peer_id = hello->peer_id;
  l.boot_id = hello->boot_id;
  l.index = hello->link_index;
  l.agent_nonce = hello->nonce;
  l.at = hub_link::phase::challenged;
  challenge(l);
}

void router_hub::impl::challenge(hub_link &l) {
  l.router_nonce = random_nonce();
  ++l.challenges_out;
  l.append({.what = kind::challenge}, to_json(challenge_message{protocol_version, l.router_nonce, l.agent_nonce, options.router_boot_id}), {});
  if (l.at == hub_link::phase::welcomed)
    loop_.arm_in(l.renewal, std::min(renewal_retry_ns, std::max(options.session_ttl_ns / 8, 20 * ns_per_ms)));
}

proof_input router_hub::impl::proof_of(const hub_link &l) const {
  return {.version = protocol_version, .router_curve = keys_.public_key, .agent_curve = l.key, .peer_id = l.peer_id,
          .agent_nonce = l.agent_nonce, .router_nonce = l.router_nonce, .metadata_hash = l.metadata_hash};
}

void router_hub::impl::on_auth(hub_link &l, const record &r) {
  const bool renewal = l.at == hub_link::phase::welcomed;
  const auto auth = parse_auth(r.meta);
  // A nonce is good for one answer: a second AUTH, true or replayed, finds none.
  if (!auth || l.challenges_out == 0) return protocol_fault(l, "an AUTH that answers no CHALLENGE");
  if (--l.challenges_out > 0) return;  // of a CHALLENGE that another one has overtaken
  l.metadata_hash = sha256(r.payload);
  const int secret = find_proof(keys_for(l), role::agent, proof_of(l), auth->proof);
  if (secret < 0) return on_wrong_proof(l, renewal);
  l.refused_proofs = 0;
  l.secret = static_cast<size_t>(secret);
  const digest32 before = std::exchange(l.proven_with, keys_for(l)[l.secret]);
  if (renewal && !equal_secret(before, l.proven_with))
    note(level::info, who(l) + ": proves secret " + std::to_string(l.secret + 1) + " of " + std::to_string(keys_for(l).size()) + " now");
  if (!renewal) {
    const uint32_t theirs = auth->stream_window == 0 ? options.stream_window : std::max(auth->stream_window, smallest_window);
    l.body_window = std::min(theirs, options.stream_window);
    l.at = hub_link::phase::deciding;
    loop_.arm_in(l.limit, decision_limit_ns);
  }
  decide(l, std::string(r.payload), renewal);
}

// On a live link the agent may have several secrets and learns only like this which of them holds here.
void router_hub::impl::on_wrong_proof(hub_link &l, bool renewal) {
  if (renewal && ++l.refused_proofs < most_proofs) return challenge(l);
  ++counters.auth_failures;
  kick(l, {"bad_secret", "the proof does not match any of the router's shared secrets", 0, false});
}

void router_hub::impl::on_limit(hub_link &l) {
  using phase = hub_link::phase;
  switch (l.at) {
    case phase::leaving: return drop(l, "the agent has left");
    case phase::deciding: return drop(l, "the registry did not decide in time");
    case phase::welcomed:
      ++counters.auth_failures;
      return kick(l, {"bad_secret", "the secret that this link was made with is not accepted any more, and no other was proven in time", 0, false});
    default:
      ++counters.rejected[rejection_of("timeout")];
      drop(l, "no proof of the shared secret in time");
  }
}

void router_hub::impl::set_secrets(std::vector<std::string> secrets) {
  std::vector<digest32> keys;
  for (const std::string &s : secrets) keys.push_back(proof_key(s));
  wipe(secrets);
  // An unchanged list is read again for agents that have got the newest since they were asked.
  const bool changed = !same_keys(keys, proof_keys_);
  proof_keys_ = std::move(keys);
  if (proof_keys_.empty() && !changed) return;
  for (auto &[peer, l] : links_)
    if (l->at == hub_link::phase::welcomed && &keys_for(*l) == &proof_keys_ && (changed || !equal_secret(l->proven_with, proof_keys_.front()))) ask_again(*l);
}

bool router_hub::impl::holds(const hub_link &l) const { return holds_key(keys_for(l), l.proven_with); }

void router_hub::impl::ask_again(hub_link &l) {
  l.refused_proofs = 0;
  if (!holds(l)) loop_.arm_in(l.limit, proof_again_ns);
  challenge(l);
}

bool router_hub::impl::admit_stranger(hive_peer peer, const std::string &group, std::string_view address) {
  const auto answer = strangers_.enter(group);
  if (answer == stranger_budget::answer::enter) return true;
  const bool of_address = answer == stranger_budget::answer::too_many_of_address;
  ++counters.rejected[rejection_of(of_address ? "strangers_per_address" : "strangers")];
  if (strangers_.worth_a_line(group, now_ns()))
    note(level::warning, "a connection from " + std::string(address) + " was refused: " +
                             (of_address ? std::to_string(options.strangers_per_address) + " connections of " + group
                                         : std::to_string(options.strangers) + " connections in all") +
                             " have not proven the secret yet");
  pump_of(peer).close_peer(peer, 0);
  return false;
}

void router_hub::impl::no_stranger_any_more(hub_link &l) {
  if (std::exchange(l.counted_as_stranger, false)) strangers_.leave(l.group);
}

void router_hub::impl::decide(hub_link &l, std::string metadata, bool renewal) {
  l.known = true;
  auth_request request{.link = {options.worker, l.peer()}, .peer_id = l.peer_id, .curve_key = l.key, .boot_id = l.boot_id,
                       .link_index = l.index, .address = l.address, .metadata = std::move(metadata), .renewal = renewal};
  directory_.authenticate(std::move(request), [this, &home = loop_, alive = std::weak_ptr<bool>(alive_), peer = l.peer(), renewal](auth_decision d) {
    home.post([this, alive, peer, renewal, d = std::move(d)] {
      if (const auto still = alive.lock(); still && *still) decided(peer, renewal, d);
    });
  });
}

void router_hub::impl::decided(hive_peer peer, bool renewal, const auth_decision &d) {
  const auto it = links_.find(peer);
  if (it == links_.end()) {
    // Its loss was told before the directory knew the link: now it does, and would keep it.
    if (!renewal && d.what == auth_decision::kind::welcome) directory_.link_lost({options.worker, peer}, "lost while it was decided about");
    return;
  }
  hub_link &l = *it->second;
  if (l.at != (renewal ? hub_link::phase::welcomed : hub_link::phase::deciding)) return;
  switch (d.what) {
    case auth_decision::kind::wait_for_probe: return;
    case auth_decision::kind::refuse: return kick(l, {d.kick_code, d.message, d.retry_after_ms, d.final});
    case auth_decision::kind::welcome: return welcome(l, renewal);
  }
}

void router_hub::impl::welcome(hub_link &l, bool renewal) {
  // Asked again while it was decided: the agent counts on the newer nonce and maybe another secret, and would take this WELCOME
  // for a false proof. The answer that is under way gets its own.
  if (renewal && l.challenges_out != 0) return;
  if (!renewal) {
    if (hub_link *old = find(l.peer_id); old && old != &l) {
      note(level::info, who(l) + ": replaces its link from " + old->address);
      kick(*old, {"replaced", "replaced by a newer connection from " + l.address, 0, false});
    }
    l.epoch = ++next_epoch_;
    no_stranger_any_more(l);
    l.at = hub_link::phase::welcomed;
    l.start_windows(options.link_window);
    l.start_pings(options.ping_ns);
    by_peer_id_[l.peer_id] = &l;
    ++counters.links_welcomed;
    ++counters.links_open;
    note(level::info, who(l) + ": link " + std::to_string(l.index) + " welcomed" +
                          (l.secret == 0 ? std::string() : ", with secret " + std::to_string(l.secret + 1) +
                                                               " of the router's " + std::to_string(keys_for(l).size())));
  } else {
    ++counters.renewals;
    note(level::debug, who(l) + ": session renewed");
    if (std::exchange(l.expired, false)) directory_.expired(l.peer_id, false);
  }
  l.limit.disarm();
  l.renewal.disarm();
  if (l.index == 0) {
    loop_.arm_in(l.renewal, renewal_after_ns(options.session_ttl_ns));
    loop_.arm_in(l.expiry, options.session_ttl_ns);
  }
  welcome_message m;
  m.proof = make_proof(l.proven_with, role::router, proof_of(l));
  m.epoch = l.epoch;
  m.ttl_ms = options.session_ttl_ns / ns_per_ms;
  m.heartbeat_ms = std::max<uint64_t>(options.heartbeat_ns / ns_per_ms, 1);
  m.ping_ms = std::max<uint64_t>(options.ping_ns / ns_per_ms, 1);
  m.body_window = l.body_window;
  m.link_window = options.link_window;
  m.slot_release_at_head = options.slot_release_at_head;
  m.endpoints = endpoints;
  l.append({.what = kind::welcome}, to_json(m), {});
  if (!holds(l)) ask_again(l);  // the secrets were changed while the registry decided
}

void router_hub::impl::on_pong(hub_link &l, const record &r) {
  l.on_pong(r.seq);
  answer_probes(l.peer(), true);
  const auto info = parse_pong(r.meta);
  if (!info) return protocol_fault(l, "a malformed PONG");
  directory_.pong(l.peer_id, *info, {options.worker, l.peer()});
}

void router_hub::impl::on_signals(hub_link &l, const record &r) {
  const auto m = parse_signals(r.meta);
  if (!m) return protocol_fault(l, "malformed SIGNALS");
  std::vector<signal_value> values;
  values.reserve(m->values.size());
  for (const auto &v : m->values) values.push_back({v.name, v.value, v.age_ms});
  directory_.signals(l.peer_id, values, r.payload);
}

void router_hub::impl::on_goodbye(hub_link &l) {
  note(level::info, who(l) + ": says goodbye");
  directory_.goodbye(l.peer_id);
  by_peer_id_.erase(l.peer_id);
  l.at = hub_link::phase::leaving;
  l.stop_pings();
  l.renewal.disarm();
  l.expiry.disarm();
  l.append({.what = kind::goaway}, {}, {});
  l.flush();
  auto streams = std::exchange(l.streams, {});
  for (auto &[id, s] : streams) {
    s->link_is_lost(cause::link_lost, "the agent has left");
    buried_streams_.push_back(std::move(s));
  }
  loop_.at_turn_end(*this);
  // The agent closes; this is for one that does not.
  loop_.arm_in(l.limit, 2 * ns_per_s);
}

}  // namespace hive::link
