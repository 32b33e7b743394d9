// The metrics page of a router: what requests did (counted as they end), what the fleet is (read at scrape time), and the
// process. Names and labels: docs/metrics.md. Counting is for any thread; expose is the control thread's.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "admin/edge_stats.hpp"
#include "admin/series_list.hpp"
#include "base/byte_budget.hpp"
#include "fleet/history.hpp"
#include "fleet/lease_drift.hpp"
#include "fleet/registry.hpp"
#include "fleet/storage_thread.hpp"
#include "gateway/forward_line.hpp"
#include "gateway/telemetry.hpp"
#include "hive/abi/host.h"
#include "http/server.hpp"
#include "link/counters.hpp"
#include "observe/audit_log.hpp"
#include "observe/metrics.hpp"
#include "observe/process.hpp"
#include "plugins/registry.hpp"
#include "providers/calls.hpp"
#include "routing/router.hpp"
#include "tenancy/admission_control.hpp"
#include "tenancy/quota.hpp"
#include "tenancy/quota_store.hpp"

namespace hive::admin {

// Read at scrape time; all of it outlives the exporter's last scrape.
struct exported {
  const fleet::registry *fleet = nullptr;
  const routing::router *router = nullptr;
  const gateway::forward_line *forwards = nullptr;
  const gateway::stage_gauges *stages = nullptr;
  const plugins::component_registry *plugins = nullptr;
  const observe::audit_log *audit = nullptr;
  size_t queue_size = 0;
  std::vector<const link::hub_counters *> links;   // one a worker
  const byte_budget *memory = nullptr;
  const fleet::lease_drift *drift = nullptr;
  std::vector<const http::server_counters *> servers;  // one a worker
  const fleet::storage_thread *storage = nullptr;
  const fleet::history_stats *history = nullptr;
  const tenancy::admission_control *admission = nullptr;
  tenancy::quota_book *quotas = nullptr;
  const tenancy::quota_store *quota_store = nullptr;   // null: usage is not kept
  const edge_stats *edge = nullptr;
};

class exporter final : public gateway::telemetry, public providers::call_metrics, private observe::collectable {
 public:
  explicit exporter(const std::string &version);
  ~exporter() override;
  void attach(const exported &);
  std::string expose() { return metrics_.expose(); }
  void forget_model(std::string_view model);
  void forget_tenant(std::string_view tenant);  // whose last key has gone
  void sweep() { metrics_.bury(); }        // once a second

  observe::histogram audit_write_seconds() const { return audit_write_seconds_; }

  // gateway::telemetry
  void on_started(std::string_view method, std::string_view route) override;
  void on_finished(const gateway::request_record &) override;
  void on_attempt_failed(std::string_view peer_id, std::string_view model, std::string_view cause) override;

  // providers::call_metrics
  void on_provider_call(std::string_view engine, int status, uint64_t duration_ns) override;

  // outcomes of the routing room
  void on_attempt(const routing::attempt_outcome &);
  void on_queue_wait(std::string_view model, uint64_t ns);
  void on_served(std::string_view model, bool by_fallback);
  void on_exhausted(std::string_view model, std::string_view tenant, std::string_view code);

  void on_auth_reload(bool good) { auth_reloads_.with({good ? "success" : "error"}).add(); }
  // Policies that were read again or written; `trigger` is api or sighup.
  void on_policy_reload(std::string_view trigger, bool good) { reloads_.with({trigger, good ? "success" : "error"}).add(); }

  // metrics of plugins; declare on control, add from any thread
  hive_metric declare(int32_t kind, const std::string &name, const std::string &help);
  void add(hive_metric, double delta);

 private:
  void collect(observe::exposition &) override;
  void collect_agents(observe::exposition &) const;
  void collect_lines(observe::exposition &) const;
  void collect_admission(observe::exposition &) const;
  void collect_quotas(observe::exposition &) const;    // exporter_quotas.cpp, as the next one
  void count_limited(const gateway::request_record &);
  void collect_plugins(observe::exposition &) const;
  void collect_links(observe::exposition &) const;
  void collect_servers(observe::exposition &) const;
  void collect_edge(observe::exposition &) const;
  void collect_storage(observe::exposition &) const;
  void collect_memory(observe::exposition &) const;
  void collect_audit(observe::exposition &) const;
  void collect_log(observe::exposition &) const;
  // A caller's word becomes a label only when an agent serves that model.
  std::string_view model_label(std::string_view model) const;

  // Handles of the request families by their labels; routes are static text, so few and compared by address.
  struct http_series {
    const char *method = nullptr;
    const char *route = nullptr;
    int status = 0;
    observe::histogram seconds;
  };
  struct active_series {
    const char *method = nullptr;
    const char *route = nullptr;
    observe::gauge now;
  };
  // What an answered attempt counts, by agent, its generation, model, tenant and key.
  struct served_series {
    observe::counter routed, success, input_tokens, output_tokens;
  };
  const served_series &served_of(const routing::attempt_outcome &);
  void count_failed(const gateway::request_record &, std::string_view model);
  std::string deployment_of(std::string_view peer_id) const;   // "" = unknown or none
  // exporter_tenants.cpp: whose request it was, when, and how long it took.
  struct answer_series {
    observe::histogram of_tenant, of_agent;
  };
  void count_tenant(const gateway::request_record &, std::string_view model);
  observe::gauge last_request_of(const gateway::request_record &);                             // requires mutex_
  answer_series answers_of(const gateway::request_record &, std::string_view model, const fleet::agent *);  // likewise
  void count_provider(const gateway::request_record &, std::string_view model);
  observe::histogram seconds_of(const char *method, std::string_view route, int status);
  observe::gauge active_of(const char *method, std::string_view route);

  observe::metrics metrics_;
  observe::process_metrics process_;
  exported on_;

  observe::histogram_family http_seconds_;
  observe::gauge_family http_active_;
  observe::counter_family refused_by_;
  observe::counter_family finished_, routed_, failed_, attempts_failed_, primary_, fallback_, provider_fallback_, exhausted_, reloads_;
  observe::histogram audit_write_seconds_;
  observe::counter_family auth_reloads_;
  std::array<observe::counter, tenancy::denials> auth_failed_client_, auth_failed_admin_;
  observe::counter auth_throttled_client_, auth_throttled_admin_;
  observe::counter_family tenant_rate_limited_, tenant_token_limited_;
  observe::counter_family tenant_success_, tenant_failed_, tenant_input_, tenant_output_;
  observe::histogram_family queue_wait_, first_byte_, provider_seconds_;
  observe::gauge_family tenant_last_;
  observe::histogram_family tenant_seconds_, agent_seconds_;
  std::mutex mutex_;                      // guards the caches; once an attempt and once a request that is over
  series_list<http_series, 512> http_cache_;
  series_list<active_series, 256> active_cache_;
  std::unordered_map<std::string, served_series> served_cache_;
  std::unordered_map<std::string, observe::gauge> last_request_cache_;
  std::unordered_map<std::string, answer_series> answer_cache_;

  struct plugin_series {
    int32_t kind;
    std::string name;
    observe::counter counter;
    observe::gauge gauge;
  };
  static constexpr size_t most_plugin_series = 256;
  std::vector<plugin_series> plugin_series_;  // reserved once: add() reads it without a lock
  std::atomic<size_t> plugin_count_{0};
};

}  // namespace hive::admin
