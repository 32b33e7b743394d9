// What a router is to its agents: its key, the secrets it accepts, and who may be one; made at the start, read again at a reload.
#pragma once

#include <optional>
#include <string>

#include "admin/reload_api.hpp"
#include "apps/access.hpp"
#include "apps/fleet_wiring.hpp"
#include "config/router_settings.hpp"
#include "link/identity.hpp"

namespace hive::apps {

struct link_identity {
  link::curve_pair keys;
  std::string own_secret;                    // of agents inside this process; random, never leaves it
  std::string router_id;                     // peer id of the identity file; empty = the key is derived from the secret
  std::optional<link::identity_lock> lock;
};
// Makes the identity file if it is named and missing.
result<link_identity> open_link_identity(const config::router_settings &);

// The secrets and lists of agents again. Each that is wrong is logged and stays as it was; so do secrets of which one is a client key
// or an admin key. Returns the parts link_secrets (with a link) and agent_lists. Control thread.
admin::reload_report reload_link(const config::router_settings &, access &, hub_control &, fleet::agent_roster &, fleet_directory &);

}  // namespace hive::apps
