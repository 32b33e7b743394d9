// One instance: its mailbox, its peers. Belongs to the loop of its worker; instances on two loops meet only in network.hpp.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "network.hpp"

namespace hive::transport_inproc {

inline constexpr size_t max_message_bytes = 256 * 1024;  // as over ZeroMQ

class transport {
 public:
  transport(const hive_host *host, uint32_t hwm) : host_(host), hwm_(hwm), box_(std::make_shared<mailbox>(host)) {}
  ~transport() { stop(0); }
  transport(const transport &) = delete;
  transport &operator=(const transport &) = delete;

  // The first three return what went wrong, or empty.
  std::string start(const hive_transport_setup &);
  std::string listen(std::string_view address, std::string &bound);
  std::string connect(std::string_view address, hive_peer &out);
  int fd() const { return box_->fd(); }
  uint64_t pump(uint32_t max_messages, uint64_t max_ns);
  hive_status send(hive_peer, const hive_bytes *parts, size_t count);
  void close_peer(hive_peer, uint32_t linger_ms);
  void set_denied(const uint8_t *keys, size_t count);
  void stop(uint32_t linger_ms);

 private:
  struct link {
    std::shared_ptr<wire> on;
    int own = 0;            // our index in the wire
    bool up = false;        // on_peer raised
    bool closing = false;   // close_peer was called
    std::string address;    // that was dialled
  };
  void handle(event &);
  void greet(event &);
  void deliver(hive_peer, link &, event &);
  void lose(hive_peer, int32_t reason, std::string_view text);

  const hive_host *host_;
  const uint32_t hwm_;      // messages on their way to one side of a wire
  std::shared_ptr<mailbox> box_;
  const hive_transport_events *events_ = nullptr;
  key32 own_{};             // computed from the secret: having it is the proof
  key32 router_{};
  bool pinned_ = false;
  bool stopped_ = false;
  hive_peer last_peer_ = 0;
  std::set<key32> denied_;
  std::unordered_map<hive_peer, link> links_;
  std::deque<event> inbox_; // taken from box_, not yet handled
};

}  // namespace hive::transport_inproc
