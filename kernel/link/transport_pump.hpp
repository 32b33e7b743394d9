// Drives one transport instance from a loop: readiness of its descriptor, the host's request_pump, its own next wake-up,
// all within a budget per turn. Everything belongs to the loop; events come only from inside a pump (and stop).
//
// A transport is C and passes no exception on. One that comes out of the owner while it hears of a peer is logged and costs that
// connection: the owner hears that it is lost, and nothing of it any more.
#pragma once

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.hpp"
#include "base/status.hpp"
#include "hive/abi/transport.h"
#include "link/identity.hpp"
#include "link/router_hub.hpp"

namespace hive::link {

// What a transport tells; borrowed for the call.
class transport_owner {
 public:
  virtual void on_peer(hive_peer peer, const key32 &key, std::string_view address) = 0;
  virtual void on_frame(hive_peer peer, std::string_view frame) = 0;
  virtual void on_peer_lost(hive_peer peer, int32_t reason, std::string_view text) = 0;

 protected:
  ~transport_owner() = default;
};

class transport_pump final : private turn_task, private loop_timer {
 public:
  static constexpr uint32_t budget_messages = 64;
  static constexpr uint64_t budget_ns = ns_per_ms;
  static constexpr uint64_t failed_pause_ns = 100 * ns_per_ms;  // after a pump that failed

  // `mark` is added to the names of this transport's peers, so that one owner may drive two transports. A peer whose name
  // has own_process_mark without it is closed.
  transport_pump(loop &l, transport_ref t, transport_owner &owner, hive_peer mark = 0);
  ~transport_pump();

  // May be called again after stop (an agent that tries its next secret).
  status start(uint32_t worker, uint32_t workers, const key32 &secret_key, const key32 &public_key, const key32 *router_key);
  bool usable() const { return transport_.table != nullptr; }
  bool started() const { return started_; }
  result<std::string> listen(const std::string &address);
  result<hive_peer> connect(const std::string &address);
  hive_status send(hive_peer peer, const hive_bytes *parts, size_t count) { return transport_.table->send(transport_.self, peer ^ mark_, parts, count); }
  void close_peer(hive_peer peer, uint32_t linger_ms) { transport_.table->close_peer(transport_.self, peer ^ mark_, linger_ms); }
  status set_denied(const std::vector<key32> &keys);
  void request() { if (started_) loop_.at_turn_end(*this); }
  // Not from inside an event. on_peer_lost is raised for the peers that are left.
  void stop(uint32_t linger_ms);

 private:
  void on_turn_end() override { pump(); }
  void on_timer() override { pump(); }
  void pump();
  void pump_failed(hive_status code);
  void owner_threw(hive_peer peer) noexcept;
  bool has_broken(hive_peer peer) const { return !broken_.empty() && std::find(broken_.begin(), broken_.end(), peer) != broken_.end(); }
  void wait_readable();

  loop &loop_;
  transport_ref transport_;
  transport_owner &owner_;
  const hive_peer mark_;
  hive_transport_events events_{};
  std::optional<boost::asio::posix::stream_descriptor> descriptor_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // outlives handlers that are queued when we go
  bool started_ = false;
  bool waiting_ = false;
  bool pumping_ = false;
  std::vector<hive_peer> broken_;  // the owner has heard that they are lost, the transport has yet to say so
  uint64_t failures_ = 0;         // of pump, in a row
  uint64_t next_complaint_ns_ = 0;
};

}  // namespace hive::link
