// What the HTTP listeners of a router share: certificates, which a reload reads again, and what one client may take. Control thread;
// what it hands out is for the listeners' own threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "admin/edge_stats.hpp"
#include "config/edge_settings.hpp"
#include "gateway/trusted_proxies.hpp"
#include "http/peer_limit.hpp"
#include "http/tls_server.hpp"

namespace hive::apps {

// How many connections the HTTP listeners may have, of the descriptors that a process may.
struct connection_shares {
  uint64_t clients;   // the listeners for clients, all workers together
  size_t own;         // each of the operators' listeners
};
// Keeps an eighth, and at least what the operators' listeners may take and 64, for agents, files and what is being closed: libzmq
// aborts when it finds no descriptor. Where that would be more than half, the operators' listeners get a sixteenth each.
connection_shares share_descriptors(uint64_t allowed, size_t own_listeners);

class http_edge {
 public:
  using identity = std::shared_ptr<const http::tls_identity>;

  // `descriptors`: how many this process may have open.
  http_edge(const config::edge_settings &, const gateway::trusted_proxies &, uint64_t descriptors = UINT64_MAX);
  // Reads the certificates, if there are to be any: a listener that should have TLS and cannot does not start.
  status start(std::vector<std::string> &warnings);
  // Reads them again. What is wrong with them leaves all as it was, and is told.
  status reload(std::vector<std::string> &warnings);

  // Null: plain.
  const identity &for_clients() const { return clients_; }
  const identity &for_admin() const { return admin_; }
  const identity &for_metrics() const { return settings_.metrics_tls ? clients_ : none_; }

  uint64_t room_for_clients() const { return shares_.clients; }
  http::server_limits client_limits() const;
  http::server_limits own_limits() const;   // of the operators' listeners
  admin::edge_stats &stats() { return stats_; }
  // Which certificate is whose, for the metrics.
  void note_certificates();

 private:
  status read(identity &clients, identity &admin, std::vector<std::string> &warnings) const;

  const config::edge_settings settings_;
  const connection_shares shares_;
  const std::unique_ptr<http::peer_limit> peers_, own_peers_;   // of clients, null: any number; of the operators' listeners
  identity clients_, admin_;
  const identity none_;
  admin::edge_stats stats_;
};

}  // namespace hive::apps
