// Joins link, fleet and routing of a router process: what the hubs report goes to the registry, what the registry asks
// goes to the hubs, new pools become known to the routing room before their first agent is routable, and outcomes of
// attempts come back to counters and metrics.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "admin/exporter.hpp"
#include "base/loop.hpp"
#include "fleet/agent_roster.hpp"
#include "fleet/registry.hpp"
#include "link/directory.hpp"
#include "link/router_hub.hpp"
#include "routing/router.hpp"

namespace hive::apps {

// One hub and the loop it lives on.
struct hub_place {
  loop *home;
  link::router_hub *hub;
};

// The registry's hands on the hubs. Any thread; set_hubs before the first agent.
class hub_control final : public fleet::link_control {
 public:
  void set_hubs(std::vector<hub_place> hubs) { hubs_ = std::move(hubs); }
  void probe(uint32_t worker, std::string peer_id, std::function<void(bool)> reply) override;
  void kick_link(link::link_id, std::string code, std::string message, uint64_t retry_after_ms, bool final) override;
  void set_denied(const std::vector<link::key32> &keys);
  void set_secrets(const std::vector<std::string> &secrets);  // newest first

 private:
  std::vector<hub_place> hubs_;
};

// Between hubs and registry: what may create pools runs on the control thread, which also tells the routing room of them.
class fleet_directory final : public link::directory {
 public:
  fleet_directory(loop &control, fleet::registry &registry, routing::router &router, admin::exporter &metrics)
      : control_(control), registry_(registry), router_(router), metrics_(metrics) {}

  // Control thread, once a second: a model that nobody has served for `after_ns` goes, with its pool, line and series.
  void forget_pools(uint64_t now_ns, uint64_t after_ns);

  // Who may register; whoever is connected and may not any more is put out. Control thread, set before the first agent.
  void set_roster(const fleet::agent_roster &roster) { roster_ = &roster; }
  void put_out();
  // Ids that only agents of this process may have. Before the first agent.
  void reserve(std::set<std::string> peer_ids) { reserved_ = std::move(peer_ids); }
  void authenticate(link::auth_request, std::function<void(link::auth_decision)> reply) override;
  void models(std::string_view peer_id, std::string_view metadata_json) override;
  void link_lost(link::link_id id, std::string_view reason) override { registry_.link_lost(id, reason); }
  void heartbeat(std::string_view p, bool ready, std::string_view why) override { registry_.heartbeat(p, ready, why); }
  void signals(std::string_view p, const std::vector<link::signal_value> &v, std::string_view json) override { registry_.signals(p, v, json); }
  void pong(std::string_view p, const link::pong_info &i, link::link_id id) override { registry_.pong(p, i, id); }
  void refused_busy(std::string_view p, const link::pong_info &i) override { registry_.refused_busy(p, i); }
  void draining(std::string_view p, bool on) override { registry_.draining(p, on); }
  void expired(std::string_view p, bool on) override { registry_.expired(p, on); }
  void goodbye(std::string_view p) override { registry_.goodbye(p); }

 private:
  void learn_pools();
  std::optional<fleet::roster_refusal> judge(std::string_view peer_id, std::string_view metadata_json) const;

  loop &control_;
  fleet::registry &registry_;
  routing::router &router_;
  admin::exporter &metrics_;
  std::map<std::string, uint64_t> known_;  // control thread; since when it has had no agent, 0 = it has one
  std::set<std::string> reserved_;
  const fleet::agent_roster *roster_ = nullptr;
};

// Outcomes of attempts: to the fleet's counters and to metrics. Any thread.
class outcomes final : public routing::outcome_recorder {
 public:
  outcomes(fleet::registry &registry, admin::exporter &metrics) : registry_(registry), metrics_(metrics) {}
  void on_attempt(const routing::attempt_outcome &) override;
  void on_sample(const routing::latency_sample &) override;
  void on_content(const std::shared_ptr<fleet::agent> &who, uint64_t generation) override { registry_.record_content(*who, generation); }
  void on_queue_wait(std::string_view model, uint64_t ns) override { metrics_.on_queue_wait(model, ns); }
  void on_served(std::string_view model, bool by_fallback) override { metrics_.on_served(model, by_fallback); }
  void on_exhausted(std::string_view model, std::string_view tenant, std::string_view code) override { metrics_.on_exhausted(model, tenant, code); }
  void warn(const std::string &line) override;

 private:
  fleet::registry &registry_;
  admin::exporter &metrics_;
};

class srtt_log final : public fleet::sample_log {
 public:
  void srtt_sample(std::string_view peer_id, std::string_view request_id, double r_ms, const fleet::latency_value &after,
                   bool stream) override;
};

class fleet_log final : public fleet::fleet_observer {
 public:
  void on_registered(const std::shared_ptr<fleet::agent> &, bool again) override;
  void on_unregistered(const std::shared_ptr<fleet::agent> &, fleet::departure why) override;
  void on_notice(std::string_view peer_id, std::string_view text) override;
};

}  // namespace hive::apps
