// One owner per key (docs/link.md): who is welcomed, probed, refused or replaced.

#include <algorithm>
#include <set>

#include "fleet/history.hpp"
#include "fleet/member.hpp"
#include "fleet/metadata.hpp"

namespace hive::fleet {
namespace {

link::auth_decision welcome() {
  link::auth_decision d;
  d.what = link::auth_decision::kind::welcome;
  return d;
}

}  // namespace

void registry::authenticate(link::auth_request request, reply_fn reply) {
  calls later;
  {
    std::unique_lock lock(mutex_);
    decide(std::move(request), std::move(reply), later);
  }
  run_all(later);
}

void registry::refuse(const reply_fn &reply, std::string code, std::string message, uint64_t retry_after_ms, bool final,
                      calls &later) {
  stats_.refused_registrations.fetch_add(1, std::memory_order_relaxed);
  link::auth_decision d;
  d.kick_code = std::move(code);
  d.message = std::move(message);
  d.retry_after_ms = retry_after_ms;
  d.final = final;
  later.push_back([reply, d] { reply(d); });
}

void registry::decide(link::auth_request request, reply_fn reply, calls &later) {
  if (request.renewal) return renew(request, reply, later);
  if (request.link_index != 0) return welcome_further(request, reply, later);

  result<agent_info> info = parse_metadata(request.peer_id, request.metadata);
  if (!info) {
    notice(request.peer_id, "registration from " + request.address + " refused: " + info.why().text(), later);
    return refuse(reply, "metadata", info.why().text(), 0, true, later);
  }
  info->address = request.address;

  member_ptr m = find_member(request.peer_id);
  if (!m) {
    m = std::make_shared<member>();
    m->peer_id = request.peer_id;
    members_.emplace(m->peer_id, m);
    return admit(m, request, std::move(*info), std::move(reply), later);
  }
  if (m->links.empty() || m->boot_id == request.boot_id) {
    if (m->waiting) refuse_newcomer(*m, later);
    return admit(m, request, std::move(*info), std::move(reply), later);
  }
  probe_owner(m, std::move(request), std::move(*info), std::move(reply), later);
}

void registry::renew(const link::auth_request &request, const reply_fn &reply, calls &later) {
  const member_ptr m = find_member(request.peer_id);
  const auto found = links_.find(request.link);
  if (!m || !m->who || m->boot_id != request.boot_id || found == links_.end() || found->second != m) {
    return refuse(reply, "removed", "this link is not a registered one any more; connect again", 0, false, later);
  }
  if (!request.metadata.empty()) {
    result<agent_info> info = parse_metadata(request.peer_id, request.metadata);
    if (!info) return refuse(reply, "metadata", info.why().text(), 0, true, later);
    info->address = m->who->info()->address;
    apply_info(*m->who, m->who, std::move(*info), later);
  }
  later.push_back([reply] { reply(welcome()); });
}

void registry::welcome_further(const link::auth_request &request, const reply_fn &reply, calls &later) {
  const member_ptr m = find_member(request.peer_id);
  if (!m || !m->who || m->links.empty()) {
    return refuse(reply, "removed", "no link 0 of this agent is registered; start with link 0", 1000, false, later);
  }
  if (m->boot_id != request.boot_id) {
    return refuse(reply, "duplicate", "another process with this identity is connected from " + m->links.front().address,
                  settings_.duplicate_retry_ms, false, later);
  }
  add_link(m, request, later);
  update_linked(*m);
  later.push_back([reply] { reply(welcome()); });
}

// A new connection of the owner takes the place of the link with the same index.
void registry::add_link(const member_ptr &m, const link::auth_request &request, calls &later) {
  const auto old = std::find_if(m->links.begin(), m->links.end(), [&](const auto &l) { return l.index == request.link_index; });
  if (old != m->links.end()) {
    if (!(old->id == request.link)) {
      later.push_back([this, id = old->id] { control_.kick_link(id, "replaced", "the same agent opened this link again", 0, false); });
      links_.erase(old->id);
    }
    m->links.erase(old);
  }
  m->links.push_back({request.link, request.link_index, request.address});
  links_[request.link] = m;
}

void registry::admit(const member_ptr &m, const link::auth_request &request, agent_info info, reply_fn reply, calls &later) {
  const bool new_process = m->boot_id != request.boot_id;
  m->boot_id = request.boot_id;
  add_link(m, request, later);
  std::shared_ptr<agent> who = m->who;
  if (!who) {
    if (const auto gone = departed_.find(m->peer_id); gone != departed_.end()) {
      who = gone->second.lock();
      if (!who) departed_.erase(gone);
    }
  }
  if (who || history_ == nullptr) {
    if (!who) who = std::make_shared<agent>(std::make_shared<const agent_info>(info), ++generations_);
    register_agent(*m, who, std::move(info), new_process, later);
    later.push_back([reply = std::move(reply)] { reply(welcome()); });
    return;
  }
  // Warm start comes before anybody may be sent there.
  auto fresh = std::make_shared<agent>(std::make_shared<const agent_info>(info), ++generations_);
  auto done = [this, m, fresh, info, reply = std::move(reply), link = request.link] {
    calls then;
    {
      std::unique_lock lock(mutex_);
      const auto found = links_.find(link);
      if (found == links_.end() || found->second != m) {
        refuse(reply, "replaced", "the link was lost or replaced while it registered", 0, false, then);
      } else {
        register_agent(*m, m->who ? m->who : fresh, info, true, then);
        then.push_back([reply] { reply(welcome()); });
      }
    }
    run_all(then);
  };
  later.push_back([this, fresh, done = std::move(done)] { history_->warm_start(fresh, done); });
}

void registry::probe_owner(const member_ptr &m, link::auth_request request, agent_info info, reply_fn reply, calls &later) {
  const uint64_t now = clock_.now();
  const std::string &owner = m->links.front().address;
  const bool same_newcomer = m->waiting && m->waiting->request.boot_id == request.boot_id;
  if (same_newcomer) {
    // Its earlier connection is dead; the running probe decides for the new one.
    links_.erase(m->waiting->request.link);
    m->waiting = member::newcomer{std::move(request), std::move(info), std::move(reply)};
    links_[m->waiting->request.link] = m;
    return;
  }
  if (m->waiting || now < m->no_probe_before_ns) {
    stats_.duplicates_refused.fetch_add(1, std::memory_order_relaxed);
    const uint64_t left_ms = m->waiting ? settings_.duplicate_retry_ms : (m->no_probe_before_ns - now) / ns_per_ms + 1;
    return refuse(reply, "duplicate", "another process with this identity is connected from " + owner, left_ms, false, later);
  }
  m->waiting = member::newcomer{std::move(request), std::move(info), std::move(reply)};
  links_[m->waiting->request.link] = m;
  std::set<uint32_t> workers;
  for (const auto &l : m->links) workers.insert(l.id.worker);
  const uint64_t round = ++m->probe_round;
  m->probes_out = static_cast<uint32_t>(workers.size());
  for (uint32_t worker : workers) {
    later.push_back([this, m, worker, round] {
      control_.probe(worker, m->peer_id, [this, m, round](bool alive) { on_probe(m, round, alive); });
    });
  }
}

void registry::on_probe(const member_ptr &m, uint64_t round, bool alive) {
  calls later;
  {
    std::unique_lock lock(mutex_);
    if (round != m->probe_round || !m->waiting) return;
    if (alive) {
      refuse_newcomer(*m, later);
    } else if (--m->probes_out == 0) {
      take_over(m, later);
    }
  }
  run_all(later);
}

// The owner has shown that it lives.
void registry::refuse_newcomer(member &m, calls &later) {
  ++m.probe_round;
  m.no_probe_before_ns = clock_.now() + settings_.duplicate_retry_ms * ns_per_ms;
  stats_.duplicates_refused.fetch_add(1, std::memory_order_relaxed);
  const std::string owner = m.links.empty() ? "elsewhere" : m.links.front().address;
  notice(m.peer_id, "a second process with this identity at " + m.waiting->request.address + " was refused, the owner at " +
                        owner + " is alive", later);
  links_.erase(m.waiting->request.link);
  refuse(m.waiting->reply, "duplicate", "another process with this identity is connected from " + owner,
         settings_.duplicate_retry_ms, false, later);
  m.waiting.reset();
}

void registry::take_over(const member_ptr &m, calls &later) {
  ++m->probe_round;
  member::newcomer next = std::move(*m->waiting);
  m->waiting.reset();
  stats_.takeovers.fetch_add(1, std::memory_order_relaxed);
  notice(m->peer_id, "the process at " + next.request.address + " replaces the silent one at " +
                         (m->links.empty() ? std::string("(no link)") : m->links.front().address), later);
  const std::string words = "another process with this identity took over from " + next.request.address;
  for (const auto &l : m->links) {
    links_.erase(l.id);
    later.push_back([this, id = l.id, words] { control_.kick_link(id, "replaced", words, 0, false); });
  }
  m->links.clear();
  admit(m, next.request, std::move(next.info), std::move(next.reply), later);
}

void registry::link_lost(link::link_id id, std::string_view reason) {
  (void)reason;
  calls later;
  {
    std::unique_lock lock(mutex_);
    const auto found = links_.find(id);
    if (found == links_.end()) return;
    const member_ptr m = found->second;
    links_.erase(found);
    if (m->waiting && m->waiting->request.link == id) {
      ++m->probe_round;
      m->waiting.reset();
      return;
    }
    std::erase_if(m->links, [&](const auto &l) { return l.id == id; });
    if (m->who) update_linked(*m);
    if (m->links.empty()) {
      if (m->who) {
        if (observer_ != nullptr) later.push_back([this, who = m->who] { observer_->on_unregistered(who, departure::link_lost); });
        if (history_ != nullptr) later.push_back([this, who = m->who] { history_->flush({who}); });
      }
      if (m->waiting) {
        take_over(m, later);
      } else if (!m->who) {
        members_.erase(m->peer_id);
      }
    }
  }
  run_all(later);
}

}  // namespace hive::fleet
