// Whose requests there were: the tenant families that are counted when a request is over (docs/metrics.md).
#include "admin/exporter.hpp"
#include "admin/unnamed.hpp"

namespace hive::admin {

namespace {

constexpr size_t most_kept_series = 4096;

template <class Map>
void make_room(Map &kept) {
  if (kept.size() >= most_kept_series) kept.clear();
}

}  // namespace

void exporter::count_tenant(const gateway::request_record &r, std::string_view model) {
  if (r.how == gateway::ended::rejected_auth) return;
  const bool answered = r.how == gateway::ended::completed && r.first_byte_ns != 0;
  const auto who = answered && on_.fleet != nullptr ? on_.fleet->find(r.agent) : nullptr;  // has a lock of its own
  observe::gauge last;
  answer_series series;
  {
    const std::lock_guard guard(mutex_);
    last = last_request_of(r);
    if (answered) series = answers_of(r, model, who.get());
  }
  last.set(static_cast<double>(r.started_unix_ms / 1000));
  if (!answered) return;
  const double seconds = static_cast<double>(r.first_byte_ns) / static_cast<double>(ns_per_s);
  series.of_tenant.observe(seconds);
  series.of_agent.observe(seconds);
}

observe::gauge exporter::last_request_of(const gateway::request_record &r) {
  static thread_local std::string name;
  name.assign(r.tenant).append(1, '\0').append(r.key_id);
  if (const auto found = last_request_cache_.find(name); found != last_request_cache_.end()) return found->second;
  make_room(last_request_cache_);
  return last_request_cache_.emplace(name, tenant_last_.with({or_anonymous(r.tenant), or_anonymous(r.key_id), "unset"})).first->second;
}

// By the agent's generation too: one that came back may belong to another deployment.
exporter::answer_series exporter::answers_of(const gateway::request_record &r, std::string_view model, const fleet::agent *who) {
  static thread_local std::string name;
  const uint64_t numbers[] = {who ? who->generation() : 0, static_cast<uint64_t>(r.status)};
  name.assign(reinterpret_cast<const char *>(numbers), sizeof numbers);
  for (const std::string_view part : {r.agent, model, r.tenant, r.key_id}) name.append(part).push_back('\0');
  if (const auto found = answer_cache_.find(name); found != answer_cache_.end()) return found->second;
  make_room(answer_cache_);
  const std::string deployment = who != nullptr ? who->info()->deployment_id : std::string();
  const std::string_view tenant = or_anonymous(r.tenant);
  const answer_series made{
      tenant_seconds_.with({tenant, or_anonymous(r.key_id), or_unset(deployment), model}),
      agent_seconds_.with({tenant, r.agent, model, std::to_string(r.status)})};
  return answer_cache_.emplace(name, made).first->second;
}

}  // namespace hive::admin
