// The router process: workers, the control loop, and everything they share, in the order in which it lives and dies.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "admin/api.hpp"
#include "admin/audit_trail.hpp"
#include "admin/exporter.hpp"
#include "apps/access.hpp"
#include "apps/drain.hpp"
#include "apps/embedded.hpp"
#include "apps/first_request.hpp"
#include "apps/fleet_wiring.hpp"
#include "apps/http_edge.hpp"
#include "apps/link_security.hpp"
#include "apps/metrics_page.hpp"
#include "apps/plugin_host.hpp"
#include "apps/policies.hpp"
#include "base/byte_budget.hpp"
#include "config/router_settings.hpp"
#include "fleet/lease_drift.hpp"
#include "gateway/auth_throttle.hpp"
#include "gateway/worker.hpp"
#include "http/server.hpp"
#include "link/router_hub.hpp"
#include "providers/calls.hpp"
#include "routing/plugin_source.hpp"
#include "tenancy/quota_store.hpp"

namespace hive::apps {

class router_app {
 public:
  explicit router_app(config::router_settings);
  ~router_app();
  // Loads plugins and policy, opens the store, binds every address. On an error nothing runs.
  status start();
  // Serves until SIGTERM or SIGINT has drained it. Call on the thread that called start.
  void run();

 private:
  struct unit;

  // router_start.cpp
  status load_plugins();
  status open_edge();
  status open_state();
  status open_storage();
  status make_routing();
  void make_admission();
  void make_admin();
  void make_audit();
  status publish_metrics();
  status start_hub(unit &, uint32_t worker, uint64_t boot_id);
  status start_units();

  void open_quotas(const std::shared_ptr<const tenancy::keyring> &);
  void set_quota_keys(const std::shared_ptr<const tenancy::keyring> &);
  void forget_gone_tenants(uint64_t now);
  // Everything that SIGHUP reads again; `done` may be empty.
  void reload(std::string_view trigger, std::function<void(const admin::reload_report &)> done);
  status reload_certificates();
  void publish_keys(access::ring, std::function<void()> everywhere);
  status start_admin_listener(unit &);
  void start_metrics_edge(std::vector<const http::server_counters *> clients);
  std::string ready_line() const;
  void housekeeping();
  void tell_first_request();
  void watch_memory(uint64_t now);
  void sample_drift();
  void watch_storage();
  void watch_accepting();
  void begin_drain();
  void check_drained();
  void ask_busy();
  void stop_units();

  config::router_settings settings_;       // as they were at the start, but for the shared secrets, which are gone after it
  loop control_;
  byte_budget memory_;
  gateway::readiness ready_;
  fleet::lease_drift drift_;
  admin::exporter exporter_;
  plugins::component_registry plugins_;
  std::unique_ptr<observe::audit_log> audit_;
  std::unique_ptr<gateway::recent_requests> recent_;
  std::unique_ptr<admin::audit_trail> records_;
  std::unique_ptr<plugin_host> host_;
  std::unique_ptr<routing::plugin_source> components_;

  system_clock_source clock_;
  std::unique_ptr<plugins::instance> storage_instance_;
  std::unique_ptr<fleet::storage_thread> storage_;
  std::unique_ptr<access> access_;
  std::unique_ptr<fleet::history> history_;
  hub_control hubs_;
  fleet_log fleet_log_;
  srtt_log srtt_log_;
  link_identity link_identity_;
  std::unique_ptr<fleet::agent_roster> roster_;
  std::unique_ptr<fleet::registry> fleet_;
  std::unique_ptr<outcomes> outcomes_;
  std::unique_ptr<routing::router> router_;
  std::unique_ptr<policies> policies_;
  std::unique_ptr<fleet_directory> directory_;

  tenancy::token_estimator tokens_;
  std::unique_ptr<tenancy::admission_control> admission_;
  std::unique_ptr<tenancy::quota_book> quotas_;
  std::unique_ptr<tenancy::quota_store> quota_store_;  // null: usage is not kept; written last when the storage stops
  std::map<std::string, uint64_t, std::less<>> gone_tenants_;  // and when the last request of each has ended
  std::unique_ptr<gateway::forward_line> forwards_;
  gateway::stage_gauges stages_;
  gateway::gateway_options gateway_options_;
  gateway::trusted_proxies proxies_;
  std::unique_ptr<http_edge> edge_;
  std::unique_ptr<gateway::auth_throttle> auth_throttle_;
  std::shared_ptr<const providers::provider_set> providers_;
  gateway::model_names names_;
  std::unique_ptr<gateway::models_view> models_;
  std::unique_ptr<admin::api> api_;
  std::vector<std::unique_ptr<unit>> units_;
  std::unique_ptr<metrics_page> metrics_page_;
  std::unique_ptr<embedded_agents> embedded_;

  callback_timer housekeeping_timer_, drain_timer_;
  uint64_t next_second_ns_ = 0, next_admission_sweep_ns_ = 0, told_write_errors_ = 0, told_accept_failures_ = 0, told_connection_limits_ = 0;
  bool told_failed_sweep_ = false;
  bool first_request_told_ = false;
  uint64_t over_budget_since_ns_ = 0;      // 0 = not over
  drain_plan drain_;
  std::unique_ptr<survey> busy_;
  std::vector<std::string> link_addresses_;
};

}  // namespace hive::apps
