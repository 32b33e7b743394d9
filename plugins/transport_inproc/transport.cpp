#include "transport.hpp"

#include <sodium.h>

#include <cstring>
#include <utility>

namespace hive::transport_inproc {

namespace {
void refuse_if(const std::string &why) {
  if (!why.empty()) throw sdk::failure(HIVE_E_UNAVAILABLE, why);
}
}  // namespace

void transport::start(const hive_transport_setup &setup) {
  if (events_ != nullptr) refuse_if("started twice");
  if (setup.secret_key == nullptr || setup.public_key == nullptr || setup.events == nullptr) refuse_if("setup lacks a key or the events");
  if (crypto_scalarmult_base(own_.data(), setup.secret_key) != 0 || std::memcmp(own_.data(), setup.public_key, own_.size()) != 0)
    refuse_if("public_key does not belong to secret_key");
  auto box = std::make_shared<mailbox>(host_);
  if (box->fd() < 0) refuse_if("no descriptor left for the mailbox");
  if (setup.router_key != nullptr) {
    std::memcpy(router_.data(), setup.router_key, router_.size());
    pinned_ = true;
  }
  box_ = std::move(box);
  events_ = setup.events;
}

std::string transport::listen(std::string_view address) {
  if (events_ == nullptr) refuse_if("listen outside of start and stop");
  std::string bound;
  refuse_if(bind_name(address, box_, bound));
  return bound;
}

hive_peer transport::connect(std::string_view address) {
  if (events_ == nullptr) refuse_if("connect outside of start and stop");
  if (!pinned_) refuse_if("connect needs the router's public key in the setup");
  refuse_if(check_address(address));
  auto on = std::make_shared<wire>();
  const hive_peer peer = ++last_peer_;
  on->side[0].box = box_;
  on->side[0].peer = peer;
  on->side[1].box = find_name(address);
  links_.emplace(peer, link{on, 0, false, false, std::string(address)});
  on->dialler = own_;
  on->pin = router_;
  if (on->side[1].box == nullptr || !on->side[1].box->post({event::dialled, on, 1}))
    box_->post({event::refused, on, 0, nullptr, HIVE_LOST_REFUSED, "nobody listens there"});
  return peer;
}

uint64_t transport::pump(uint32_t max_messages, uint64_t max_ns) {
  if (events_ == nullptr) return UINT64_MAX;
  const uint64_t until = host_->now_ns(host_) + max_ns;
  for (uint32_t done = 0; done == 0 || done < max_messages; ++done) {
    if (inbox_.empty()) box_->take_all(inbox_);
    if (inbox_.empty()) return UINT64_MAX;
    event e = std::move(inbox_.front());
    inbox_.pop_front();
    handle(e);
    if (events_ == nullptr) return UINT64_MAX;
    if (done % 16 == 15 && host_->now_ns(host_) >= until) return 0;
  }
  // What came after the inbox was taken has asked for this very pump: it will not ask again.
  if (inbox_.empty()) box_->take_all(inbox_);
  return inbox_.empty() ? UINT64_MAX : 0;
}

void transport::handle(event &e) {
  if (e.what == event::dialled) return greet(e);
  const hive_peer peer = e.on->side[e.to].peer;
  const auto found = links_.find(peer);
  if (found == links_.end()) {
    if (e.body != nullptr) e.body->drop();
    return;
  }
  link &l = found->second;
  switch (e.what) {
    case event::accepted:
      if (l.closing) return;
      l.up = true;
      events_->on_peer(events_->ctx, peer, router_.data(), hive_str{l.address.data(), l.address.size()});
      return;
    case event::message_in:
      return deliver(peer, l, e);
    case event::room:
      if (!l.closing && l.on->open.load()) events_->on_writable(events_->ctx, peer);
      return;
    default:
      return lose(peer, e.reason, e.text);
  }
}

void transport::greet(event &e) {
  const auto refuse = [&](const char *text) {
    e.on->open.store(false);
    e.on->side[0].box->post({event::refused, e.on, 0, nullptr, HIVE_LOST_AUTH, text});
  };
  if (e.on->pin != own_) return refuse("the router has another key");
  if (denied_.contains(e.on->dialler)) return refuse("the router refused this key");
  const hive_peer peer = ++last_peer_;
  e.on->side[1].peer = peer;
  links_.emplace(peer, link{e.on, 1, true, false, {}});
  e.on->side[0].box->post({event::accepted, e.on, 0});
  static constexpr std::string_view address = "127.0.0.1:0";
  events_->on_peer(events_->ctx, peer, e.on->dialler.data(), hive_str{address.data(), address.size()});
}

void transport::deliver(hive_peer peer, link &l, event &e) {
  wire::half &own = l.on->side[l.own];
  if (own.queued.fetch_sub(1) - 1 <= hwm_ / 2 && own.starved.exchange(false))
    l.on->side[1 - l.own].box->post({event::room, l.on, 1 - l.own});
  if (!l.closing) events_->on_message(events_->ctx, peer, e.body);
  e.body->drop();
}

void transport::lose(hive_peer peer, int32_t reason, std::string_view text) {
  const auto node = links_.extract(peer);
  node.mapped().on->open.store(false);
  events_->on_lost(events_->ctx, peer, reason, hive_str{text.data(), text.size()});
}

hive_status transport::send(hive_peer peer, std::span<const hive_bytes> parts) {
  const auto found = links_.find(peer);
  if (found == links_.end()) return HIVE_GONE;
  link &l = found->second;
  if (!l.up || l.closing || !l.on->open.load()) return HIVE_GONE;
  size_t total = 0;
  for (const hive_bytes &part : parts) total += part.len;
  if (total == 0 || total > max_message_bytes) return HIVE_E_ARGUMENT;
  wire::half &other = l.on->side[1 - l.own];
  if (other.queued.load() >= hwm_) {
    other.starved.store(true);
    // The reader may have emptied its queue before it could see the flag: then nobody would clear it.
    if (other.queued.load() > hwm_ / 2 || !other.starved.exchange(false)) return HIVE_FULL;
  }
  message *m = message::make(parts.data(), parts.size(), total);
  other.queued.fetch_add(1);
  if (other.box->post({event::message_in, l.on, 1 - l.own, m})) return HIVE_OK;
  m->drop();
  return HIVE_GONE;
}

// What was sent is in the other mailbox already, in front of the end: there is nothing to wait for.
void transport::close_peer(hive_peer peer, uint32_t) {
  const auto found = links_.find(peer);
  if (found == links_.end() || found->second.closing) return;
  link &l = found->second;
  l.closing = true;
  l.on->open.store(false);
  if (const auto &other = l.on->side[1 - l.own].box; other != nullptr)
    other->post({event::closed, l.on, 1 - l.own, nullptr, HIVE_LOST_CLOSED, "the other side closed the connection"});
  box_->post({event::closed, l.on, l.own, nullptr, HIVE_LOST_CLOSED, "closed"});
}

void transport::set_denied(std::span<const sdk::transport_key> keys) { denied_ = {keys.begin(), keys.end()}; }

void transport::stop(uint32_t) {
  if (events_ == nullptr) return;
  // Not started from here on, whatever an event below calls.
  const hive_transport_events *const events = std::exchange(events_, nullptr);
  const auto box = std::exchange(box_, nullptr);
  pinned_ = false;
  unbind(box.get());
  auto left = std::exchange(inbox_, {});
  for (event &e : box->shut()) left.push_back(std::move(e));
  for (event &e : left) {
    if (e.body != nullptr) e.body->drop();
    if (e.what == event::dialled)
      e.on->side[0].box->post({event::refused, e.on, 0, nullptr, HIVE_LOST_REFUSED, "the listener was stopped"});
  }
  const auto links = std::exchange(links_, {});
  for (const auto &[peer, l] : links) {
    l.on->open.store(false);
    if (const auto &other = l.on->side[1 - l.own].box; other != nullptr && !l.closing)
      other->post({event::closed, l.on, 1 - l.own, nullptr, HIVE_LOST_CLOSED, "the other side was stopped"});
    static constexpr std::string_view text = "the transport was stopped";
    events->on_lost(events->ctx, peer, HIVE_LOST_CLOSED, hive_str{text.data(), text.size()});
  }
}

}  // namespace hive::transport_inproc
