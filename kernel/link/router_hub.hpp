// The router's end of all links of one worker: drives one transport instance, authenticates agents, keeps the streams.
// One a worker; everything belongs to that worker's loop unless tagged.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.hpp"
#include "base/status.hpp"
#include "hive/abi/transport.h"
#include "link/counters.hpp"
#include "link/directory.hpp"
#include "link/identity.hpp"
#include "link/stream.hpp"

namespace hive::link {

struct hub_options {
  std::vector<std::string> secrets;          // newest first; proofs of any are accepted
  curve_pair keys{};                         // the router's; zero = derived from the first secret
  std::string own_secret;                    // what agents of this process prove; empty = as all others
  uint32_t strangers = 256;                  // connections without a proof
  uint32_t strangers_per_address = 8;        // of one IPv4 address or IPv6 /56; loopback is not counted
  uint64_t session_ttl_ns = 3600 * ns_per_s; // renewal at ttl - 5 min, at ttl / 2 below that
  uint64_t heartbeat_ns = 5 * ns_per_s;
  uint64_t ping_ns = ns_per_s;               // three missed PONGs: the link is lost
  uint64_t open_limit_ns = ns_per_s;         // no ACCEPT/HEAD/REFUSE; 3x while other records keep arriving
  uint64_t closing_limit_ns = 5 * ns_per_s;
  uint64_t auth_limit_ns = 3 * ns_per_s;
  uint32_t stream_window = 256 * 1024;
  uint32_t link_window = 1024 * 1024;        // start; 256 KiB .. 8 MiB
  uint64_t write_timeout_ns = 60 * ns_per_s; // no credit for that long, and nobody times the client: client_slow
  bool slot_release_at_head = false;
  uint64_t router_boot_id = 0;               // the same on every worker
  uint32_t worker = 0;
  uint32_t workers = 1;
};

// A transport instance as the plugin host made it: a table and its self. Started, pumped and stopped by the hub.
struct transport_ref {
  const hive_transport_vtable *table = nullptr;
  void *self = nullptr;
};

class router_hub {
 public:
  // `network` brings the agents of other processes; without a table there are none. `own` (may be without one too) brings
  // those of this process.
  router_hub(loop &, transport_ref network, directory &, const hub_options &, transport_ref own = {});
  ~router_hub();

  status start();                                             // derives keys, starts the transports
  result<std::string> listen(const std::string &address);     // on the network; bound HOST:PORT
  result<std::string> listen_own(const std::string &address); // inside the process
  void set_endpoints(std::vector<std::string> all_workers);   // what WELCOME lists, in worker order
  void request_pump();                                        // the host's request_pump of `network` lands here
  void request_own_pump();                                    // and that of `own` here

  // Opens a stream to a welcomed agent. Null and `why` when there is no link on this worker or the transport is full;
  // `keep` is then destroyed at once. Events come later, never from inside this call.
  std::unique_ptr<router_stream> open(std::string_view peer_id, const open_request &, stream_events &, std::unique_ptr<held> keep,
                                      stream_failure &why);

  // Called through the loop by the registry:
  void probe(std::string_view peer_id, std::function<void(bool alive)> reply);  // PING all its links here, 1 s
  void kick(std::string_view peer_id, std::string_view code, std::string_view message, uint64_t retry_after_ms, bool final);
  void kick_link(link_id, std::string_view code, std::string_view message, uint64_t retry_after_ms, bool final);
  void drain(std::string_view peer_id, uint64_t deadline_ms);
  // Keys that get no connection any more; whoever is connected stays until it is kicked.
  void set_denied(std::vector<std::array<uint8_t, 32>> keys);
  // Proofs of these are accepted from now on, newest first. All agents are asked to prove one again, with an unchanged list those
  // that have not proven its newest; whose secret is gone and who does not answer with another within 10 s is kicked. The router's
  // CURVE key stays.
  void set_secrets(std::vector<std::string> secrets);
  void shut_down(uint64_t linger_ms);                          // GOAWAY everywhere, then stop

  const hub_counters &counters() const;                        // any thread, for as long as the hub lives

  class impl;  // opaque; named by the room's own files

 private:
  std::unique_ptr<impl> impl_;
};

}  // namespace hive::link
