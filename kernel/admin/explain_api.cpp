#include "admin/explain_api.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <optional>
#include <string>
#include <utility>

#include "admin/answers.hpp"
#include "admin/explain_json.hpp"
#include "admin/explain_query.hpp"
#include "gateway/estimate.hpp"
#include "gateway/request_material.hpp"
#include "gateway/routes.hpp"
#include "http/message.hpp"

namespace hive::admin {

namespace json = boost::json;
using gateway::admin_answer;

namespace {

// The id in a body that is {"request_id": "..."} and no request of a client, which names a model.
std::optional<std::string> asked_id(std::string_view body) {
  boost::system::error_code error;
  const json::value v = json::parse(body, error);
  if (error || !v.is_object() || v.get_object().contains("model")) return {};
  const json::value *id = v.get_object().if_contains("request_id");
  if (id == nullptr || !id->is_string()) return {};
  return std::string(id->get_string());
}

}  // namespace

const gateway::route *explain_api::route_labelled(std::string_view label) const {
  for (const std::span<const gateway::route> rows : {gateway::route_table(), std::span(extra_)})
    for (const gateway::route &r : rows)
      if (r.label == label) return &r;
  return nullptr;
}

struct explain_api::question {
  std::string model, route = "/v1/chat/completions", tenant = "default", session, capability = "llm";
  std::string request_id = "explain";
  int32_t priority = 0;
  bool told_priority = false;
  bool streaming = false, streams = true, generates = true, one_prompt = true;
  uint64_t prompt_tokens = HIVE_TOKENS_UNKNOWN, output_tokens = HIVE_TOKENS_UNKNOWN;
  gateway::request_material *material = nullptr;   // null: of a request that has ended
  std::optional<gateway::recent_request> past;

  void takes(const gateway::route &r) {
    capability = r.capability;
    streams = r.streams;
    generates = r.usage != gateway::usage_source::none;
    one_prompt = gateway::one_prompt(r);
  }

  // From the query; "" = all is well.
  std::string read(std::string_view query, std::span<const gateway::route> extra) {
    explain_query told;
    if (std::string wrong = told.read(query); !wrong.empty()) return wrong;
    route = told.route.value_or(route);
    tenant = told.tenant.value_or(tenant);
    session = told.session.value_or(session);
    priority = told.priority.value_or(0);
    told_priority = told.priority.has_value();
    const gateway::route_match match = gateway::find_route("POST", route, extra);
    if (match.found == nullptr || match.found->kind != gateway::route_kind::inference)
      return "route must be one that goes to an engine, e.g. /v1/chat/completions, or one of --allow-route";
    route = match.found->label;
    takes(*match.found);
    return {};
  }
};

admin_answer explain_api::answer(const gateway::admin_request &request) {
  question q;
  std::vector<http::field> fields;
  for (const auto &[name, value] : request.fields) fields.push_back({name, value});
  q.session = gateway::session_of(fields);
  if (const std::string wrong = q.read(request.query, extra_); !wrong.empty()) return refusal(400, wrong);
  if (const auto id = asked_id(request.body)) {
    q.past = on_.recent.find(*id);
    if (!q.past)
      return refusal(404, "no request of that id among the last " + std::to_string(on_.recent.room()) + " (--explain-requests)");
    const gateway::route *found = route_labelled(q.past->route);
    q.request_id = *id;
    q.model = q.past->model;
    q.route = q.past->route;
    q.tenant = q.past->tenant;
    if (found) q.takes(*found);
    else q.capability = "any";
    q.streaming = q.past->streaming;
    q.prompt_tokens = q.past->estimated_prompt_tokens;
    if (q.past->declared_output_tokens != 0) q.output_tokens = q.past->declared_output_tokens;
    return about(q);
  }
  std::string padded = request.body;
  padded.resize(request.body.size() + http::body_padding);
  const std::string_view body(padded.data(), request.body.size());
  gateway::request_scan scan;
  if (const auto wrong = scanner_.scan(body, scan))
    return refusal(400, wrong->message + " (the body is a client's request, or {\"request_id\": \"...\"})");
  q.model = on_.names.model_of(scan.model);
  if (q.model.empty()) q.model = scan.model;
  q.streaming = scan.stream && q.streams;
  q.prompt_tokens = gateway::estimate_of(on_.tokens.ratio(q.model), scan).prompt;
  q.output_tokens = scan.output_footprint(q.one_prompt).value_or(HIVE_TOKENS_UNKNOWN);
  gateway::request_material material(body, scan, fields);
  q.material = &material;
  return about(q);
}

admin_answer explain_api::about(const question &q) const {
  routing::request_facts facts;
  facts.request_id = q.request_id;
  facts.model = q.model;
  facts.capability = q.capability;
  facts.route = q.route;
  facts.tenant = q.tenant;
  facts.session_id = q.session;
  facts.priority = q.priority;
  facts.streaming = q.streaming;
  facts.generates = q.generates;
  facts.on_demand = q.material;
  facts.prompt_tokens = q.prompt_tokens;
  facts.output_tokens = q.output_tokens;
  json::object shown = to_json(on_.router.explain(facts));
  json::object asked{{"model", q.model},         {"route", q.route},     {"capability", q.capability}, {"tenant", q.tenant},
                     {"priority", q.priority},   {"streaming", q.streaming}};
  if (q.prompt_tokens != HIVE_TOKENS_UNKNOWN) asked["estimated_prompt_tokens"] = q.prompt_tokens;
  if (q.output_tokens != HIVE_TOKENS_UNKNOWN) asked["declared_output_tokens"] = q.output_tokens;
  if (q.past) {
    // Strategies and gates that go by these may judge otherwise than they did.
    json::array missing;
    if (q.session.empty()) missing.push_back("session");
    if (!q.told_priority) missing.push_back("priority");
    missing.push_back("headers");
    missing.push_back("prompt");
    asked["not_kept"] = std::move(missing);
  }
  json::object o;
  o["request"] = std::move(asked);
  if (q.past) o["then"] = to_json(*q.past);
  for (auto &member : shown) o[member.key()] = std::move(member.value());
  admin_answer a;
  a.body = json::serialize(o);
  return a;
}

}  // namespace hive::admin
