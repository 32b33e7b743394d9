// One instance: its mailbox, its peers. Belongs to the loop of its worker; instances on two loops meet only in network.hpp.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "hive/sdk/transport.hpp"
#include "network.hpp"

namespace hive::transport_inproc {

inline constexpr size_t max_message_bytes = 256 * 1024;  // as over ZeroMQ

class transport {
 public:
  static constexpr std::string_view id = "inproc";
  static constexpr std::string_view version = "0.1.0";
  static constexpr std::string_view summary = "Links inside one process, by pointer";
  static constexpr std::string_view schema =
      R"({"type":"object","additionalProperties":false,"properties":{"hwm":{"type":"integer","minimum":1,"maximum":1000000,"default":65536}}})";

  explicit transport(const sdk::setup &s)
      : host_(s.host.raw()), hwm_(static_cast<uint32_t>(s.options.integer("hwm", 65536))) {}
  ~transport() { stop(0); }
  transport(const transport &) = delete;
  transport &operator=(const transport &) = delete;

  void start(const hive_transport_setup &);
  std::string listen(std::string_view address);
  hive_peer connect(std::string_view address);
  int fd() const { return box_ == nullptr ? -1 : box_->fd(); }
  uint64_t pump(uint32_t max_messages, uint64_t max_ns);
  hive_status send(hive_peer, std::span<const hive_bytes> parts);
  void close_peer(hive_peer, uint32_t linger_ms);
  void set_denied(std::span<const sdk::transport_key> keys);
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
  std::shared_ptr<mailbox> box_;                   // null while not started
  const hive_transport_events *events_ = nullptr;  // null while not started
  key32 own_{};             // computed from the secret: having it is the proof
  key32 router_{};
  bool pinned_ = false;
  hive_peer last_peer_ = 0;
  std::set<key32> denied_;
  std::unordered_map<hive_peer, link> links_;
  std::deque<event> inbox_; // taken from box_, not yet handled
};

}  // namespace hive::transport_inproc
