// POST /admin/explain: what would become of a request now, agent by agent (docs/explain.md). The body is the request itself, as a
// client would send it, or {"request_id": "..."} of a request that ended lately. Control thread.
#pragma once

#include "gateway/admin_port.hpp"
#include "gateway/recent_requests.hpp"
#include "gateway/request_scan.hpp"
#include "routing/router.hpp"

namespace hive::admin {

class explain_api {
 public:
  explain_api(const routing::router &router, const gateway::recent_requests &recent) : router_(router), recent_(recent) {}
  // The answer's `route` is the caller's to fill.
  gateway::admin_answer answer(const gateway::admin_request &);

 private:
  struct question;
  gateway::admin_answer about(const question &) const;

  const routing::router &router_;
  const gateway::recent_requests &recent_;
  gateway::request_scanner scanner_;
};

}  // namespace hive::admin
