// A transport inside the test: messages go from queue to queue within one loop, and the test may hold, lose or break
// them. It checks keys as CURVE would. The factory is the seam by which the same tests run over real transports.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "link/identity.hpp"
#include "link/router_hub.hpp"

namespace hive::link::testing {

// One transport instance for one end of a link.
class transport_end {
 public:
  virtual ~transport_end() = default;
  virtual transport_ref ref() = 0;
  std::function<void()> request_pump = [] {};
};

class transport_factory {
 public:
  virtual ~transport_factory() = default;
  virtual std::unique_ptr<transport_end> make() = 0;
};

class fake_network;

class fake_end final : public transport_end {
 public:
  explicit fake_end(fake_network &n) : net(n) {}
  ~fake_end() override;
  transport_ref ref() override { return {&table, this}; }

  struct event {
    enum class kind { peer, message, lost } what;
    hive_peer peer;
    std::string bytes;   // message, or address, or reason
    key32 key{};
    int32_t reason = 0;
    uint64_t due_ns = 0; // not before
  };

  void push(event e) {
    events.push_back(std::move(e));
    request_pump();
  }

  static const hive_transport_vtable table;
  fake_network &net;
  const hive_transport_events *to = nullptr;
  key32 public_key{}, router_key{};
  std::deque<event> events;
  std::string bound;
  std::set<key32> denied;
};

class fake_network {
 public:
  struct connection {
    fake_end *dialler;
    fake_end *listener;
    hive_peer at_dialler, at_listener;
    bool open = true;
    bool mute_to_listener = false, mute_to_dialler = false;  // swallowed without a word
    uint64_t busy_until_ns[2] = {};                          // the line to the dialler, to the listener
  };
  std::string from_host = "127.0.0.1";  // what listeners see of a dialler
  bool full = false;          // every send answers FULL
  int starts = 0;             // of all ends
  std::set<int> refused_starts;
  int failing_pumps = 0;      // that many fail
  bool held = false;          // messages wait until release()
  uint64_t bits_per_s = 0;    // of each direction of a connection; 0 = any
  uint64_t delay_ns = 0;      // one way
  uint64_t in_pipe = 0, max_in_pipe = 0;
  std::function<void(const connection &, bool to_listener, std::string &)> spy;

  void release() {
    held = false;
    auto all = std::exchange(waiting_, {});
    for (auto &[end, e] : all) end->push(std::move(e));
  }
  void break_all() {
    for (auto &c : connections) sever(*c, HIVE_LOST_CLOSED);
  }
  void sever(connection &c, int32_t reason) {
    if (!c.open) return;
    c.open = false;
    if (c.dialler) c.dialler->push({fake_end::event::kind::lost, c.at_dialler, "severed", {}, reason});
    if (c.listener) c.listener->push({fake_end::event::kind::lost, c.at_listener, "severed", {}, reason});
  }
  connection *find(const fake_end &e, hive_peer p) {
    for (auto &c : connections)
      if ((c->dialler == &e && c->at_dialler == p) || (c->listener == &e && c->at_listener == p)) return c.get();
    return nullptr;
  }
  void deliver(connection &c, bool to_listener, fake_end &end, fake_end::event e) {
    if (bits_per_s != 0 || delay_ns != 0) {
      uint64_t &busy = c.busy_until_ns[to_listener];
      busy = std::max(busy, now_ns()) + (bits_per_s == 0 ? 0 : e.bytes.size() * 8 * ns_per_s / bits_per_s);
      e.due_ns = busy + delay_ns;
    }
    if (held) waiting_.emplace_back(&end, std::move(e));
    else end.push(std::move(e));
  }

  std::map<std::string, fake_end *> listeners;
  std::set<std::string> silent;      // whoever dials there hears nothing, ever
  std::set<hive_peer> unanswered;    // of those, until they are closed
  std::vector<std::unique_ptr<connection>> connections;
  hive_peer next_peer = 1;
  int next_port = 50051;

 private:
  std::vector<std::pair<fake_end *, fake_end::event>> waiting_;
};

inline fake_end::~fake_end() {
  for (auto &c : net.connections) {
    if (c->dialler != this && c->listener != this) continue;
    if (c->dialler == this) c->dialler = nullptr;
    if (c->listener == this) c->listener = nullptr;
    net.sever(*c, HIVE_LOST_CLOSED);
  }
  std::erase_if(net.listeners, [this](const auto &l) { return l.second == this; });
}

inline const hive_transport_vtable fake_end::table = {
    sizeof(hive_transport_vtable), 0,
    [](void *self, const hive_transport_setup *setup, const hive_error_sink *) noexcept -> hive_status {
      auto &e = *static_cast<fake_end *>(self);
      if (e.to != nullptr || e.net.refused_starts.contains(++e.net.starts)) return HIVE_E_UNAVAILABLE;
      e.to = setup->events;
      std::memcpy(e.public_key.data(), setup->public_key, 32);
      if (setup->router_key) std::memcpy(e.router_key.data(), setup->router_key, 32);
      return HIVE_OK;
    },
    [](void *self, hive_str, const hive_text_sink *where, const hive_error_sink *) noexcept -> hive_status {
      auto &e = *static_cast<fake_end *>(self);
      e.bound = "127.0.0.1:" + std::to_string(e.net.next_port++);
      e.net.listeners[e.bound] = &e;
      where->put(where->ctx, {e.bound.data(), e.bound.size()});
      return HIVE_OK;
    },
    [](void *self, hive_str address, hive_peer *out, const hive_error_sink *) noexcept -> hive_status {
      auto &e = *static_cast<fake_end *>(self);
      *out = e.net.next_peer++;
      const std::string where(address.ptr, address.len);
      if (e.net.silent.contains(where)) {
        e.net.unanswered.insert(*out);
        return HIVE_OK;
      }
      const auto it = e.net.listeners.find(where);
      if (it == e.net.listeners.end()) {
        e.push({event::kind::lost, *out, "nobody listens", {}, HIVE_LOST_REFUSED});
      } else if (it->second->denied.contains(e.public_key)) {
        e.push({event::kind::lost, *out, "the router refused this key", {}, HIVE_LOST_AUTH});
      } else if (it->second->public_key != e.router_key) {
        e.push({event::kind::lost, *out, "keys do not match", {}, HIVE_LOST_AUTH});
      } else {
        auto c = std::make_unique<fake_network::connection>(fake_network::connection{&e, it->second, *out, e.net.next_peer++});
        it->second->push({event::kind::peer, c->at_listener, e.net.from_host + ":4" + std::to_string(c->at_listener), e.public_key, 0});
        e.push({event::kind::peer, *out, it->first, it->second->public_key, 0});
        e.net.connections.push_back(std::move(c));
      }
      return HIVE_OK;
    },
    [](void *) noexcept -> int { return -1; },
    [](void *self, uint32_t most, uint64_t, uint64_t *next) noexcept -> hive_status {
      auto &e = *static_cast<fake_end *>(self);
      if (e.net.failing_pumps > 0) {
        --e.net.failing_pumps;
        return HIVE_E_EXHAUSTED;
      }
      const uint64_t now = now_ns();
      while (most-- > 0 && !e.events.empty() && e.events.front().due_ns <= now) {
        event ev = std::move(e.events.front());
        e.events.pop_front();
        switch (ev.what) {
          case event::kind::peer: e.to->on_peer(e.to->ctx, ev.peer, ev.key.data(), {ev.bytes.data(), ev.bytes.size()}); break;
          case event::kind::lost: e.to->on_lost(e.to->ctx, ev.peer, ev.reason, {ev.bytes.data(), ev.bytes.size()}); break;
          case event::kind::message: {
            e.net.in_pipe -= ev.bytes.size();
            // A copy of its own, so that the sanitizer sees whoever keeps a view.
            const std::unique_ptr<uint8_t[]> exact(new uint8_t[ev.bytes.size()]);
            std::memcpy(exact.get(), ev.bytes.data(), ev.bytes.size());
            const hive_message m{sizeof m, 0, {exact.get(), ev.bytes.size()}, nullptr, nullptr};
            e.to->on_message(e.to->ctx, ev.peer, &m);
            break;
          }
        }
      }
      *next = e.events.empty() ? UINT64_MAX : e.events.front().due_ns <= now ? 0 : e.events.front().due_ns;
      return HIVE_OK;
    },
    [](void *self, hive_peer peer, const hive_bytes *parts, size_t count) noexcept -> hive_status {
      auto &e = *static_cast<fake_end *>(self);
      auto *c = e.net.find(e, peer);
      if (!c || !c->open) return HIVE_GONE;
      if (e.net.full) return HIVE_FULL;
      std::string bytes;
      for (size_t i = 0; i < count; ++i) bytes.append(reinterpret_cast<const char *>(parts[i].ptr), parts[i].len);
      const bool to_listener = c->dialler == &e;
      if (e.net.spy) e.net.spy(*c, to_listener, bytes);
      if (bytes.empty() || (to_listener ? c->mute_to_listener : c->mute_to_dialler)) return HIVE_OK;
      e.net.in_pipe += bytes.size();
      e.net.max_in_pipe = std::max(e.net.max_in_pipe, e.net.in_pipe);
      fake_end &other = to_listener ? *c->listener : *c->dialler;
      e.net.deliver(*c, to_listener, other, {event::kind::message, to_listener ? c->at_listener : c->at_dialler, std::move(bytes)});
      return HIVE_OK;
    },
    [](void *self, hive_peer peer, uint32_t) noexcept {
      auto &e = *static_cast<fake_end *>(self);
      e.net.unanswered.erase(peer);
      if (auto *c = e.net.find(e, peer)) e.net.sever(*c, HIVE_LOST_CLOSED);
    },
    [](void *self, const uint8_t *keys, size_t count) noexcept -> hive_status {
      auto &denied = static_cast<fake_end *>(self)->denied;
      denied.clear();
      for (size_t i = 0; i < count; ++i) {
        key32 k;
        std::memcpy(k.data(), keys + 32 * i, 32);
        denied.insert(k);
      }
      return HIVE_OK;
    },
    [](void *self, uint32_t) noexcept {
      auto &e = *static_cast<fake_end *>(self);
      for (auto &c : e.net.connections)
        if (c->dialler == &e || c->listener == &e) e.net.sever(*c, HIVE_LOST_CLOSED);
      e.events.clear();
      e.to = nullptr;
      std::erase_if(e.net.listeners, [&](const auto &l) { return l.second == &e; });
    }};

class fake_factory final : public transport_factory {
 public:
  std::unique_ptr<transport_end> make() override { return std::make_unique<fake_end>(net); }
  fake_network net;
};

}  // namespace hive::link::testing
