// The fleet as JSON: /admin/health, /admin/routing-table (docs/admin-api.md). Shapes and names are fixed by existing
// clients and dashboards. Any thread; reads snapshots and atomics only.
#pragma once

#include <boost/json/object.hpp>

#include "fleet/registry.hpp"

namespace hive::admin {

boost::json::object routing_table_row(const fleet::registry &, const fleet::agent &);
boost::json::object routing_table(const fleet::registry &);
boost::json::object health_agents(const fleet::registry &);  // total_agents, healthy_agents, status, agents

}  // namespace hive::admin
