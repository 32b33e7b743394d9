// Authentication, liveness and the cold records, agent side; and the public face of the bundle.
#include <algorithm>

#include "link/agent_impl.hpp"
#include "link/notice.hpp"

namespace hive::link {
namespace {

constexpr size_t most_metadata = 48 * 1024;  // the router takes frames of 64 KiB before it knows us

}  // namespace

agent_channel::agent_channel(agent_router_link::impl &b, hive_peer peer, uint32_t link_index, std::string_view from)
    : channel(b.loop_, b.pump, b.frames_, b.sent_, peer, {}), bundle(b), index(link_index), address(from),
      limit([this] { bundle.drop(*this, "no WELCOME in time"); }) {}

void agent_channel::on_send_failed(hive_status code) {
  bundle.drop_later(*this, code == HIVE_FULL ? "the transport's pipe to the router is full" : "the transport has lost the router");
}

void agent_channel::on_silent() { bundle.drop(*this, "three PINGs without a PONG"); }

void agent_router_link::impl::say_hello(agent_channel &c) {
  c.nonce = random_nonce();
  loop_.arm_in(c.limit, options.auth_limit_ns);
  c.append({.what = kind::hello}, to_json(hello_message{1, protocol_version, boot_id_, identity_.peer_id, c.nonce, index_of(c)}), {});
}

proof_input agent_router_link::impl::proof_of(const agent_channel &c) const {
  return {.version = protocol_version, .router_curve = router_key_, .agent_curve = identity_.curve_public, .peer_id = identity_.peer_id,
          .agent_nonce = c.nonce, .router_nonce = c.router_nonce, .metadata_hash = c.metadata_hash};
}

void agent_router_link::impl::on_frame(hive_peer peer, std::string_view frame) {
  dial_slot *s = slot_of(peer);
  if (!s || !s->link || s->link->peer() != peer) return;
  agent_channel &c = *s->link;  // lives to the end of the turn
  frame_reader reader(frame);
  record r;
  while (c.at != agent_channel::phase::gone) {
    switch (reader.next(r)) {
      case frame_reader::outcome::end: return;
      case frame_reader::outcome::bad: return drop(c, "protocol fault: a malformed record");
      case frame_reader::outcome::record: break;
    }
    const bool of_stream = r.what >= kind::open && r.what <= kind::reset;
    if (!of_stream) on_link_record(c, r);
    else if (c.at == agent_channel::phase::welcomed) on_stream_record(c, r);
  }
}

void agent_router_link::impl::on_link_record(agent_channel &c, const record &r) {
  switch (r.what) {
    case kind::challenge: return on_challenge(c, r);
    case kind::welcome: return on_welcome(c, r);
    case kind::kick: return on_kick(c, r);
    case kind::goaway: return drop(c, "the router is going away");
    case kind::ping:
      if (c.at == agent_channel::phase::welcomed) send_pong(c, r.seq);
      return;
    case kind::pong: return c.on_pong(r.seq);
    case kind::ack: return;
    case kind::drain:
      if (c.at == agent_channel::phase::welcomed) handler.on_drain_requested(r.aux);
      return;
    default:
      if ((r.flags & flag_critical) != 0)
        drop(c, "protocol fault: a critical record of unknown kind " + std::to_string(static_cast<int>(r.what)));
      return;
  }
}

void agent_router_link::impl::on_challenge(agent_channel &c, const record &r) {
  const auto m = parse_challenge(r.meta);
  if (!m || m->version != protocol_version || m->echo != c.nonce || c.at == agent_channel::phase::leaving)
    return drop(c, "protocol fault: a CHALLENGE that does not answer our HELLO");
  if (router_boot_ != m->boot_id) {
    // The router of this link is not the one of the others: theirs are leftovers of its last life.
    if (c.index != 0) return drop(c, "this worker belongs to another start of the router");
    router_boot_ = m->boot_id;
    for (auto &s : slots)
      if (s->index != 0 && s->link) drop(*s->link, "the router was restarted");
  }
  c.router_nonce = m->nonce;
  const std::string metadata = index_of(c) == 0 ? handler.metadata() : std::string();
  if (metadata.size() > most_metadata) {
    note(level::warning, "the agent's metadata has " + std::to_string(metadata.size()) + " bytes, at most 49152 can be sent");
    return drop(c, "the agent's metadata is too large");
  }
  c.metadata_hash = sha256(metadata);
  // On a live link the router asks again until one of the secrets is one of its own, the newest first.
  if (c.at == agent_channel::phase::welcomed) c.proof_key = proof_keys_[c.challenges++ % proof_keys_.size()];
  else c.proof_key = proof_keys_[secret_at_];
  if (c.at == agent_channel::phase::greeting) c.at = agent_channel::phase::proving;
  c.append({.what = kind::auth}, to_json(auth_message{make_proof(c.proof_key, role::agent, proof_of(c)), options.stream_window}), metadata);
}

void agent_router_link::impl::on_welcome(agent_channel &c, const record &r) {
  const bool first = c.at == agent_channel::phase::proving;
  const auto m = parse_welcome(r.meta);
  if (!m || (!first && c.at != agent_channel::phase::welcomed)) return drop(c, "protocol fault: a WELCOME out of place");
  if (find_proof({&c.proof_key, 1}, role::router, proof_of(c), m->proof) < 0)
    return drop(c, "the router did not prove that it holds the shared secret");
  c.challenges = 0;
  for (size_t i = 0; i < proof_keys_.size(); ++i)
    if (equal_secret(proof_keys_[i], c.proof_key)) secret_at_ = i;
  if (!first) return;  // a renewal changes nothing else
  c.limit.disarm();
  c.at = agent_channel::phase::welcomed;
  c.epoch = m->epoch;
  c.body_window = m->body_window;
  c.start_windows(m->link_window);
  c.start_pings(m->ping_ms * ns_per_ms);
  dial_slot &mine = *slots[c.index];
  mine.failures = 0;
  mine.lacking.disarm();
  if (c.index == 0) {
    heartbeat_ns = m->heartbeat_ms * ns_per_ms;
    slot_release_at_head = m->slot_release_at_head;
    draining = false;
  }
  if (c.index == 0 && !options.part) {
    while (slots.size() > std::max<size_t>(m->endpoints.size(), 1)) {
      auto last = std::move(slots.back());
      if (last->link) {
        slots.back() = std::move(last);
        drop(*slots.back()->link, "the router has fewer workers");
        last = std::move(slots.back());
      }
      std::erase_if(by_peer_, [&](const auto &e) { return e.second == last.get(); });
      for (const hive_peer p : last->attempts) pump.close_peer(p, 0);
      slots.pop_back();
    }
    for (size_t i = 1; i < m->endpoints.size(); ++i) {
      if (i == slots.size()) {
        slots.push_back(std::make_unique<dial_slot>(*this, static_cast<uint32_t>(i), m->endpoints[i]));
        loop_.arm_in(slots[i]->lacking, 5 * ns_per_s);
      }
      slots[i]->address = m->endpoints[i];
      if (slots[i]->link) continue;
      slots[i]->retry.disarm();
      dial(*slots[i]);
    }
  }
  note(level::info, "link " + std::to_string(index_of(c)) + " to the router at " + c.address + " is welcomed");
  all_up_or_not();
}

void agent_router_link::impl::on_kick(agent_channel &c, const record &r) {
  const auto m = parse_kick(r.meta);
  if (!m) return drop(c, "protocol fault: a malformed KICK");
  note(level::warning, "the router at " + c.address + " ends the link: " + m->code + ": " + m->message);
  if (m->final) halt();
  const bool other_secret = m->code == "bad_secret" && next_secret(c);
  drop(c, m->code + ": " + m->message, other_secret ? 0 : m->retry_after_ms > 0 ? m->retry_after_ms * ns_per_ms : never_ns);
  if (m->final)
    for (auto &s : slots)
      if (s->link) drop(*s->link, "the router does not want this agent");
  handler.on_kicked(m->code, m->message, m->final);
}

bool agent_router_link::impl::next_secret(const agent_channel &c) {
  // Another link may have met the same refusal before.
  if (!equal_secret(proof_keys_[secret_at_], c.proof_key)) return true;
  secret_at_ = (secret_at_ + 1) % proof_keys_.size();
  return ++secrets_tried_ % proof_keys_.size() != 0;
}

pong_info agent_router_link::impl::load_now() { return handler.load(); }

void agent_router_link::impl::send_pong(agent_channel &c, uint32_t seq) {
  c.append({.what = kind::pong, .seq = seq}, to_json(load_now()), {});
}

agent_channel *agent_router_link::impl::link_zero() {
  if (options.part && options.part->link_index != 0) return nullptr;
  if (slots.empty() || !slots[0]->link || slots[0]->link->at != agent_channel::phase::welcomed) return nullptr;
  return slots[0]->link.get();
}

agent_router_link::agent_router_link(loop &l, transport_ref t, const identity &id, agent_link_handler &h, const agent_link_options &o)
    : impl_(std::make_unique<impl>(l, t, id, h, o)) {}
agent_router_link::~agent_router_link() = default;

void agent_router_link::start() { impl_->start(); }
void agent_router_link::request_pump() { impl_->pump.request(); }
bool agent_router_link::welcomed() const { return impl_->all_welcomed; }
uint64_t agent_router_link::heartbeat_period_ns() const { return impl_->heartbeat_ns; }
bool agent_router_link::slot_release_at_head() const { return impl_->slot_release_at_head; }
void agent_router_link::goodbye(std::function<void()> done) { impl_->goodbye(std::move(done)); }

void agent_router_link::heartbeat(bool engine_ready, std::string_view reason) {
  if (agent_channel *c = impl_->link_zero())
    c->append({.what = kind::heartbeat}, to_json(heartbeat_message{engine_ready, std::string(reason.substr(0, 1024))}), {});
}

void agent_router_link::signals(const std::vector<signal_value> &values, std::string_view structured_json) {
  agent_channel *c = impl_->link_zero();
  if (!c) return;
  const std::string meta = to_json(values);
  if (meta.size() > max_meta_bytes || structured_json.size() > max_payload_bytes)
    return note(level::warning, "signals of " + std::to_string(meta.size() + structured_json.size()) +
                                    " bytes are not sent: at most 32 KiB of values and 64 KiB of structured parts");
  c->append({.what = kind::signals}, meta, structured_json);
}

void agent_router_link::models(std::string_view metadata_json) {
  agent_channel *c = impl_->link_zero();
  if (!c) return;
  if (metadata_json.size() > max_payload_bytes)
    return note(level::warning, "metadata of " + std::to_string(metadata_json.size()) + " bytes is not sent: at most 64 KiB");
  c->append({.what = kind::models}, {}, metadata_json);
}

void agent_router_link::draining(uint64_t deadline_ms) {
  impl_->draining = true;
  if (agent_channel *c = impl_->link_zero())
    c->append({.what = kind::drain, .aux = static_cast<uint32_t>(std::min<uint64_t>(deadline_ms, UINT32_MAX))}, {}, {});
}

void agent_router_link::set_secrets(std::vector<std::string> secrets) { impl_->set_secrets(std::move(secrets)); }

void agent_router_link::slot_freed() {
  for (auto &s : impl_->slots) {
    if (!s->link || s->link->at != agent_channel::phase::welcomed || !std::exchange(s->link->refused_busy, false)) continue;
    impl_->send_pong(*s->link, 0);
  }
}

}  // namespace hive::link
