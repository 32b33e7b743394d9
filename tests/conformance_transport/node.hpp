// One transport instance with a host so small that it pumps only when it must: on readiness, on request, at its wake-up
// time. Everything that happens is recorded. One thread at a time.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hive/abi/plugin.h"

namespace hive::conformance {

using key = std::array<uint8_t, HIVE_KEY_BYTES>;
struct key_pair {
  key secret, own;
};
key_pair make_keys();

// A plugin library, loaded as the host would: through its one symbol.
const hive_component *load_component(const std::string &path);

class node {
 public:
  struct seen_peer {
    hive_peer id;
    key from;
    std::string address;
  };
  struct seen_loss {
    hive_peer id;
    int32_t reason;
    std::string text;
  };

  node(const hive_component *, const key_pair &own, std::optional<key> router = {}, const std::string &json = "{}");
  ~node();
  node(const node &) = delete;
  node &operator=(const node &) = delete;

  hive_status listen(const std::string &address);  // fills `bound`
  hive_status dial(const std::string &address, hive_peer &out);
  hive_peer dial(const std::string &address);      // expects success
  hive_status send(hive_peer, std::string_view);
  void close_peer(hive_peer id, uint32_t linger_ms) { table_->close_peer(self_, id, linger_ms); }
  void deny(const std::vector<key> &);
  void stop(uint32_t linger_ms);
  void start(const key_pair &own, std::optional<key> router = {});  // again, after stop
  int fd() const { return table_->fd(self_); }

  void pump(bool told = true);  // not told: only asked for, or its time has come
  bool due() const;            // asked for a pump, or its time has come
  uint64_t wake_ns() const { return wanted_ ? 0 : wake_ns_; }

  // What the plugin has told its host, on whatever thread.
  double metric(const std::string &name) const {
    const std::lock_guard lock(told_mutex_);
    for (const auto &[known, value] : metrics_)
      if (known == name) return value;
    return -1;
  }
  std::vector<std::string> log() const {
    const std::lock_guard lock(told_mutex_);
    return log_;
  }
  int losses_of(hive_peer) const;
  const seen_loss *loss_of(hive_peer) const;
  const std::vector<std::string> &messages_of(hive_peer id) { return messages[id]; }

  std::string bound, error;
  std::vector<seen_peer> peers;
  std::vector<seen_loss> losses;
  std::map<hive_peer, std::vector<std::string>> messages;
  std::map<hive_peer, int> writable;
  std::function<void(hive_peer, const hive_message &)> on_message;  // instead of recording
  int waited_out = 0;  // pumps half a second or more after the last, for no reason but the time: what a lost edge costs
  uint32_t pump_messages = 64;
  uint64_t pump_ns = 1'000'000;

 private:
  mutable std::mutex told_mutex_;
  std::vector<std::string> log_;
  std::vector<std::pair<std::string, double>> metrics_;
  hive_host host_{};
  hive_transport_events events_{};
  const hive_component *component_;
  const hive_transport_vtable *table_;
  void *self_ = nullptr;
  bool stopped_ = false;
  bool in_pump_ = false;
  std::atomic<bool> wanted_{false};  // the thread that pumped it last may ask too
  uint64_t wake_ns_ = 0, pumped_ns_ = 0;
};

uint64_t now_ns();

// Runs the nodes on this thread until `done` or the bound; answers `done`.
bool drive(std::initializer_list<node *> nodes, const std::function<bool()> &done,
           std::chrono::milliseconds bound = std::chrono::seconds(20));

}  // namespace hive::conformance
