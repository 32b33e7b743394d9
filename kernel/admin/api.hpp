// The admin API: routes under /admin, answered on the control thread, protected by the admin keys. Without a key
// everything here answers 401 (or, told so explicitly, is open).
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "admin/action_log.hpp"
#include "admin/agent_api.hpp"
#include "admin/explain_api.hpp"
#include "admin/key_api.hpp"
#include "admin/policy_api.hpp"
#include "admin/reload_api.hpp"
#include "base/loop.hpp"
#include "config/admin_keys.hpp"
#include "fleet/history.hpp"
#include "fleet/registry.hpp"
#include "gateway/admin_port.hpp"
#include "gateway/forward_line.hpp"
#include "gateway/telemetry.hpp"
#include "plugins/registry.hpp"
#include "routing/router.hpp"

namespace hive::admin {

struct api_options {
  std::vector<config::admin_key> keys;
  bool open_without_keys = false;  // HIVENET_ROUTER_ALLOW_INSECURE_ADMIN
  std::string storage;             // component id
  uint64_t entry_ttl_days = 30;
  uint64_t sweep_period_ns = 5 * ns_per_s;
  bool strict_keys = false;        // --strict-auth, of entries of the key registry
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
  fleet::agent_roster &roster;
  tenancy::key_registry *keys = nullptr;      // null: the mode is not dynamic
  std::function<secret_test()> secrets = {};  // those of the moment; control thread
  reload_fn reload;                           // all that is read again while the router runs
};

class api final : public gateway::admin_port {
 public:
  api(const api_options &, api_subjects);
  std::optional<gateway::admin_caller> opens(const std::string &authorization) const override;
  uint64_t most_body_bytes(std::string_view method, std::string_view path) const override;
  void handle(gateway::admin_request, std::function<void(gateway::admin_answer)> reply) override;
  // From the next request on. Control thread.
  void set_keys(std::vector<config::admin_key>);
  bool protected_by_key() const { return !keys_now()->empty(); }
  // Where changes are written down; before the first request.
  void audit_to(observe::audit_log *log) { actions_.write_to(log); }

 private:
  using reply_fn = std::function<void(gateway::admin_answer)>;
  using key_list = std::shared_ptr<const std::vector<config::admin_key>>;
  struct call;      // a request at its route
  struct row;       // a route
  struct matched;   // what the table says of a request
  static std::span<const row> table();
  static matched match(std::string_view method, std::string_view path);
  void answer(const gateway::admin_request &, const reply_fn &, bool opened, const secret_test &);
  key_list keys_now() const;
  std::string health() const;
  void show_agent(const call &) const;
  void drain_agent(const call &, bool on);
  void show_model(const call &) const;
  void show_plugin(const call &) const;
  void storage_stats(reply_fn) const;
  void reload(const call &);
  void reset(reply_fn);

  const api_options options_;
  api_subjects on_;
  policy_api policies_;
  explain_api explain_;
  key_api client_keys_;
  agent_api agents_;
  action_log actions_;
  mutable std::mutex mutex_;       // of the pointer below alone
  key_list keys_;
};

}  // namespace hive::admin
