#include "admin/explain_json.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value_from.hpp>
#include <cmath>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace hive::admin {

namespace json = boost::json;

namespace {

double ms(uint64_t ns) { return static_cast<double>(ns) / static_cast<double>(ns_per_ms); }

json::value number_or_null(double v) { return std::isfinite(v) ? json::value(v) : json::value(nullptr); }

json::object rule_json(const routing::rule_fate &r) {
  json::object o{{"field", r.field},
                 {"column", r.column},
                 {"operator", to_string(r.bound.op)},
                 {"threshold", r.bound.limit},
                 {"value", number_or_null(r.now.value)},
                 {"age_ms", ms(r.now.age_ns)},
                 {"missing", r.now.missing},
                 {"violated", r.now.violated}};
  if (r.bound.exclude_missing) o["on_missing"] = "exclude";
  if (r.bound.max_age_ns != 0) o["max_age"] = format_duration(r.bound.max_age_ns);
  if (r.bound.leave) {
    o["leave"] = *r.bound.leave;
    o["kept_out"] = r.now.kept_out;
  }
  return o;
}

json::object agent_json(const routing::agent_fate &a) {
  json::object o{{"peer_id", a.peer_id}, {"machine", a.machine}, {"active_requests", a.active}, {"capacity", a.capacity}};
  if (a.stopped == routing::funnel_gate::none) {
    o["fate"] = a.chosen ? "chosen" : a.left ? "on_probation" : "candidate";
    if (a.left) o["would_have_to_change"] = a.change;
  } else {
    o["fate"] = "excluded";
    o["gate"] = json::object{{"number", static_cast<int>(a.stopped)}, {"name", to_string(a.stopped)}, {"reason", a.token}};
    o["would_have_to_change"] = a.change;
  }
  if (a.score) o["score"] = number_or_null(*a.score);
  json::array rules;
  for (const routing::rule_fate &r : a.rules) rules.push_back(rule_json(r));
  o["rules"] = std::move(rules);
  if (!a.custom.empty()) o["violated_custom_fields"] = json::value_from(a.custom);
  return o;
}

json::object step_json(const routing::step_fate &s) {
  json::object o{{"name", s.name}, {"strategy", s.strategy}, {"max_tries", s.max_tries}, {"candidates", s.candidates}};
  o["empty"] = s.empty.empty() ? json::value(nullptr) : json::value(s.empty);
  o["would_wait_for_capacity"] = s.would_wait;
  json::array agents;
  for (const routing::agent_fate &a : s.agents) agents.push_back(agent_json(a));
  o["agents"] = std::move(agents);
  if (s.left_out != 0) o["agents_left_out"] = s.left_out;
  return o;
}

json::object outcome_json(const routing::explanation &e) {
  json::object o;
  if (e.serves) {
    const routing::step_fate &s = e.steps[*e.serves];
    o["step"] = s.name;
    o["agent"] = nullptr;
    for (const routing::agent_fate &a : s.agents)
      if (a.chosen) o["agent"] = a.peer_id;
    o["result"] = s.would_wait ? "waits for capacity" : "served";
    return o;
  }
  o["step"] = nullptr;
  o["agent"] = nullptr;
  o["result"] = e.known ? "no agent can serve it" : "no agent serves this model";
  std::string reason;
  for (const routing::step_fate &s : e.steps) reason += (reason.empty() ? "" : " | ") + s.name + ": " + s.empty;
  o["reason"] = reason;
  return o;
}

}  // namespace

json::object to_json(const routing::explanation &e) {
  json::object o;
  o["policy"] = json::object{{"name", e.built_in ? "built-in" : e.policy.empty() ? "global" : e.policy}, {"built_in", e.built_in}};
  o["outcome"] = outcome_json(e);
  json::array steps;
  for (const routing::step_fate &s : e.steps) steps.push_back(step_json(s));
  o["steps"] = std::move(steps);
  return o;
}

json::object to_json(const gateway::recent_request &r) {
  json::object o{{"request_id", r.request_id},   {"route", r.route},
                 {"model", r.model},             {"tenant", r.tenant},
                 {"arrived", rfc3339_ms(r.started_unix_ms)},
                 {"duration_ms", ms(r.duration_ns)},
                 {"queue_ms", ms(r.queue_ns)},   {"attempts", r.attempts},
                 {"streaming", r.streaming},     {"status", r.status},
                 {"ended", to_string(r.how)},    {"error_code", r.error_code},
                 {"agent", r.agent},             {"step", r.step},
                 {"estimated_prompt_tokens", r.estimated_prompt_tokens},
                 {"declared_output_tokens", r.declared_output_tokens}};
  return o;
}

}  // namespace hive::admin
