// The admin API's routes that end what an agent has: kick (it may come back) and revoke (it may not, until that is taken back).
// Control thread.
#pragma once

#include <functional>
#include <string>

#include "fleet/agent_roster.hpp"
#include "fleet/registry.hpp"
#include "gateway/admin_port.hpp"

namespace hive::admin {

class agent_api {
 public:
  using reply_fn = std::function<void(gateway::admin_answer)>;
  agent_api(fleet::registry &fleet, fleet::agent_roster &roster) : fleet_(fleet), roster_(roster) {}

  // Each answers once, at once or when a change is stored; the answer's `route` is the caller's to fill.
  void kick(const gateway::admin_request &, const std::string &peer_id, const reply_fn &);     // POST /admin/agents/ID/kick
  void revoked(const gateway::admin_request &, const std::string &peer_id, const reply_fn &);  // PUT, DELETE /admin/agents/ID/revoked
  void list_revoked(const reply_fn &) const;                                                   // GET /admin/agents/revoked

 private:
  void revoke(const gateway::admin_request &, const std::string &peer_id, const reply_fn &);
  void restore(const gateway::admin_request &, const std::string &peer_id, const reply_fn &);

  fleet::registry &fleet_;
  fleet::agent_roster &roster_;
};

}  // namespace hive::admin
