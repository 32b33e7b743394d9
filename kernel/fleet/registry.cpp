#include "fleet/registry.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "fleet/history.hpp"
#include "fleet/member.hpp"
#include "fleet/metadata.hpp"

namespace hive::fleet {
namespace {

constexpr uint64_t sweep_interval_ns = ns_per_s;
constexpr uint64_t first_probe_ns = 250 * ns_per_ms;  // after the failure that began a probation; doubles with each further one
constexpr uint64_t last_probe_ns = 8 * ns_per_s;

// What an agent may call a signal: [A-Za-z_][A-Za-z0-9_:]*, at most 64 bytes.
bool is_signal_name(std::string_view name) {
  if (name.empty() || name.size() > 64 || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == ':';
  });
}

// Whether the periodic work of `due` is to be done now; sets its next time.
bool take_turn(std::atomic<uint64_t> &due, uint64_t now, uint64_t interval) {
  uint64_t seen = due.load(std::memory_order_relaxed);
  return now >= seen && due.compare_exchange_strong(seen, now + interval, std::memory_order_relaxed);
}

}  // namespace

std::string_view to_string(departure why) {
  switch (why) {
    case departure::link_lost: return "link_lost";
    case departure::silent: return "removed";
    case departure::goodbye: return "goodbye";
    case departure::revoked: return "revoked";
  }
  return "unknown";
}

std::string format_srtt_sample(std::string_view peer_id, std::string_view request_id, double r_ms, const latency_value &after,
                               bool stream) {
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, " r_ms=%.17g srtt_ms=%.17g rttvar_ms=%.17g stream=%s", r_ms, after.srtt_ms,
                after.rttvar_ms, stream ? "true" : "false");
  std::string line = "srtt sample peer_id=";
  line.append(peer_id).append(" request_id=").append(request_id).append(numbers);
  return line;
}

registry::registry(const registry_settings &settings, const clock_source &clock, link_control &control, history *store,
                   fleet_observer *observer, sample_log *samples)
    : settings_(settings),
      clock_(clock),
      control_(control),
      history_(store),
      observer_(observer),
      samples_(samples),
      kernel_(intern_kernel_columns(columns_)) {}

// Agents and pools hold each other for as long as the agent is registered.
registry::~registry() {
  for (const auto &[id, m] : members_) {
    if (m->who) m->who->set_pools(std::make_shared<const pool_list>());
  }
}

registry::member_ptr registry::find_member(std::string_view peer_id) const {
  const auto found = members_.find(peer_id);
  return found == members_.end() ? nullptr : found->second;
}

std::shared_ptr<agent> registry::find(std::string_view peer_id) const {
  std::shared_lock lock(mutex_);
  const member_ptr m = find_member(peer_id);
  return m ? m->who : nullptr;
}

std::shared_ptr<pool> registry::find_pool(std::string_view model) const {
  std::shared_lock lock(pools_mutex_);
  const auto found = pools_.find(model);
  return found == pools_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<pool>> registry::pools() const {
  std::vector<std::shared_ptr<pool>> all;
  {
    std::shared_lock lock(pools_mutex_);
    for (const auto &[name, p] : pools_) all.push_back(p);
  }
  std::sort(all.begin(), all.end(), [](const auto &a, const auto &b) { return a->model() < b->model(); });
  return all;
}

int64_t registry::slots_taken() const {
  std::shared_lock lock(mutex_);
  int64_t taken = 0;
  for (const auto &[id, m] : members_)
    if (m->who) taken += m->who->slots.load().first;
  for (const auto &[id, who] : departed_) {
    const member_ptr back = find_member(id);
    if (const auto a = who.lock(); a && (!back || back->who != a)) taken += a->slots.load().first;
  }
  return taken;
}

// Joining happens under mutex_ too, so nobody joins between the look and the taking out.
std::shared_ptr<pool> registry::drop_pool(std::string_view model) {
  std::unique_lock lock(mutex_);
  std::unique_lock pools_lock(pools_mutex_);
  const auto found = pools_.find(model);
  if (found == pools_.end()) return nullptr;
  {
    std::lock_guard pool_lock(found->second->mutex());
    if (found->second->members() > 0) return nullptr;
  }
  std::shared_ptr<pool> out = std::move(found->second);
  pools_.erase(found);
  return out;
}

std::shared_ptr<pool> registry::pool_for(const std::string &model) {
  std::unique_lock lock(pools_mutex_);
  if (const auto found = pools_.find(model); found != pools_.end()) return found->second;
  if (pools_.size() >= settings_.models) return nullptr;
  return pools_.emplace(model, std::make_shared<pool>(model, kernel_, &clock_)).first->second;
}

std::shared_ptr<const fleet_snapshot> registry::snapshot() const {
  std::shared_lock lock(mutex_);
  std::lock_guard snapshot_lock(snapshot_mutex_);
  if (!snapshot_) {
    auto made = std::make_shared<fleet_snapshot>();
    for (const auto &[id, m] : members_) {
      if (m->who) made->agents.push_back(m->who);
    }
    std::sort(made->agents.begin(), made->agents.end(), [](const auto &a, const auto &b) { return a->peer_id() < b->peer_id(); });
    snapshot_ = std::move(made);
  }
  return snapshot_;
}

std::vector<column_value> registry::signals_of(const agent &a) const {
  const auto pools = a.pools();
  return pools->empty() ? std::vector<column_value>() : pools->front()->values_of(a);
}

void registry::notice(std::string_view peer_id, std::string text, calls &later) const {
  if (observer_ == nullptr) return;
  later.push_back([this, peer = std::string(peer_id), text = std::move(text)] { observer_->on_notice(peer, text); });
}

bool registry::change_standing(agent &a, uint32_t set, uint32_t clear) const {
  uint32_t seen = a.standing_.load(std::memory_order_acquire);
  uint32_t next;
  do {
    next = (seen & ~clear) | set;
    if (next == seen) return false;
  } while (!a.standing_.compare_exchange_weak(seen, next, std::memory_order_acq_rel));
  const auto pools = a.pools();  // kept through the loop
  for (const std::shared_ptr<pool> &p : *pools) p->refresh(a);
  return true;
}

void registry::update_linked(member &m) {
  std::vector<uint32_t> workers;
  for (const auto &l : m.links) workers.push_back(l.id.worker);
  std::sort(workers.begin(), workers.end());
  workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
  const bool linked = workers.size() >= settings_.workers;
  change_standing(*m.who, linked ? 0u : standing_unlinked, linked ? standing_unlinked : 0u);
}

void registry::apply_info(agent &a, const std::shared_ptr<agent> &who, agent_info info, calls &later) {
  auto after = std::make_shared<pool_list>();
  std::vector<std::string> left_out;
  std::erase_if(info.models, [&](const std::string &model) {
    std::shared_ptr<pool> p = pool_for(model);
    const bool none = p == nullptr;
    if (none) left_out.push_back(model);
    else after->push_back(std::move(p));
    return none;
  });
  if (!left_out.empty()) {
    notice(info.peer_id, std::to_string(left_out.size()) + " of its models are not served, the first is '" + left_out.front() +
                             "': the router keeps at most " + std::to_string(settings_.models) + " models, and has them", later);
  }
  auto shared = std::make_shared<const agent_info>(std::move(info));
  a.set_info(shared);
  a.set_declared(shared->capacity);
  const std::shared_ptr<const pool_list> before = a.pools();
  // Listed before it joins: a lease returned in between then visits the new pool, or join itself reads its effect.
  a.set_pools(after);
  for (const std::shared_ptr<pool> &p : *before) {
    if (std::find(after->begin(), after->end(), p) == after->end()) p->leave(a);
  }
  for (const std::shared_ptr<pool> &p : *after) p->join(who, shared);
}

void registry::register_agent(member &m, const std::shared_ptr<agent> &who, agent_info info, bool new_process, calls &later) {
  const bool again = m.who != nullptr;
  agent &a = *who;
  if (again || (a.standing() & standing_removed) != 0) {
    a.generation_.store(++generations_, std::memory_order_relaxed);
    if (!again) a.online_since_unix_ms.store(clock_.wall_ms(), std::memory_order_relaxed);
  } else {
    a.online_since_unix_ms.store(clock_.wall_ms(), std::memory_order_relaxed);
  }
  m.who = who;
  a.last_seen_ns.store(clock_.now(), std::memory_order_relaxed);
  a.last_seen_unix_ms.store(clock_.wall_ms(), std::memory_order_relaxed);
  if (new_process) {
    a.set_foreign(0);
    a.set_engine_reason({});
    a.probe_at_ns.store(0, std::memory_order_relaxed);
    if (settings_.slow_start_ns != 0) {
      if (!a.starting()) starters_.push_back(who);
      a.start_slowly(clock_.now(), settings_.slow_start_ns);
    }
  }
  // A reconnect of the same process does not make a sick engine well; a new process starts with a clean bill.
  // A registration is a fresh session on link 0, the one whose TTL counts.
  const uint32_t forget = standing_silent | standing_removed | standing_expired |
                          (new_process ? standing_engine_down | standing_draining | standing_busy : 0u);
  change_standing(a, standing_unlinked | (operator_drains_.contains(a.peer_id()) ? standing_operator_drain : 0u), forget);
  apply_info(a, who, std::move(info), later);
  update_linked(m);
  {
    std::lock_guard snapshot_lock(snapshot_mutex_);
    snapshot_ = nullptr;
  }
  if (observer_ != nullptr) later.push_back([this, who, again] { observer_->on_registered(who, again); });
}

void registry::remove(const member_ptr &m, departure why, calls &later) {
  const std::shared_ptr<agent> who = m->who;
  if (who) {
    who->removed_generation_.store(who->generation(), std::memory_order_release);
    change_standing(*who, standing_removed | standing_unlinked, 0);
    const std::shared_ptr<const pool_list> pools = who->pools();
    for (const std::shared_ptr<pool> &p : *pools) p->leave(*who);
    who->set_pools(std::make_shared<const pool_list>());
    departed_[m->peer_id] = who;
    if (history_ != nullptr) later.push_back([this, who] { history_->flush({who}); });
    if (observer_ != nullptr) {
      later.push_back([this, who, why] { observer_->on_unregistered(who, why); });
    }
  }
  for (const auto &l : m->links) {
    links_.erase(l.id);
    if (why != departure::silent) continue;
    later.push_back([this, id = l.id] {
      control_.kick_link(id, "removed", "no heartbeat came for too long; connect again", 0, false);
    });
  }
  m->links.clear();
  std::optional<member::newcomer> next = std::move(m->waiting);
  m->waiting.reset();
  ++m->probe_round;
  members_.erase(std::string(m->peer_id));
  {
    std::lock_guard snapshot_lock(snapshot_mutex_);
    snapshot_ = nullptr;
  }
  if (next) {
    links_.erase(next->request.link);
    decide(std::move(next->request), std::move(next->reply), later);
  }
}

void registry::record_outcome(agent &a, const outcome_record &o) {
  if (o.generation <= a.removed_generation()) {
    stats_.dropped_outcomes.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (o.success) {
    a.counters.successful.fetch_add(1, std::memory_order_relaxed);
    a.counters.input_tokens.fetch_add(o.input_tokens, std::memory_order_relaxed);
    a.counters.output_tokens.fetch_add(o.output_tokens, std::memory_order_relaxed);
    a.counters.streak.store(0, std::memory_order_relaxed);
  } else {
    a.counters.failed.fetch_add(1, std::memory_order_relaxed);
    const uint32_t streak = a.counters.streak.fetch_add(1, std::memory_order_relaxed) + 1;
    if (settings_.probation_after != 0 && streak >= settings_.probation_after) {
      const uint32_t doublings = std::min(streak - settings_.probation_after, 5u);
      a.probe_at_ns.store(clock_.now() + std::min(first_probe_ns << doublings, last_probe_ns), std::memory_order_relaxed);
    }
  }
  a.recent.add(o.success, clock_.now());
  judge_streak(a);
  const std::optional<latency_value> after = a.latency.add(o.rtt_ms, o.kind);
  a.dirty.store(true, std::memory_order_release);
  const auto pools = a.pools();  // kept through the loop
  for (const std::shared_ptr<pool> &p : *pools) p->refresh_outcome(a);
  if (after && samples_ != nullptr) samples_->srtt_sample(a.peer_id(), o.request_id, o.rtt_ms, *after, o.kind == request_kind::stream);
}

void registry::record_sample(agent &a, const outcome_record &o) {
  if (o.generation <= a.removed_generation()) return;
  const std::optional<latency_value> after = a.latency.add(o.rtt_ms, o.kind);
  if (!after) return;
  a.dirty.store(true, std::memory_order_release);
  const auto pools = a.pools();  // kept through the loop
  for (const std::shared_ptr<pool> &p : *pools) p->refresh_outcome(a);
  if (samples_ != nullptr) samples_->srtt_sample(a.peer_id(), o.request_id, o.rtt_ms, *after, o.kind == request_kind::stream);
}

void registry::heartbeat(std::string_view peer_id, bool engine_ready, std::string_view reason) {
  std::shared_lock lock(mutex_);
  const member_ptr m = find_member(peer_id);
  if (!m || !m->who) return;
  agent &a = *m->who;
  a.last_seen_ns.store(clock_.now(), std::memory_order_relaxed);
  a.last_seen_unix_ms.store(clock_.wall_ms(), std::memory_order_relaxed);
  if (!engine_ready && (a.standing() & standing_engine_down) == 0) {
    a.counters.backend_failures.fetch_add(1, std::memory_order_relaxed);
    a.dirty.store(true, std::memory_order_release);
  }
  // What kept it down is over: it may be asked at once.
  if (engine_ready && (a.standing() & standing_engine_down) != 0) a.probe_at_ns.store(0, std::memory_order_relaxed);
  a.set_engine_reason(engine_ready ? std::string_view() : reason);
  change_standing(a, engine_ready ? 0u : standing_engine_down, standing_silent | (engine_ready ? standing_engine_down : 0u));
}

void registry::signals(std::string_view peer_id, const std::vector<link::signal_value> &values, std::string_view structured_json) {
  member_ptr m;
  std::shared_ptr<agent> who;
  {
    std::shared_lock lock(mutex_);
    m = find_member(peer_id);
    if (!m || !m->who) return;
    who = m->who;
  }
  const uint64_t now = clock_.now();
  std::vector<column_write> writes;
  writes.reserve(values.size());
  {
    std::lock_guard lock(m->names_mutex);
    for (const link::signal_value &v : values) {
      auto known = m->names.find(v.name);
      if (known == m->names.end()) {
        hive_column id = 0;
        if (m->names.size() < settings_.names_per_agent && is_signal_name(v.name)) {
          id = columns_.intern(v.name);
          if (id != 0 && id <= kernel_.last) id = 0;  // the kernel's own are not the agent's to say
          known = m->names.emplace(std::string(v.name), id).first;
        }
        if (id == 0) stats_.refused_signal_names.fetch_add(1, std::memory_order_relaxed);
      }
      if (known == m->names.end() || known->second == 0) continue;
      const uint64_t age_ns = std::min(v.age_ms, now / ns_per_ms) * ns_per_ms;
      const uint64_t sampled = std::max<uint64_t>(1, now - age_ns);
      const bool stale = v.age_ms >= settings_.stale_after_ns / ns_per_ms;
      writes.push_back({known->second, stale ? std::nan("") : v.value, sampled});
    }
  }
  const auto pools = who->pools();  // kept through the loop
  for (const std::shared_ptr<pool> &p : *pools) p->write(*who, writes, settings_.stale_after_ns);
  if (!structured_json.empty()) who->set_structured(std::make_shared<const std::string>(structured_json));
}

void registry::models(std::string_view peer_id, std::string_view metadata_json) {
  calls later;
  {
    std::unique_lock lock(mutex_);
    const member_ptr m = find_member(peer_id);
    if (!m || !m->who) return;
    result<agent_info> info = parse_metadata(peer_id, metadata_json);
    if (!info) {
      notice(peer_id, "a change of models was refused: " + info.why().text(), later);
    } else {
      info->address = m->who->info()->address;
      apply_info(*m->who, m->who, std::move(*info), later);
    }
  }
  run_all(later);
}

void registry::set_foreign(agent &a, const link::pong_info &p) const {
  const uint32_t others = p.in_flight_total - std::min(p.in_flight_total, p.in_flight_yours);
  if (!a.set_foreign(others)) return;
  const auto pools = a.pools();  // kept through the loop
  for (const std::shared_ptr<pool> &pool : *pools) pool->refresh(a);
}

void registry::pong(std::string_view peer_id, const link::pong_info &p, link::link_id) {
  std::shared_lock lock(mutex_);
  const member_ptr m = find_member(peer_id);
  if (!m || !m->who) return;
  set_foreign(*m->who, p);
  change_standing(*m->who, 0, standing_busy);
}

void registry::refused_busy(std::string_view peer_id, const link::pong_info &p) {
  std::shared_lock lock(mutex_);
  const member_ptr m = find_member(peer_id);
  if (!m || !m->who) return;
  change_standing(*m->who, standing_busy, 0);
  set_foreign(*m->who, p);
}

void registry::draining(std::string_view peer_id, bool on) {
  std::shared_lock lock(mutex_);
  const member_ptr m = find_member(peer_id);
  if (m && m->who) change_standing(*m->who, on ? standing_draining : 0u, on ? 0u : standing_draining);
}

void registry::expired(std::string_view peer_id, bool on) {
  std::shared_lock lock(mutex_);
  const member_ptr m = find_member(peer_id);
  if (m && m->who) change_standing(*m->who, on ? standing_expired : 0u, on ? 0u : standing_expired);
}

void registry::goodbye(std::string_view peer_id) {
  calls later;
  {
    std::unique_lock lock(mutex_);
    if (const member_ptr m = find_member(peer_id)) remove(m, departure::goodbye, later);
  }
  run_all(later);
}

void registry::check_health(uint64_t now, calls &later) {
  std::vector<member_ptr> silent;
  for (const auto &[id, m] : members_) {
    if (!m->who) continue;
    agent &a = *m->who;
    const uint64_t seen = a.last_seen_ns.load(std::memory_order_relaxed);
    const uint64_t silence = now > seen ? now - seen : 0;
    if (silence > settings_.removed_after_ns) {
      silent.push_back(m);
    } else if (silence > settings_.unhealthy_after_ns && change_standing(a, standing_silent, 0)) {
      a.counters.agent_failures.fetch_add(1, std::memory_order_relaxed);
      a.dirty.store(true, std::memory_order_release);
    }
  }
  for (const member_ptr &m : silent) {
    m->who->counters.disconnections.fetch_add(1, std::memory_order_relaxed);
    m->who->dirty.store(true, std::memory_order_release);
    notice(m->peer_id, "removed: no heartbeat for " + std::to_string(settings_.removed_after_ns / ns_per_s) + " s", later);
    remove(m, departure::silent, later);
  }
  std::erase_if(departed_, [](const auto &d) { return d.second.expired(); });
  // A pool nobody serves and nobody else knows of goes; the exclusive lock keeps find_pool out meanwhile.
  std::unique_lock lock(pools_mutex_);
  std::erase_if(pools_, [](const auto &p) { return p.second.use_count() == 1; });
}

void registry::tick() {
  const uint64_t now = clock_.now();
  std::vector<std::shared_ptr<pool>> all = pools();
  for (const std::shared_ptr<pool> &p : all) p->tick(now);
  if (settings_.slow_start_ns != 0) grow_starters(now);
  if (take_turn(next_sweep_ns_, now, sweep_interval_ns)) {
    size_t expired = 0;
    for (const std::shared_ptr<pool> &p : all) expired += p->sweep(now);
    stats_.expired_signals.fetch_add(expired, std::memory_order_relaxed);
  }
  all.clear();  // the health pass drops pools that only the registry knows
  if (take_turn(next_health_ns_, now, settings_.monitor_interval_ns)) {
    calls later;
    {
      std::unique_lock lock(mutex_);
      check_health(now, later);
    }
    run_all(later);
  }
  if (history_ != nullptr && take_turn(next_flush_ns_, now, history_->settings().flush_interval_ns)) flush_history();
}

void registry::flush_history() {
  if (history_ != nullptr) history_->flush(snapshot()->agents);
}

void registry::reset_counters(std::function<void(status)> done) {
  if (history_ == nullptr) return done(fail(errc::unavailable, "this router keeps no history"));
  // Read on the storage thread, so that nobody who registers while the reset waits keeps old totals.
  history_->reset([this] { return snapshot()->agents; }, std::move(done));
}

}  // namespace hive::fleet
