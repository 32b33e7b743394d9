// Who gets less than all agents do: those that the operator drains or puts out, those that fail again and again, and newcomers.
#include "fleet/member.hpp"
#include "fleet/registry.hpp"

namespace hive::fleet {

bool registry::set_operator_drain(std::string_view peer_id, bool on) {
  std::unique_lock lock(mutex_);
  const member_ptr m = find_member(peer_id);
  const auto known = operator_drains_.find(peer_id);
  if (!on && known != operator_drains_.end()) operator_drains_.erase(known);
  else if (!m || !m->who) return false;
  if (on) operator_drains_.emplace(peer_id);
  if (m && m->who) change_standing(*m->who, on ? standing_operator_drain : 0u, on ? 0u : standing_operator_drain);
  return true;
}

bool registry::disconnect(std::string_view peer_id, const disconnection &d) {
  calls later;
  bool any = false;
  {
    std::unique_lock lock(mutex_);
    const member_ptr m = find_member(peer_id);
    if (!m) return false;
    any = !m->links.empty() || m->waiting;
    for (const auto &l : m->links)
      later.push_back([this, id = l.id, d] { control_.kick_link(id, d.code, d.message, d.retry_after_ms, false); });
    if (d.for_good) {
      if (m->waiting) {
        ++m->probe_round;
        links_.erase(m->waiting->request.link);
        refuse(m->waiting->reply, d.code, d.message, d.retry_after_ms, false, later);
        m->waiting.reset();
      }
      remove(m, departure::revoked, later);
    }
  }
  run_all(later);
  return any;
}

// The capacity follows, and with it the rows of its pools and whoever waits there.
void registry::judge_streak(agent &a) const {
  if (!a.judge_streak(settings_.probation_after)) return;
  const auto pools = a.pools();  // kept through the loop
  for (const std::shared_ptr<pool> &p : *pools) p->refresh(a);
}

// Whoever waits in their pools hears of every slot more.
void registry::grow_starters(uint64_t now) {
  std::vector<std::shared_ptr<agent>> grown;
  {
    std::unique_lock lock(mutex_);
    std::erase_if(starters_, [&](const std::weak_ptr<agent> &each) {
      const std::shared_ptr<agent> a = each.lock();
      if (a && a->grow(now)) grown.push_back(a);
      return !a || !a->starting();
    });
  }
  for (const std::shared_ptr<agent> &a : grown) {
    const auto pools = a->pools();  // kept through the loop
    for (const std::shared_ptr<pool> &p : *pools) p->refresh(*a);
  }
}

void registry::record_content(agent &a, uint64_t generation) {
  if (!a.on_probation() || generation <= a.removed_generation()) return;
  a.counters.streak.store(0, std::memory_order_relaxed);
  judge_streak(a);
}

}  // namespace hive::fleet
