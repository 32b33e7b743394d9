// What the HTTP listeners of a router share: certificates, which a SIGHUP reads again, and what one client may take. Control thread;
// what it hands out is for the listeners' own threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "admin/edge_stats.hpp"
#include "config/edge_settings.hpp"
#include "gateway/trusted_proxies.hpp"
#include "http/peer_limit.hpp"
#include "http/tls_server.hpp"

namespace hive::apps {

class http_edge {
 public:
  using identity = std::shared_ptr<const http::tls_identity>;

  http_edge(const config::edge_settings &, const gateway::trusted_proxies &);
  // Reads the certificates, if there are to be any: a listener that should have TLS and cannot does not start.
  status start(std::vector<std::string> &warnings);
  // Reads them again. What is wrong with them leaves all as it was, and is told.
  status reload(std::vector<std::string> &warnings);

  // Null: plain.
  const identity &for_clients() const { return clients_; }
  const identity &for_admin() const { return admin_; }
  const identity &for_metrics() const { return settings_.metrics_tls ? clients_ : none_; }

  http::server_limits client_limits() const;
  http::server_limits own_limits() const;   // of the operators' listeners
  admin::edge_stats &stats() { return stats_; }
  // Which certificate is whose, for the metrics.
  void note_certificates();

 private:
  status read(identity &clients, identity &admin, std::vector<std::string> &warnings) const;

  const config::edge_settings settings_;
  const std::unique_ptr<http::peer_limit> peers_, own_peers_;   // of clients, null: any number; of the operators' listeners
  identity clients_, admin_;
  const identity none_;
  admin::edge_stats stats_;
};

}  // namespace hive::apps
