// An explanation as the admin API shows it (docs/explain.md). Pure.
#pragma once

#include <boost/json/object.hpp>

#include "gateway/recent_requests.hpp"
#include "routing/explain.hpp"

namespace hive::admin {

boost::json::object to_json(const routing::explanation &);
boost::json::object to_json(const gateway::recent_request &);

}  // namespace hive::admin
