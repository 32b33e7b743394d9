// POST /admin/explain: what would become of a request now, agent by agent (docs/explain.md). The body is the request itself, as a
// client would send it, or {"request_id": "..."} of a request that ended lately. Control thread.
#pragma once

#include "gateway/admin_port.hpp"
#include "gateway/model_names.hpp"
#include "gateway/recent_requests.hpp"
#include "gateway/request_scan.hpp"
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
  };
  explicit explain_api(const subjects &on) : on_(on) {}
  // The answer's `route` is the caller's to fill.
  gateway::admin_answer answer(const gateway::admin_request &);

 private:
  struct question;
  gateway::admin_answer about(const question &) const;

  const subjects on_;
  gateway::request_scanner scanner_;
};

}  // namespace hive::admin
