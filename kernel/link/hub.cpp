#include "link/hub_impl.hpp"
#include "link/notice.hpp"

namespace hive::link {
namespace {

std::string_view reason_text(int32_t reason) {
  switch (reason) {
    case HIVE_LOST_CLOSED: return "the connection was closed";
    case HIVE_LOST_TIMEOUT: return "no sign of life";
    case HIVE_LOST_REFUSED: return "no connection could be made";
    case HIVE_LOST_AUTH: return "the handshake failed";
    case HIVE_LOST_PROTOCOL: return "an oversized or malformed message";
    default: return "the connection was lost";
  }
}

// The metadata block of OPEN; empty when it does not fit.
std::string open_meta(const open_request &r, uint64_t now) {
  meta_writer m;
  m.add(":method", r.method);
  m.add(":path", r.target);
  m.add(":request-id", r.request_id);
  m.add(":model", r.model);
  m.add(":route", r.route);
  m.add(":length", r.body ? r.body->size() : 0);
  if (r.deadline_ns != 0 && r.deadline_ns != never_ns)
    m.add(":deadline-ms", r.deadline_ns > now ? (r.deadline_ns - now) / ns_per_ms : 0);
  if (r.buffered_head) m.add(":buffered", uint64_t{1});
  for (const auto &f : r.fields) m.add(f.name, f.value);
  return m.ok() ? m.take() : std::string();
}

}  // namespace

router_hub::impl::impl(loop &l, transport_ref network, directory &d, const hub_options &o, transport_ref own)
    : loop_(l), directory_(d), options(o), pump(l, network, *this), strangers_(o.strangers_per_address, o.strangers),
      next_epoch_(static_cast<uint16_t>(random_u64())) {
  if (own.table != nullptr) own_pump.emplace(l, own, *this, own_process_mark);
}

router_hub::impl::~impl() {
  *alive_ = false;
  for (auto &[peer, l] : links_) {
    l->shut();
    for (auto &[id, s] : l->streams) s->forget();
  }
  for (auto &p : probes_) p->answer(false);
  pump.stop(0);
  if (own_pump) own_pump->stop(0);
}

status router_hub::impl::start() {
  if (options.secrets.empty() && options.own_secret.empty())
    return fail(errc::invalid, "the link needs a shared secret of at least 32 bytes: set HIVENET_ROUTER_JWT_SECRET or --jwt-secret-file");
  keys_ = options.keys;
  if (keys_.public_key == key32{}) keys_ = router_keys(options.secrets.empty() ? options.own_secret : options.secrets.front());
  for (const auto &s : options.secrets) proof_keys_.push_back(proof_key(s));
  if (!options.own_secret.empty()) own_proof_keys_.push_back(proof_key(options.own_secret));
  wipe(options.secrets);
  hive::wipe(options.own_secret);
  status s;
  if (own_pump) s = own_pump->start(options.worker, options.workers, keys_.secret_key, keys_.public_key, nullptr);
  if (s && pump.usable()) s = pump.start(options.worker, options.workers, keys_.secret_key, keys_.public_key, nullptr);
  return s;
}

hub_link *router_hub::impl::find(std::string_view peer_id) {
  const auto it = by_peer_id_.find(peer_id);
  return it == by_peer_id_.end() ? nullptr : it->second;
}

std::unique_ptr<router_stream> router_hub::impl::open(std::string_view peer_id, const open_request &request, stream_events &events,
                                                      std::unique_ptr<held> keep, stream_failure &why) {
  hub_link *l = find(peer_id);
  if (!l || l->is_shut() || l->expired) {
    why = {.why = cause::link_lost,
           .message = l && l->expired ? "the agent's session has expired and is not renewed yet" : "the agent has no link to this worker"};
    return nullptr;
  }
  std::string meta = open_meta(request, now_ns());
  if (meta.empty()) {
    why = {.why = cause::protocol, .message = "the request's header fields exceed the link's 32 KiB"};
    return nullptr;
  }
  const uint64_t id = make_stream_id(l->epoch, options.worker, ++l->counter);
  auto stream = std::make_unique<hub_stream>(*this, *l, id, request, std::move(meta), events, std::move(keep));
  hub_stream &s = *stream;
  l->streams.emplace(id, std::move(stream));
  ++counters.streams_opened;
  ++counters.streams_open;
  auto handle = std::make_unique<hub_stream_handle>(s);
  s.begin();
  return handle;
}

void router_hub::impl::probe(std::string_view peer_id, std::function<void(bool)> reply) {
  hub_link *l = find(peer_id);
  if (!l || l->is_shut()) {
    reply(false);
    return;
  }
  auto wait = std::make_unique<probe_wait>(l->peer(), std::move(reply));
  loop_.arm_in(wait->timer, ns_per_s);
  probes_.push_back(std::move(wait));
  const hive_peer peer = l->peer();
  l->ping_now();
  l->flush();
  if (l->is_shut()) answer_probes(peer, false);
}

void router_hub::impl::answer_probes(hive_peer peer, bool alive) {
  for (size_t i = 0; i < probes_.size(); ++i)
    if (probes_[i]->peer == peer) probes_[i]->answer(alive);
  loop_.at_turn_end(*this);
}

void router_hub::impl::kick_peer(std::string_view peer_id, const kick_message &m) {
  if (hub_link *l = find(peer_id)) kick(*l, m);
}

void router_hub::impl::kick_link(hive_peer peer, const kick_message &m) {
  const auto it = links_.find(peer);
  if (it != links_.end()) kick(*it->second, m);
}

void router_hub::impl::drain(std::string_view peer_id, uint64_t deadline_ms) {
  if (hub_link *l = find(peer_id)) l->append({.what = kind::drain, .aux = static_cast<uint32_t>(std::min<uint64_t>(deadline_ms, UINT32_MAX))}, {}, {});
}

void router_hub::impl::shut_down(uint32_t linger_ms) {
  while (!links_.empty()) {
    hub_link &l = *links_.begin()->second;
    l.append({.what = kind::goaway}, {}, {});
    l.flush();
    drop(l, "the router is shutting down", cause::shutdown);
  }
  pump.stop(linger_ms);
  if (own_pump) own_pump->stop(linger_ms);
}

void router_hub::impl::on_peer(hive_peer peer, const key32 &key, std::string_view address) {
  const bool own = (peer & own_process_mark) != 0;
  std::string group = own ? std::string() : address_group(address);
  if (!own && !admit_stranger(peer, group, address)) return;
  auto link = std::make_unique<hub_link>(*this, peer, key, own ? std::string_view("this process") : address, std::move(group));
  link->counted_as_stranger = !own;
  loop_.arm_in(link->limit, options.auth_limit_ns);
  links_[peer] = std::move(link);
}

void router_hub::impl::on_frame(hive_peer peer, std::string_view frame) {
  const auto it = links_.find(peer);
  if (it == links_.end()) return;
  hub_link &l = *it->second;  // lives to the end of the turn whatever happens below
  ++counters.in.frames;
  counters.in.bytes += frame.size();
  frame_ns = now_ns();
  if (l.at < hub_link::phase::welcomed && frame.size() > 64 * 1024) return protocol_fault(l, "a frame over 64 KiB before authentication");
  frame_reader reader(frame);
  record r;
  while (l.at != hub_link::phase::gone) {
    switch (reader.next(r)) {
      case frame_reader::outcome::end: return;
      case frame_reader::outcome::bad: return protocol_fault(l, "a malformed record");
      case frame_reader::outcome::record: break;
    }
    ++counters.in.records;
    const bool of_stream = r.what >= kind::open && r.what <= kind::reset;
    if (of_stream && l.at == hub_link::phase::welcomed) on_stream_record(l, r);
    else on_link_record(l, r);
  }
}

void router_hub::impl::on_peer_lost(hive_peer peer, int32_t reason, std::string_view text) {
  const auto it = links_.find(peer);
  if (it == links_.end()) return;
  std::string why(reason_text(reason));
  if (!text.empty()) why.append(": ").append(text);
  it->second->lost = true;
  it->second->shut();
  drop(*it->second, why);
}

void router_hub::impl::on_turn_end() {
  auto failing = std::exchange(failing_, {});
  for (const hive_peer peer : failing) {
    const auto it = links_.find(peer);
    if (it != links_.end()) drop(*it->second, it->second->failing);
  }
  std::erase_if(probes_, [](const auto &p) { return !p->reply; });
  // Destroying a stream or a link calls nobody: what they held is gone already.
  buried_streams_.clear();
  buried_links_.clear();
}

router_hub::router_hub(loop &l, transport_ref network, directory &d, const hub_options &o, transport_ref own)
    : impl_(std::make_unique<impl>(l, network, d, o, own)) {}
router_hub::~router_hub() = default;

status router_hub::start() { return impl_->start(); }
result<std::string> router_hub::listen(const std::string &address) { return impl_->pump.listen(address); }
result<std::string> router_hub::listen_own(const std::string &address) { return impl_->own_pump->listen(address); }
void router_hub::set_endpoints(std::vector<std::string> all_workers) { impl_->endpoints = std::move(all_workers); }
void router_hub::request_pump() { impl_->pump.request(); }
void router_hub::request_own_pump() { impl_->own_pump->request(); }

std::unique_ptr<router_stream> router_hub::open(std::string_view peer_id, const open_request &request, stream_events &events,
                                                std::unique_ptr<held> keep, stream_failure &why) {
  return impl_->open(peer_id, request, events, std::move(keep), why);
}

void router_hub::probe(std::string_view peer_id, std::function<void(bool alive)> reply) { impl_->probe(peer_id, std::move(reply)); }
void router_hub::kick(std::string_view peer_id, std::string_view code, std::string_view message, uint64_t retry_after_ms, bool final) {
  impl_->kick_peer(peer_id, {std::string(code), std::string(message), retry_after_ms, final});
}
void router_hub::kick_link(link_id id, std::string_view code, std::string_view message, uint64_t retry_after_ms, bool final) {
  if (id.worker == impl_->options.worker) impl_->kick_link(id.peer, {std::string(code), std::string(message), retry_after_ms, final});
}
void router_hub::drain(std::string_view peer_id, uint64_t deadline_ms) { impl_->drain(peer_id, deadline_ms); }
void router_hub::set_denied(std::vector<std::array<uint8_t, 32>> keys) {
  if (!impl_->pump.usable()) return;  // agents of this process alone: nobody comes whom it could deny
  if (const status s = impl_->pump.set_denied(keys); !s) note(level::warning, s.text());
}
void router_hub::set_secrets(std::vector<std::string> secrets) { impl_->set_secrets(std::move(secrets)); }
void router_hub::shut_down(uint64_t linger_ms) { impl_->shut_down(static_cast<uint32_t>(linger_ms)); }

const hub_counters &router_hub::counters() const { return impl_->counters; }

}  // namespace hive::link
