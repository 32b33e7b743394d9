#include "admin/fleet_json.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace hive::admin {

namespace json = boost::json;
using fleet::agent;
using fleet::agent_info;

namespace {

constexpr uint32_t agent_gone = fleet::standing_unlinked | fleet::standing_silent | fleet::standing_removed;

// The sheet's engine block, in its order, then what it lacks.
constexpr const char *engine_fields[] = {"kv_cache_utilization", "running_requests", "waiting_requests", "avg_ttft_seconds",
                                         "p90_ttft_seconds",     "avg_itl_seconds",  "p90_itl_seconds",
                                         "predicted_tokens_per_second", "prompt_tokens_per_second",
                                         "lifetime_avg_ttft_seconds", "lifetime_p90_ttft_seconds",
                                         "lifetime_avg_itl_seconds", "lifetime_p90_itl_seconds"};

void put_if(json::object &o, const char *key, const std::string &value) {
  if (!value.empty()) o[key] = value;
}

json::object metadata(const agent_info &info) {
  json::object o;
  o["model"] = info.models.empty() ? std::string() : info.models.front();
  o["models"] = json::array(info.models.begin(), info.models.end());
  o["engine"] = info.engine;
  o["capacity"] = info.capacity;
  put_if(o, "version", info.version);
  put_if(o, "region", info.region);
  put_if(o, "organization", info.organization);
  put_if(o, "machine", info.machine);
  if (!info.tags.empty()) o["tags"] = json::array(info.tags.begin(), info.tags.end());
  if (info.hide_llm) o["hide_llm"] = true;
  put_if(o, "llm_pretty_name", info.llm_pretty_name);
  put_if(o, "llm_info", info.llm_info);
  put_if(o, "capability", info.capability);
  put_if(o, "gpu_model", info.gpu_model);
  put_if(o, "deployment_id", info.deployment_id);
  put_if(o, "replica_id", info.replica_id);
  return o;
}

json::object universal(const agent &a) {
  const fleet::agent_counters &c = a.counters;
  json::object o;
  o["successful_requests_total"] = c.successful.load();
  o["failed_requests_total"] = c.failed.load();
  const double rate = c.success_rate();
  o["success_rate"] = std::isnan(rate) ? 0.0 : rate;
  const auto recent = a.recent.rate(now_ns());
  o["success_rate_5m"] = recent ? json::value(*recent) : json::value(nullptr);
  o["input_tokens_total"] = c.input_tokens.load();
  o["output_tokens_total"] = c.output_tokens.load();
  o["rejected_requests_total"] = c.rejected.load();
  o["disconnections_total"] = c.disconnections.load();
  o["agent_failures_total"] = c.agent_failures.load();
  o["backend_failures_total"] = c.backend_failures.load();
  o["consecutive_failures"] = c.streak.load();
  const auto latency = a.latency.value();
  o["latency_state"] = latency ? "KNOWN" : "UNKNOWN";
  o["srtt_ms"] = latency ? json::value(latency->srtt_ms) : json::value(nullptr);
  o["rttvar_ms"] = latency ? json::value(latency->rttvar_ms) : json::value(nullptr);
  return o;
}

struct model_entry {
  std::string pretty_name, info, capability, organization, alias_of;
  bool hide = false;
  uint64_t total = 0, healthy = 0, capacity = 0, created_s = 0;
  std::set<std::string> engines, regions;
};

std::map<std::string, model_entry> models_of(const fleet::registry &registry, const gateway::model_names *names) {
  std::map<std::string, model_entry> models;
  const auto snapshot = registry.snapshot();
  for (const auto &a : snapshot->agents) {
    const auto info = a->info();
    for (const std::string &id : info->models) {
      model_entry &m = models[id];
      const auto first = [](std::string &to, const std::string &from) { if (to.empty()) to = from; };
      first(m.pretty_name, info->llm_pretty_name);
      first(m.info, info->llm_info);
      first(m.capability, info->capability);
      first(m.organization, info->organization);
      m.hide = m.hide || info->hide_llm;
      ++m.total;
      m.healthy += is_healthy(*a);
      m.capacity += info->capacity;
      if (!info->engine.empty()) m.engines.insert(info->engine);
      if (!info->region.empty()) m.regions.insert(info->region);
      const uint64_t since = a->online_since_unix_ms.load() / 1000;
      m.created_s = m.created_s == 0 ? since : std::min(m.created_s, since);
    }
  }
  if (names == nullptr) return models;
  // An alias of a model that nobody serves cannot be asked for, and is not shown.
  std::map<std::string, model_entry> aliases;
  for (const config::model_alias &each : *names->all()) {
    const auto model = models.find(each.model);
    if (model == models.end()) continue;
    aliases[each.alias] = model->second;
    aliases[each.alias].alias_of = each.model;
  }
  for (auto &[alias, entry] : aliases) models[alias] = std::move(entry);
  return models;
}

const std::string &own_name(const std::string &id, const model_entry &m) { return m.alias_of.empty() ? id : m.alias_of; }

json::object model_json(const std::string &id, const model_entry &m) {
  json::object o;
  o["id"] = id;
  o["object"] = "model";
  o["created"] = m.created_s;
  o["owned_by"] = m.organization.empty() || m.organization == "Unknown" ? std::string("hivenet") : m.organization;
  put_if(o, "pretty_name", m.pretty_name);
  put_if(o, "info", m.info);
  put_if(o, "capability", m.capability);
  if (m.hide) o["hide_llm"] = true;
  put_if(o, "alias_of", m.alias_of);
  o["agents"] = json::object{{"total", m.total},
                             {"healthy", m.healthy},
                             {"total_capacity", m.capacity},
                             {"engines", json::array(m.engines.begin(), m.engines.end())},
                             {"regions", json::array(m.regions.begin(), m.regions.end())}};
  return o;
}

void add_anthropic_fields(json::object &o, const std::string &id, const model_entry &m) {
  o["type"] = "model";
  o["display_name"] = m.pretty_name.empty() ? id : m.pretty_name;
  o["created_at"] = rfc3339_ms(m.created_s * 1000);
}

}  // namespace

bool is_healthy(const agent &a) { return (a.standing() & (agent_gone | fleet::standing_engine_down)) == 0; }

json::object routing_table_row(const fleet::registry &registry, const agent &a) {
  const auto info = a.info();
  const auto [active, capacity] = a.slots.load();
  json::object row;
  row["peer_id"] = a.peer_id();
  row["metadata"] = metadata(*info);
  const uint32_t standing = a.standing();
  json::object status{
      {"healthy", (standing & agent_gone) == 0},
      {"backend_healthy", (standing & fleet::standing_engine_down) == 0},
      {"routable", a.routable()},
      {"standing", fleet::describe_standing(standing)},
      {"active_requests", active},
      {"capacity_utilization", info->capacity == 0 ? 0.0 : static_cast<double>(active) / info->capacity},
      {"last_seen", rfc3339_ms(a.last_seen_unix_ms.load())},
      {"address", info->address}};
  if ((standing & fleet::standing_engine_down) != 0) status["backend_reason"] = a.engine_reason();
  row["status"] = std::move(status);
  row["universal"] = universal(a);

  std::map<std::string, double> values;
  for (const fleet::column_value &v : registry.signals_of(a)) values[registry.columns().name(v.id)] = v.value;
  json::object engine;
  for (const char *field : engine_fields)
    if (const auto it = values.find(field); it != values.end()) engine[field] = it->second;
  boost::system::error_code ignored;
  if (const auto text = a.structured()) {
    const json::value parsed = json::parse(*text, ignored);
    if (!ignored && parsed.is_object()) {
      if (const json::value *e = parsed.as_object().if_contains("engine"); e != nullptr && e->is_object())
        if (const json::value *p = e->as_object().if_contains("preemptions_total")) engine["preemptions_total"] = *p;
      if (const json::value *h = parsed.as_object().if_contains("hardware"); h != nullptr && h->is_object()) {
        json::object hardware = h->as_object();
        if (const json::value *t = hardware.if_contains("timestamp"); t != nullptr && t->is_int64()) {
          std::string when = rfc3339_ms(static_cast<uint64_t>(t->as_int64()) * 1000);
          hardware["timestamp"] = when.substr(0, 19) + "Z";
        }
        row["hardware"] = std::move(hardware);
      }
    }
  }
  if (!engine.empty()) row["engine"] = std::move(engine);
  return row;
}

json::object routing_table(const fleet::registry &registry) {
  json::array rows;
  const auto snapshot = registry.snapshot();
  for (const auto &a : snapshot->agents) rows.push_back(routing_table_row(registry, *a));
  json::object out;
  out["total"] = rows.size();
  out["agents"] = std::move(rows);
  return out;
}

json::object health_agents(const fleet::registry &registry) {
  json::array agents;
  uint64_t healthy = 0;
  const auto snapshot = registry.snapshot();
  for (const auto &a : snapshot->agents) {
    const auto info = a->info();
    const bool well = is_healthy(*a);
    healthy += well;
    agents.push_back(json::object{{"peer_id", a->peer_id()},
                                  {"model", info->models.empty() ? std::string() : info->models.front()},
                                  {"engine", info->engine},
                                  {"version", info->version},
                                  {"capacity", info->capacity},
                                  {"region", info->region},
                                  {"is_healthy", well},
                                  {"last_seen", a->last_seen_unix_ms.load() / 1000}});
  }
  json::object out;
  out["status"] = healthy > 0 ? "healthy" : "degraded";
  out["total_agents"] = agents.size();
  out["healthy_agents"] = healthy;
  out["agents"] = std::move(agents);
  return out;
}

std::string fleet_models::list(viewer who, bool anthropic) const {
  json::array data;
  auto models = models_of(registry_, names_);
  if (who != nullptr) std::erase_if(models, [who](const auto &m) { return !who->may_use(own_name(m.first, m.second)); });
  for (const auto &[id, m] : models) {
    json::object o = model_json(id, m);
    if (anthropic) add_anthropic_fields(o, id, m);
    data.push_back(std::move(o));
  }
  json::object page{{"object", "list"}, {"data", std::move(data)}};
  if (anthropic) {
    page["has_more"] = false;
    page["first_id"] = models.empty() ? json::value(nullptr) : json::value(models.begin()->first);
    page["last_id"] = models.empty() ? json::value(nullptr) : json::value(models.rbegin()->first);
  }
  return json::serialize(page);
}

std::string fleet_models::detail(std::string_view model, viewer who, bool anthropic) const {
  const auto models = models_of(registry_, names_);
  const auto it = models.find(std::string(model));
  if (it == models.end()) return {};
  const std::string &served = own_name(it->first, it->second);
  if (who != nullptr && !who->may_use(served)) return {};
  json::object o = model_json(it->first, it->second);
  if (anthropic) add_anthropic_fields(o, it->first, it->second);
  if (!show_agents_) return json::serialize(o);
  json::array list;
  const auto snapshot = registry_.snapshot();
  for (const auto &a : snapshot->agents) {
    const auto info = a->info();
    if (std::find(info->models.begin(), info->models.end(), served) == info->models.end()) continue;
    json::object entry;
    entry["peer_id"] = a->peer_id();
    put_if(entry, "engine", info->engine);
    put_if(entry, "version", info->version);
    put_if(entry, "region", info->region);
    put_if(entry, "organization", info->organization);
    put_if(entry, "machine", info->machine);
    entry["capacity"] = info->capacity;
    entry["is_healthy"] = is_healthy(*a);
    entry["last_seen"] = a->last_seen_unix_ms.load() / 1000;
    list.push_back(std::move(entry));
  }
  if (!list.empty()) o["agents"].as_object()["list"] = std::move(list);
  return json::serialize(o);
}

std::string fleet_models::near(std::string_view model, viewer who) const {
  std::vector<std::string> ids;
  for (const auto &[id, m] : models_of(registry_, names_))
    if (who == nullptr || who->may_use(own_name(id, m))) ids.push_back(id);
  return nearest(model, ids);
}

}  // namespace hive::admin
