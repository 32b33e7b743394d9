#include "admin/api.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <optional>
#include <utility>

#include "admin/answers.hpp"
#include "admin/fleet_json.hpp"
#include "base/text.hpp"
#include "gateway/error.hpp"
#include "gateway/models_view.hpp"
#include "gateway/routes.hpp"
#include "observe/log.hpp"
#include "plugins/report.hpp"
#include "tenancy/credential.hpp"

namespace hive::admin {

namespace json = boost::json;
using gateway::admin_answer;
using gateway::admin_request;

namespace {

enum class page {
  none, health, routing_table, agents, agent, drain, undrain, models, model, storage, plugins, plugin, reset, explain, policy, policies,
  named_policy, keys, keys_version, keys_replace, key, revoked_agents, kick, revoked
};

struct admin_route {
  std::string_view method, path, label;
  page what;
  bool rest = false;
  std::string_view tail = {};  // behind the argument
  bool empty = false;          // the argument may be, to be refused by its owner
};

constexpr std::string_view keys_replace_path = "/admin/api-keys/replace";
constexpr uint64_t usual_body_bytes = 1 << 20, replace_body_bytes = 16 << 20;

constexpr admin_route table[] = {
    {"GET", "/admin/health", "/admin/health", page::health},
    {"GET", "/admin/routing-table", "/admin/routing-table", page::routing_table},
    {"GET", "/admin/agents", "/admin/agents", page::agents},
    {"GET", "/admin/agents/revoked", "/admin/agents/revoked", page::revoked_agents},
    {"POST", "/admin/agents/", "/admin/agents/:peer_id/kick", page::kick, true, "/kick"},
    {"PUT", "/admin/agents/", "/admin/agents/:peer_id/revoked", page::revoked, true, "/revoked"},
    {"DELETE", "/admin/agents/", "/admin/agents/:peer_id/revoked", page::revoked, true, "/revoked"},
    {"POST", "/admin/agents/", "/admin/agents/:peer_id/drain", page::drain, true, "/drain"},
    {"DELETE", "/admin/agents/", "/admin/agents/:peer_id/drain", page::undrain, true, "/drain"},
    {"GET", "/admin/agents/", "/admin/agents/:peer_id", page::agent, true},
    {"GET", "/admin/models", "/admin/models", page::models},
    {"GET", "/admin/models/", "/admin/models/*model", page::model, true},
    {"GET", "/admin/storage", "/admin/storage", page::storage},
    {"GET", "/admin/plugins", "/admin/plugins", page::plugins},
    {"GET", "/admin/plugins/", "/admin/plugins/:name", page::plugin, true},
    {"POST", "/admin/metrics/reset", "/admin/metrics/reset", page::reset},
    {"POST", "/admin/explain", "/admin/explain", page::explain},
    {"GET", "/admin/policy", "/admin/policy", page::policy},
    {"PUT", "/admin/policy", "/admin/policy", page::policy},
    {"DELETE", "/admin/policy", "/admin/policy", page::policy},
    {"GET", "/admin/policy/models", "/admin/policy/models", page::policies},
    {"GET", "/admin/policy/models/", "/admin/policy/models/*name", page::named_policy, true},
    {"PUT", "/admin/policy/models/", "/admin/policy/models/*name", page::named_policy, true, {}, true},
    {"DELETE", "/admin/policy/models/", "/admin/policy/models/*name", page::named_policy, true, {}, true},
    {"GET", "/admin/api-keys", "/admin/api-keys", page::keys},
    {"GET", "/admin/api-keys/version", "/admin/api-keys/version", page::keys_version},
    {"POST", keys_replace_path, keys_replace_path, page::keys_replace},
    {"GET", "/admin/api-keys/", "/admin/api-keys/:id", page::key, true},
    {"PUT", "/admin/api-keys/", "/admin/api-keys/:id", page::key, true},
    {"DELETE", "/admin/api-keys/", "/admin/api-keys/:id", page::key, true},
};

admin_answer make(int status, std::string body, std::string_view label) {
  admin_answer a;
  a.status = status;
  a.body = std::move(body);
  a.route = label;
  return a;
}

admin_answer refused(int status, std::string_view words, std::string_view label) {
  admin_answer a = refusal(status, words);
  a.route = label;
  return a;
}

// The argument of a path that this route answers.
std::optional<std::string_view> argument_of(const admin_route &r, std::string_view path) {
  if (!r.rest) return path == r.path ? std::optional(std::string_view()) : std::nullopt;
  if (path.size() + (r.empty ? 1 : 0) <= r.path.size() + r.tail.size() || !path.starts_with(r.path) || !path.ends_with(r.tail)) return {};
  path.remove_suffix(r.tail.size());
  return path.substr(r.path.size());
}

}  // namespace

api::api(const api_options &options, api_subjects subjects)
    : options_(options), on_(subjects), policies_(subjects.policies),
      explain_({subjects.router, subjects.recent, subjects.names, subjects.tokens, options_.extra_routes}),
      client_keys_(subjects.keys, options.strict_keys), agents_(subjects.fleet, subjects.roster) {
  set_keys(options.keys);
}

void api::set_keys(std::vector<config::admin_key> keys) {
  auto next = std::make_shared<const std::vector<config::admin_key>>(std::move(keys));
  const std::lock_guard guard(mutex_);
  keys_ = std::move(next);
}

api::key_list api::keys_now() const {
  const std::lock_guard guard(mutex_);
  return keys_;
}

uint64_t api::most_body_bytes(std::string_view method, std::string_view path) const {
  return method == "POST" && path == keys_replace_path ? replace_body_bytes : usual_body_bytes;
}

void api::handle(admin_request request, std::function<void(admin_answer)> reply) {
  on_.control.post([this, request = std::move(request), reply = std::move(reply)]() mutable {
    auto who = opens(request.authorization);
    wipe(request.authorization);
    const bool opened = who.has_value();
    if (opened) request.caller = *std::move(who);
    const secret_test secret = changes(request) && on_.secrets ? on_.secrets() : secret_test();
    answer(request, actions_.watching(request, reply, secret), opened, secret);
  });
}

std::optional<gateway::admin_caller> api::opens(const std::string &header) const {
  const key_list keys = keys_now();
  if (keys->empty()) return options_.open_without_keys ? std::optional(gateway::admin_caller()) : std::nullopt;
  const std::string_view token = tenancy::key_in(header).value_or(std::string_view());
  if (token.empty() || token.size() > tenancy::most_token_bytes) return std::nullopt;
  const digest32 given = sha256(token);
  const config::admin_key *found = nullptr;  // every key is compared, whichever matches
  for (const config::admin_key &known : *keys)
    if (equal_secret(given, known.hash)) found = &known;
  if (found == nullptr) return std::nullopt;
  return gateway::admin_caller{found->id, found->read_only};
}

void api::answer(const admin_request &request, const reply_fn &reply, bool opened, const secret_test &secret) {
  const admin_route *found = nullptr;
  std::string argument, allow;
  std::string_view label;  // of the first path that fits; what is more special stands before what is more general
  for (const admin_route &r : table) {
    const auto rest = argument_of(r, request.path);
    if (!rest || (!label.empty() && r.label != label)) continue;
    label = r.label;
    if (r.method == request.method || (r.method == "GET" && request.method == "HEAD")) {
      found = &r;
      argument = gateway::percent_decode(*rest);
      break;
    }
    allow += (allow.empty() ? "" : ", ") + std::string(r.method == "GET" ? "GET, HEAD" : r.method);
  }
  if (found == nullptr && allow.empty()) return reply(refused(404, "no such admin route", "unmatched"));
  if (!opened) {
    gateway::api_error error = gateway::make_error("unauthorized", "unauthorized");
    admin_answer a = make(401, gateway::error_body(error, gateway::dialect::openai, request.request_id), found ? found->label : "unmatched");
    a.fields.emplace_back("WWW-Authenticate", "Bearer realm=\"hivenet-router\"");
    return reply(std::move(a));
  }
  if (found == nullptr) {
    admin_answer a = refused(405, "this path answers to " + allow, "unmatched");
    a.fields.emplace_back("Allow", allow);
    return reply(std::move(a));
  }
  if (request.caller.read_only && changes(request))
    return reply(refused(403, "this admin key may only read", found->label));
  // Before anything stores it or tells of it.
  if (secret && !argument.empty() && secret(argument))
    return reply(refused(400, "that is a key and no name; exchange it: it stood in a path", found->label));
  const auto ok = [&](std::string body) { reply(make(200, std::move(body), found->label)); };
  const auto missing = [&](std::string_view words) { reply(refused(404, words, found->label)); };
  // For answers of parts that know nothing of the table.
  const reply_fn labelled = [reply, label = found->label](admin_answer a) {
    a.route = label;
    reply(std::move(a));
  };
  switch (found->what) {
    case page::health: return ok(health());
    case page::routing_table:
    case page::agents: return ok(json::serialize(routing_table(on_.fleet)));
    case page::agent: {
      const auto a = on_.fleet.find(argument);
      if (!a) return missing("no such agent");
      return ok(json::serialize(routing_table_row(on_.fleet, *a)));
    }
    case page::drain:
    case page::undrain: {
      if (!on_.fleet.set_aside(argument, found->what == page::drain)) return missing("no such agent");
      observe::log("api").info("{} {} the drain of agent {}", request.asked_by(), found->what == page::drain ? "asks for" : "calls back", argument);
      const auto a = on_.fleet.find(argument);
      if (!a) return ok("{\"peer_id\":" + gateway::json_quote(argument) + "}");
      return ok(json::serialize(routing_table_row(on_.fleet, *a)));
    }
    case page::models: return ok(gateway::models_view(on_.fleet).list(nullptr, false));
    case page::model: {
      const std::string body = gateway::models_view(on_.fleet).detail(argument, nullptr, false);
      if (!body.empty()) return ok(body);
      return reply(make(404, gateway::error_body(gateway::make_error("model_not_found", "model not found"), gateway::dialect::openai,
                                                 request.request_id), found->label));
    }
    case page::storage: return storage_stats(labelled);
    case page::plugins: return ok(json::serialize(plugins::report(on_.plugins)));
    case page::plugin: {
      const json::value one = plugins::report(on_.plugins, argument);
      if (one.is_null()) return missing("no such plugin");
      return ok(json::serialize(one));
    }
    case page::reset: return reset(labelled);
    case page::explain: {
      return labelled(explain_.answer(request));
    }
    case page::revoked_agents:
    case page::kick:
    case page::revoked: {
      if (found->what == page::kick) return agents_.kick(request, argument, labelled);
      if (found->what == page::revoked) return agents_.revoked(request, argument, labelled);
      return agents_.list_revoked(labelled);
    }
    case page::policy:
    case page::policies:
    case page::named_policy: {
      if (found->what == page::policy) return policies_.global(request, labelled);
      if (found->what == page::policies) return policies_.list(labelled);
      return policies_.named(request, argument, labelled);
    }
    case page::keys:
    case page::keys_version:
    case page::keys_replace:
    case page::key: {
      if (found->what == page::keys) return client_keys_.list(labelled);
      if (found->what == page::keys_version) return client_keys_.version(labelled);
      if (found->what == page::keys_replace) return client_keys_.replace(request, labelled);
      return client_keys_.one(request, argument, labelled);
    }
    case page::none: break;
  }
  missing("no such admin route");
}

std::string api::health() const {
  json::object o = health_agents(on_.fleet);
  uint64_t capacity_waiting = 0;
  json::object by_model;
  for (const auto &line : on_.router.lines()) {
    capacity_waiting += line.stats.depth;
    by_model[line.model] = line.stats.depth;
  }
  const size_t waiting = on_.forwards.waiting();
  o["queue_length"] = waiting;
  o["timestamp"] = unix_ms() / 1000;
  o["waiting_dispatch"] = waiting;
  o["waiting_capacity"] = capacity_waiting;
  o["in_flight"] = on_.forwards.in_use();
  o["active_streams"] = on_.stages.streaming.load();
  o["lines"] = json::object{
      {"reading_body", on_.stages.reading_body.load()},
      {"forward_slot", json::object{{"waiting", waiting}, {"in_use", on_.forwards.in_use()}, {"slots", on_.forwards.slots()}}},
      {"selecting", on_.stages.selecting.load()},
      {"capacity", json::object{{"waiting", capacity_waiting}, {"models", std::move(by_model)}}},
      {"forwarding", on_.stages.forwarding.load()},
      {"streaming", on_.stages.streaming.load()},
      {"storage_jobs", on_.storage.waiting()}};
  return json::serialize(o);
}

void api::storage_stats(reply_fn reply) const {
  const size_t agents = on_.fleet.snapshot()->agents.size();
  const std::string backend = options_.storage;
  const uint64_t ttl = options_.entry_ttl_days;
  const std::string period = format_duration(options_.sweep_period_ns);
  const bool queued = on_.storage.post([=](fleet::storage_client &store) {
    uint64_t history = 0;
    const status scanned = store.scan("universalHistory:", [&](std::string_view, std::string_view) {
      ++history;
      return true;
    });
    const auto stats = store.stats();
    if (!scanned || !stats)
      return reply(refused(stats ? 500 : 501, stats ? scanned.text() : "storage stats not available for this backend", ""));
    json::object o;
    o["backend"] = backend;
    o["mem_db"] = json::object{{"metadata_count", agents},
                               {"univ_punctual_count", agents},
                               {"eng_punctual_count", agents},
                               {"hardware_snapshot_count", agents}};
    o["disk_db"] = json::object{{"univ_history_count", history},
                                {"lsm_size_bytes", stats->used_bytes},
                                {"vlog_size_bytes", 0},
                                {"entry_ttl_days", ttl},
                                {"entries", stats->entries},
                                {"map_size_bytes", stats->capacity_bytes},
                                {"readers", stats->readers},
                                {"expired_total", stats->expired_total}};
    o["gc_interval"] = period;
    o["last_gc_at"] = stats->last_sweep_unix_ms == 0 ? std::string("never") : rfc3339_ms(stats->last_sweep_unix_ms);
    reply(make(200, json::serialize(o), ""));
  });
  if (!queued) reply(refused(503, "the storage thread is busy; try again", ""));
}

void api::reset(reply_fn reply) {
  on_.fleet.reset_counters([reply](status s) {
    if (!s) return reply(refused(500, "the stored records could not be erased: " + s.text(), ""));
    reply(make(200, "{\"status\":\"metrics reset\",\"message\":\"counters, latency and stored history of all agents are zero\"}", ""));
  });
}

}  // namespace hive::admin
