// The listening half: one ROUTER socket, its peers and how each of them is lost exactly once. Belongs to the loop.
//
// libzmq tells a ROUTER nothing of connections: a peer begins with its first message and is over when its routing id is
// unknown (EHOSTUNREACH) and everything it had sent was read. DISCONNECTED names only a descriptor, which may have been
// reused by then, so it makes its peers suspect: an empty frame to them answers whether they are there.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "address.hpp"
#include "core.hpp"
#include "gatekeeper.hpp"

namespace hive::transport_zmq {

class router_side {
 public:
  explicit router_side(core &c) : core_(c) {}
  ~router_side() { close(0); }

  // Puts the bound HOST:PORT into `bound`; returns what went wrong, or empty.
  std::string listen(const literal &address, std::string &bound);
  bool listening() const { return socket_ != nullptr; }
  bool touched() const { return touched_; }  // sent since its last look at the socket
  bool owns(hive_peer id) const { return peers_.contains(id); }
  // Whether everything was done; `wake` is lowered to when it wants to be called again.
  bool pump(budget &, uint64_t &wake);
  hive_status send(hive_peer, const hive_bytes *parts, size_t count);
  void close_peer(hive_peer, uint32_t linger_ms);
  void set_denied(std::span<const key32> keys);
  // Raises on_lost for every peer, lets libzmq send for at most linger_ms in the background.
  void stop(uint32_t linger_ms);

 private:
  struct peer {
    hive_peer id = 0;
    uint32_t routing = 0;
    int fd = -1;
    connection_name name;
    char key_text[41] = {};       // Z85, as ZAP bound it to the connection
    bool over = false;            // on_lost raised; the routing id is not gone yet
    bool closing = false;         // close_peer was called
    bool goodbye_sent = false;
    bool blocked = false;         // HIVE_FULL was answered
    bool suspect = false;         // its descriptor was disconnected, or may have been
    bool unreachable = false;     // libzmq does not know the routing id any more
    bool watched = false;         // in watched_
    uint64_t deadline_ns = 0;     // of closing
    uint64_t probe_at_ns = 0;
    int probes = 0;
  };

  bool drain(budget &);
  bool receive_one(budget &);     // false: nothing to read
  peer *greet(uint32_t routing, message *first);
  void cut_stranger(message *);
  int send_frame(peer &, zmq_msg_t *last, bool as_goodbye);
  int probe(peer &);
  bool step(peer &, uint64_t now, budget &);  // true: became unreachable
  bool step_all(uint64_t now, budget &);
  void finish_unreachable();
  uint64_t wake_of(const peer &, uint64_t now) const;
  void suspect(peer &);
  void watch(peer &);
  void lose(peer &, int32_t reason, std::string_view text);
  void close(uint32_t linger_ms);

  core &core_;
  std::unique_ptr<gatekeeper> gate_;
  void *socket_ = nullptr;
  std::string domain_;            // of ZAP; empty until listen
  std::set<key32> denied_;
  uint16_t port_ = 0;
  bool touched_ = false;          // a send may have eaten the readiness edge
  std::unordered_map<hive_peer, std::unique_ptr<peer>> peers_;
  std::unordered_map<uint32_t, peer *> by_routing_;
  std::vector<peer *> watched_;   // whatever needs a look besides messages
  std::vector<int> gone_fds_;
};

}  // namespace hive::transport_zmq
