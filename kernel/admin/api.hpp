// The admin API: routes under /admin, answered on the control thread, protected by the admin keys. Without a key
// everything here answers 401 (or, told so explicitly, is open).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "admin/explain_api.hpp"
#include "admin/policy_api.hpp"
#include "base/digest.hpp"
#include "base/loop.hpp"
#include "fleet/history.hpp"
#include "fleet/registry.hpp"
#include "gateway/admin_port.hpp"
#include "gateway/forward_line.hpp"
#include "gateway/telemetry.hpp"
#include "plugins/registry.hpp"
#include "routing/router.hpp"

namespace hive::admin {

struct api_options {
  std::vector<std::string> keys;   // raw; hashed at once
  bool open_without_keys = false;  // HIVENET_ROUTER_ALLOW_INSECURE_ADMIN
  std::string storage;             // component id
  uint64_t entry_ttl_days = 30;
  uint64_t sweep_period_ns = 5 * ns_per_s;
  std::vector<config::allowed_route> extra_routes;
};

// What it shows and changes; all of it outlives the API.
struct api_subjects {
  loop &control;
  fleet::registry &fleet;
  fleet::storage_thread &storage;
  plugins::component_registry &plugins;
  routing::router &router;
  gateway::forward_line &forwards;
  gateway::stage_gauges &stages;
  routing::policy_library &policies;
  const gateway::recent_requests &recent;
  const gateway::model_names &names;
  const tenancy::token_estimator &tokens;
};

class api final : public gateway::admin_port {
 public:
  api(const api_options &, api_subjects);
  bool opens(const std::string &authorization) const override { return authorized(authorization); }
  void handle(gateway::admin_request, std::function<void(gateway::admin_answer)> reply) override;
  bool protected_by_key() const { return !hashes_.empty(); }

 private:
  using reply_fn = std::function<void(gateway::admin_answer)>;
  void answer(const gateway::admin_request &, const reply_fn &);
  bool authorized(const std::string &header) const;
  std::string health() const;
  void storage_stats(reply_fn) const;
  void reset(reply_fn);

  const api_options options_;
  api_subjects on_;
  policy_api policies_;
  explain_api explain_;
  std::vector<digest32> hashes_;
};

}  // namespace hive::admin
