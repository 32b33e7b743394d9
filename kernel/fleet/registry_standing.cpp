// Who gets less than all agents do: those that the operator drains.
#include "fleet/member.hpp"
#include "fleet/registry.hpp"

namespace hive::fleet {

bool registry::set_aside(std::string_view peer_id, bool on) {
  std::unique_lock lock(mutex_);
  const member_ptr m = find_member(peer_id);
  const auto known = set_aside_.find(peer_id);
  if (!on && known != set_aside_.end()) set_aside_.erase(known);
  else if (!m || !m->who) return false;
  if (on) set_aside_.emplace(peer_id);
  if (m && m->who) change_standing(*m->who, on ? standing_set_aside : 0u, on ? 0u : standing_set_aside);
  return true;
}

}  // namespace hive::fleet
