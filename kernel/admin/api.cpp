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

constexpr std::string_view keys_replace_path = "/admin/api-keys/replace";
constexpr uint64_t usual_body_bytes = 1 << 20, replace_body_bytes = 16 << 20;

admin_answer make(int status, std::string body) {
  admin_answer a;
  a.status = status;
  a.body = std::move(body);
  return a;
}

}  // namespace

struct api::call {
  const admin_request &request;
  const std::string &argument;   // of the path, decoded
  const reply_fn &reply;         // fills the label: whoever answers knows nothing of the table

  void ok(std::string body) const { reply(make(200, std::move(body))); }
  void missing(std::string_view words) const { reply(refusal(404, words)); }
};

struct api::row {
  std::string_view method, path, label;
  void (*serve)(api &, const call &);
  bool rest = false;           // an argument stands behind the path
  std::string_view tail = {};  // behind the argument
  bool empty = false;          // the argument may be, to be refused by its owner

  // The argument of a path that this route answers.
  std::optional<std::string_view> argument_of(std::string_view asked) const {
    if (!rest) return asked == path ? std::optional(std::string_view()) : std::nullopt;
    if (asked.size() + (empty ? 1 : 0) <= path.size() + tail.size() || !asked.starts_with(path) || !asked.ends_with(tail)) return {};
    asked.remove_suffix(tail.size());
    return asked.substr(path.size());
  }
};

// What is more special stands before what is more general.
std::span<const api::row> api::table() {
  constexpr auto agents = [](api &a, const call &c) { c.ok(json::serialize(routing_table(a.on_.fleet))); };
  constexpr auto revoked = [](api &a, const call &c) { a.agents_.revoked(c.request, c.argument, c.reply); };
  constexpr auto global_policy = [](api &a, const call &c) { a.policies_.global(c.request, c.reply); };
  constexpr auto named_policy = [](api &a, const call &c) { a.policies_.named(c.request, c.argument, c.reply); };
  constexpr auto one_key = [](api &a, const call &c) { a.client_keys_.one(c.request, c.argument, c.reply); };
  static constexpr row rows[] = {
      {"GET", "/admin/health", "/admin/health", [](api &a, const call &c) { c.ok(a.health()); }},
      {"GET", "/admin/routing-table", "/admin/routing-table", agents},
      {"GET", "/admin/agents", "/admin/agents", agents},
      {"GET", "/admin/agents/revoked", "/admin/agents/revoked", [](api &a, const call &c) { a.agents_.list_revoked(c.reply); }},
      {"POST", "/admin/agents/", "/admin/agents/:peer_id/kick",
       [](api &a, const call &c) { a.agents_.kick(c.request, c.argument, c.reply); }, true, "/kick"},
      {"PUT", "/admin/agents/", "/admin/agents/:peer_id/revoked", revoked, true, "/revoked"},
      {"DELETE", "/admin/agents/", "/admin/agents/:peer_id/revoked", revoked, true, "/revoked"},
      {"POST", "/admin/agents/", "/admin/agents/:peer_id/drain", [](api &a, const call &c) { a.drain_agent(c, true); }, true, "/drain"},
      {"DELETE", "/admin/agents/", "/admin/agents/:peer_id/drain", [](api &a, const call &c) { a.drain_agent(c, false); }, true, "/drain"},
      {"GET", "/admin/agents/", "/admin/agents/:peer_id", [](api &a, const call &c) { a.show_agent(c); }, true},
      {"GET", "/admin/models", "/admin/models", [](api &a, const call &c) { c.ok(gateway::models_view(a.on_.fleet).list(nullptr, false)); }},
      {"GET", "/admin/models/", "/admin/models/*model", [](api &a, const call &c) { a.show_model(c); }, true},
      {"GET", "/admin/storage", "/admin/storage", [](api &a, const call &c) { a.storage_stats(c.reply); }},
      {"GET", "/admin/plugins", "/admin/plugins", [](api &a, const call &c) { c.ok(json::serialize(plugins::report(a.on_.plugins))); }},
      {"GET", "/admin/plugins/", "/admin/plugins/:name", [](api &a, const call &c) { a.show_plugin(c); }, true},
      {"POST", "/admin/metrics/reset", "/admin/metrics/reset", [](api &a, const call &c) { a.reset(c.reply); }},
      {"POST", "/admin/reload", "/admin/reload", [](api &a, const call &c) { a.reload(c); }},
      {"POST", "/admin/explain", "/admin/explain", [](api &a, const call &c) { c.reply(a.explain_.answer(c.request)); }},
      {"GET", "/admin/policy", "/admin/policy", global_policy},
      {"PUT", "/admin/policy", "/admin/policy", global_policy},
      {"DELETE", "/admin/policy", "/admin/policy", global_policy},
      {"GET", "/admin/policy/models", "/admin/policy/models", [](api &a, const call &c) { a.policies_.list(c.reply); }},
      {"GET", "/admin/policy/models/", "/admin/policy/models/*name", named_policy, true},
      {"PUT", "/admin/policy/models/", "/admin/policy/models/*name", named_policy, true, {}, true},
      {"DELETE", "/admin/policy/models/", "/admin/policy/models/*name", named_policy, true, {}, true},
      {"GET", "/admin/api-keys", "/admin/api-keys", [](api &a, const call &c) { a.client_keys_.list(c.reply); }},
      {"GET", "/admin/api-keys/version", "/admin/api-keys/version", [](api &a, const call &c) { a.client_keys_.version(c.reply); }},
      {"POST", keys_replace_path, keys_replace_path, [](api &a, const call &c) { a.client_keys_.replace(c.request, c.reply); }},
      {"GET", "/admin/api-keys/", "/admin/api-keys/:id", one_key, true},
      {"PUT", "/admin/api-keys/", "/admin/api-keys/:id", one_key, true},
      {"DELETE", "/admin/api-keys/", "/admin/api-keys/:id", one_key, true},
  };
  return rows;
}

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

struct api::matched {
  const row *found = nullptr;
  std::string argument;
  std::string allow;   // the methods of that path, when none of them is the request's; empty: there is no such path
};

api::matched api::match(std::string_view method, std::string_view path) {
  matched out;
  std::string_view label;  // of the first path that fits
  for (const row &r : table()) {
    const auto rest = r.argument_of(path);
    if (!rest || (!label.empty() && r.label != label)) continue;
    label = r.label;
    if (r.method == method || (r.method == "GET" && method == "HEAD")) {
      out.found = &r;
      out.argument = gateway::percent_decode(*rest);
      return out;
    }
    out.allow += (out.allow.empty() ? "" : ", ") + std::string(r.method == "GET" ? "GET, HEAD" : r.method);
  }
  return out;
}

void api::answer(const admin_request &request, const reply_fn &reply, bool opened, const secret_test &secret) {
  const matched at = match(request.method, request.path);
  const reply_fn labelled = [reply, label = at.found ? at.found->label : std::string_view("unmatched")](admin_answer a) {
    a.route = label;
    reply(std::move(a));
  };
  if (at.found == nullptr && at.allow.empty()) return labelled(refusal(404, "no such admin route"));
  if (!opened) {
    gateway::api_error error = gateway::make_error("unauthorized", "unauthorized");
    admin_answer a = make(401, gateway::error_body(error, gateway::dialect::openai, request.request_id));
    a.fields.emplace_back("WWW-Authenticate", "Bearer realm=\"hivenet-router\"");
    return labelled(std::move(a));
  }
  if (at.found == nullptr) {
    admin_answer a = refusal(405, "this path answers to " + at.allow);
    a.fields.emplace_back("Allow", at.allow);
    return labelled(std::move(a));
  }
  if (request.caller.read_only && changes(request)) return labelled(refusal(403, "this admin key may only read"));
  // Before anything stores it or tells of it.
  if (secret && !at.argument.empty() && secret(at.argument))
    return labelled(refusal(400, "that is a key and no name; exchange it: it stood in a path"));
  at.found->serve(*this, {request, at.argument, labelled});
}

void api::show_agent(const call &c) const {
  const auto a = on_.fleet.find(c.argument);
  if (!a) return c.missing("no such agent");
  c.ok(json::serialize(routing_table_row(on_.fleet, *a)));
}

void api::drain_agent(const call &c, bool on) {
  if (!on_.fleet.set_operator_drain(c.argument, on)) return c.missing("no such agent");
  observe::log("api").info("{} {} the drain of agent {}", c.request.asked_by(), on ? "asks for" : "calls back", c.argument);
  const auto a = on_.fleet.find(c.argument);
  if (!a) return c.ok("{\"peer_id\":" + gateway::json_quote(c.argument) + "}");
  c.ok(json::serialize(routing_table_row(on_.fleet, *a)));
}

void api::show_model(const call &c) const {
  std::string body = gateway::models_view(on_.fleet).detail(c.argument, nullptr, false);
  if (!body.empty()) return c.ok(std::move(body));
  const gateway::api_error error = gateway::make_error("model_not_found", "model not found");
  c.reply(make(404, gateway::error_body(error, gateway::dialect::openai, c.request.request_id)));
}

void api::show_plugin(const call &c) const {
  const json::value one = plugins::report(on_.plugins, c.argument);
  if (one.is_null()) return c.missing("no such plugin");
  c.ok(json::serialize(one));
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
      return reply(refusal(stats ? 500 : 501, stats ? scanned.text() : "storage stats not available for this backend"));
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
    reply(make(200, json::serialize(o)));
  });
  if (!queued) reply(refusal(503, "the storage thread is busy; try again"));
}

void api::reload(const call &c) {
  observe::log("api").info("{} asks for a reload", c.request.asked_by());
  on_.reload([reply = c.reply](const reload_report &report) { reply(answer_of(report)); });
}

void api::reset(reply_fn reply) {
  on_.fleet.reset_counters([reply](status s) {
    if (!s) return reply(refusal(500, "the stored records could not be erased: " + s.text()));
    reply(make(200, "{\"status\":\"metrics reset\",\"message\":\"counters, latency and stored history of all agents are zero\"}"));
  });
}

}  // namespace hive::admin
