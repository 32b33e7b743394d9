// What the HTTP listeners of a router say of themselves at a scrape. Control thread; the counters are their servers'.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "http/server.hpp"

namespace hive::admin {

struct edge_listener {
  std::string_view name;                                // client | admin | metrics
  std::vector<const http::server_counters *> servers;
  int64_t certificate_expires_unix_s = 0;               // 0 = no TLS
};

struct edge_stats {
  std::vector<edge_listener> listeners;
  uint64_t certificates_read = 0, certificates_refused = 0;  // at reloads
};

}  // namespace hive::admin
