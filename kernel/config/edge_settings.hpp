// Settings of the HTTP listeners: TLS, who gets one of its own, and what one client may take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "config/table.hpp"

namespace hive::config {

struct router_settings;

struct edge_settings {
  std::string certificate_file, key_file;    // PEM; both or neither. Empty = plain HTTP
  std::string least_tls;                     // "1.2" | "1.3"
  address admin;
  bool admin_apart = false;                  // resolved: `admin` is where /admin is
  std::string admin_client_ca_file;          // PEM; empty = no client certificates
  bool metrics_tls = false;
  byte_count max_head;
  duration handshake_timeout, header_timeout, idle_timeout, body_timeout;
  byte_count body_rate;                      // a second; 0 = any
  int64_t connections_per_address = 0;       // 0 = any number
  int64_t requests_per_connection = 0;       // likewise
  bool tls() const { return !certificate_file.empty(); }
};

void add_edge_rows(table &, edge_settings &);
void resolve_edge(const table &, router_settings &, std::vector<status> &problems, std::vector<std::string> &warnings);

}  // namespace hive::config
