// What hivenet-router runs with. A plain struct, filled once at start and then only read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "config/admin_keys.hpp"
#include "config/client_routes.hpp"
#include "config/edge_settings.hpp"
#include "config/embedded_agents.hpp"
#include "config/link_settings.hpp"
#include "config/model_aliases.hpp"
#include "config/plugin_settings.hpp"
#include "config/program_settings.hpp"
#include "config/table.hpp"

namespace hive::config {

struct router_settings : program_settings {
  // addresses
  address http;                      // client and admin API
  bool http_given = false;           // else: every interface with client keys, 127.0.0.1 without
  address metrics;
  edge_settings edge;                // TLS, /admin apart, limits of connections
  address link_listen;               // resolved: worker i listens on port + i, port 0 = any
  bool link_enabled = false;         // false without a shared secret: no agent can connect
  std::string announce_host;         // told to agents; empty = what is bound
  int64_t connections_per_address = 32;
  int64_t strangers = 256, strangers_per_address = 8;  // of them, those without a proof
  int64_t ready_fd = 1;
  // capacity and time
  int64_t workers = 0;               // resolved, at least 1
  int64_t queue_size = 0, max_concurrent = 0, queue_depth = 0, max_tries_per_step = 0, probation_after = 0;
  byte_count max_request;            // 0 = no limit
  byte_count memory_budget;          // 0 = no limit
  byte_count queue_bytes;
  int64_t max_connections = 0;
  duration request_timeout;
  duration stream_timeout;           // 0 = off: request_timeout covers the stream
  duration retry_delay;
  duration slow_start;               // 0 = off
  double retry_budget = 0.2;         // resolved, [0, 1]
  int64_t retry_budget_min = 3;
  duration stream_write_timeout, drain_delay, drain_timeout;
  duration sse_keepalive;            // 0 = off
  std::string slot_release;          // stream_end | headers
  std::string client_half_close;     // gone | allow
  std::vector<std::string> cors_origins;  // SCHEME://HOST[:PORT], or *; empty = off
  // admission
  double admit_fraction = 0.9;       // resolved, (0, 1]
  duration admit_park_timeout;       // 0 = nobody parks
  int64_t admit_default_output = 0;
  bool tenant_fairness = true;
  // quotas
  std::string quota_backend;         // memory | badger | lmdb; the last two are one
  int64_t rpm_burst_seconds = 0;
  // client routes
  std::vector<allowed_route> extra_routes;  // resolved
  std::string stream_usage;          // ask | leave
  // engines that this program serves by itself
  std::vector<embedded_agent> embedded_agents;
  // fleet
  duration health_check_interval, heartbeat_interval, unhealthy_after, remove_after, session_ttl;
  std::string policy_file;           // empty = least-loaded, no gates
  std::string policy_model_dir;      // empty = none
  bool strict_policy = false;
  bool policy_store = true;
  bool expose_routing = false;
  int64_t explain_requests = 1000;
  std::vector<model_alias> model_aliases;  // the file's, resolved
  // storage and plugins
  std::string storage, transport;    // component ids
  std::string disk_db_path;
  int64_t disk_db_ttl_days = 0;      // 0 = never expire
  duration flush_interval;
  bool reset_disk_db = false;
  plugin_settings plugins;
  // security
  std::vector<std::string> secrets;         // shared with the agents, newest first; empty if !link_enabled
  link_secret_sources secret_sources;       // where they come from
  std::string identity_path;                // empty = the router's key is derived from the first secret
  std::string revoked_agents_file;          // empty = none
  std::string agents_file;                  // empty = whoever has the secret
  std::vector<admin_key> admin_keys;        // of the variable and of the file
  std::vector<admin_key> given_admin_keys;  // of the variable alone
  std::string admin_keys_file;              // read again on SIGHUP
  bool allow_insecure_admin = false;
  std::string auth_config_file;             // empty = everybody may use the client API, unless dynamic_keys
  bool dynamic_keys = false;                // resolved: the mode without a file
  bool key_store = true;
  bool strict_key_versions = false;
  bool strict_auth = false;
  int64_t auth_failures = 0;                // per minute and address; 0 = no limit
  bool models_show_agents = true;
  std::vector<std::string> trusted_proxies; // address or CIDR each
  // providers
  std::string openai_key, openai_url;       // "" = no policy may name it
  std::string anthropic_key, anthropic_url;
  std::string provider_ca_file;             // PEM; "" = the system's authorities
  // audit
  std::string audit_log_path;               // "-" = stdout, empty = none
  std::string audit_zone;                   // IANA name
  byte_count audit_queue;
  std::string audit_overflow;               // drop, block
  duration audit_block_limit;
  bool audit_required = false;

  // as written, before they are resolved above
  struct written_form {
    address link_listen, grpc_port;
    std::vector<std::string> backends;
    std::string p2p_listen_addr, p2p_announce_addr, auth_mode;
    std::vector<std::string> admin_keys;
    std::vector<std::string> extra_routes;
    std::string admit_fraction, retry_budget;
    std::string unused;                     // of --p2p-port, which is accepted and does nothing
  } written;
};

void add_rows(table &, router_settings &);
// Rules across settings, and everything marked resolved.
void finish(const table &, router_settings &, std::vector<status> &problems, std::vector<std::string> &warnings,
            const std::string &program_version = {});

std::optional<double> share_of(const std::string &text);  // a number from 0 to 1, and nothing else
void add_quota_rows(table &, router_settings &);  // quota_settings.cpp
// Their part in admission_settings.cpp.
void add_admission_rows(table &, router_settings &);
void resolve_admission(router_settings &);

// 1 up to 2 cores, else min(4, cores / 2).
int64_t default_workers(unsigned cores);

}  // namespace hive::config
