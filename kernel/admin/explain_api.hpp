// POST /admin/explain: what would become of a request now, agent by agent (docs/explain.md). The body is the request itself, as a
// client would send it, its header fields those of the question itself, or {"request_id": "..."} of a request that ended lately. Control thread.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "gateway/admin_port.hpp"
#include "gateway/model_names.hpp"
#include "gateway/recent_requests.hpp"
#include "gateway/request_scan.hpp"
#include "gateway/routes.hpp"
#include "routing/router.hpp"
#include "tenancy/token_estimator.hpp"

namespace hive::admin {

class explain_api {
 public:
  struct subjects {
    const routing::router &router;
    const gateway::recent_requests &recent;
    const gateway::model_names &names;
    const tenancy::token_estimator &tokens;
    std::span<const config::allowed_route> extra_routes;   // --allow-route
  };
  explicit explain_api(const subjects &on) : on_(on), extra_(gateway::extra_rows(on.extra_routes)) {}
  // The answer's `route` is the caller's to fill.
  gateway::admin_answer answer(const gateway::admin_request &);

 private:
  struct question;
  gateway::admin_answer about(const question &) const;

  const gateway::route *route_labelled(std::string_view label) const;

  const subjects on_;
  const std::vector<gateway::route> extra_;
  gateway::request_scanner scanner_;
};

}  // namespace hive::admin
