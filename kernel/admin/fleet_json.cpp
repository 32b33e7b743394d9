#include "admin/fleet_json.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <map>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace hive::admin {

namespace json = boost::json;
using fleet::agent;
using fleet::agent_info;

namespace {

// Numbers of the engine block (docs/admin-api.md): first those that the Go product has, in its order, then ours.
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

}  // namespace

json::object routing_table_row(const fleet::registry &registry, const agent &a) {
  const auto info = a.info();
  const auto [active, capacity] = a.slots.load();
  json::object row;
  row["peer_id"] = a.peer_id();
  row["metadata"] = metadata(*info);
  const uint32_t standing = a.standing();
  json::object status{
      {"healthy", (standing & fleet::standing_gone) == 0},
      {"backend_healthy", (standing & fleet::standing_engine_down) == 0},
      {"routable", a.routable()},
      {"standing", fleet::describe_standing(standing)},
      {"active_requests", active},
      {"effective_capacity", capacity},
      {"capacity_utilization", info->capacity == 0 ? 0.0 : static_cast<double>(active) / info->capacity},
      {"last_seen", rfc3339_ms(a.last_seen_unix_ms.load())},
      {"address", info->address}};
  if (a.on_probation()) status["probation"] = true;
  if (a.starting()) status["slow_start"] = true;
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
    const bool well = a->healthy();
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

}  // namespace hive::admin
