// The fleet as JSON: /v1/models, /admin/health, /admin/routing-table (HTTP sheet sections 13 and 15). Shapes and names are
// fixed by existing clients and dashboards. Any thread; reads snapshots and atomics only.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "fleet/registry.hpp"
#include "gateway/worker.hpp"

namespace hive::admin {

// Registered, linked, heard of lately, with an engine that answers. A busy or draining agent is healthy.
bool is_healthy(const fleet::agent &);

boost::json::object routing_table_row(const fleet::registry &, const fleet::agent &);
boost::json::object routing_table(const fleet::registry &);
boost::json::object health_agents(const fleet::registry &);  // total_agents, healthy_agents, status, agents

class fleet_models final : public gateway::models_view {
 public:
  // `show_agents`: detail lists the agents, with machines and organizations (HTTP sheet W43).
  // `names`: aliases are shown beside the models; null shows models alone.
  explicit fleet_models(const fleet::registry &r, bool show_agents = true, const gateway::model_names *names = nullptr)
      : registry_(r), show_agents_(show_agents), names_(names) {}
  std::string list(viewer, bool anthropic) const override;
  std::string detail(std::string_view model, viewer, bool anthropic) const override;
  std::string near(std::string_view model, viewer) const override;

 private:
  const fleet::registry &registry_;
  const bool show_agents_;
  const gateway::model_names *const names_;
};

}  // namespace hive::admin
