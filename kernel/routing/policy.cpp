#include "routing/policy.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "fleet/agent.hpp"

namespace hive::routing {

namespace {

struct text_member {
  std::string_view name;
  std::string match_filter::*want;
  std::string fleet::agent_info::*got;
};

// In the order they are checked; tags come between machine and gpu_model.
constexpr std::array<text_member, 5> text_members{{
    {"region", &match_filter::region, &fleet::agent_info::region},
    {"engine", &match_filter::engine, &fleet::agent_info::engine},
    {"organization", &match_filter::organization, &fleet::agent_info::organization},
    {"machine", &match_filter::machine, &fleet::agent_info::machine},
    {"gpu_model", &match_filter::gpu_model, &fleet::agent_info::gpu_model},
}};

const std::string *missing_tag(const match_filter &f, const fleet::agent_info &a) {
  for (const std::string &tag : f.tags)
    if (std::find(a.tags.begin(), a.tags.end(), tag) == a.tags.end()) return &tag;
  return nullptr;
}

bool text_differs(const text_member &m, const match_filter &f, const fleet::agent_info &a) {
  return !(f.*m.want).empty() && f.*m.want != a.*m.got;
}

std::string quoted_list(const std::vector<std::string> &names) {
  std::string out = "[";
  for (const std::string &n : names) {
    if (out.size() > 1) out += ',';
    out += n;
  }
  return out + "]";
}

boost::json::object match_json(const match_filter &f) {
  boost::json::object out;
  for (const text_member &m : text_members) {
    if (m.name == "gpu_model" && !f.tags.empty()) out["tags"] = boost::json::value_from(f.tags);
    if (!(f.*m.want).empty()) out[m.name] = f.*m.want;
  }
  return out;
}

boost::json::object rules_json(const std::vector<field_rule> &rules) {
  boost::json::object out;
  for (const field_rule &r : rules) out[r.field] = boost::json::parse(r.json);
  return out;
}

boost::json::object step_json(const policy_step &s, bool named) {
  boost::json::object out;
  if (named) out["name"] = s.name;
  out["match"] = match_json(s.match);
  if (!s.exclude_if.empty()) out["exclude_if"] = rules_json(s.exclude_if);
  if (s.exclude_on_error) out["on_error"] = "exclude";
  if (s.strategy.options == "{}") {
    out["strategy"] = s.strategy.name;
  } else {
    out["strategy"] = {{"name", s.strategy.name}, {"options", boost::json::parse(s.strategy.options)}};
  }
  if (s.max_tries > 0) out["max_tries"] = s.max_tries;
  if (s.max_queue_wait_ns > 0) out["max_queue_wait"] = format_duration(s.max_queue_wait_ns);
  return out;
}

}  // namespace

std::string_view to_string(comparison op) {
  switch (op) {
    case comparison::gt: return "gt";
    case comparison::gte: return "gte";
    case comparison::lt: return "lt";
    case comparison::lte: return "lte";
  }
  return "gt";
}

bool matches(const match_filter &f, const fleet::agent_info &a) {
  for (const text_member &m : text_members)
    if (text_differs(m, f, a)) return false;
  return !missing_tag(f, a);
}

std::string mismatch(const match_filter &f, const fleet::agent_info &a) {
  for (const text_member &m : text_members) {
    if (m.name == "gpu_model") {
      if (const std::string *tag = missing_tag(f, a)) return "tag(missing=\"" + *tag + "\",got=" + quoted_list(a.tags) + ")";
    }
    if (text_differs(m, f, a))
      return std::string(m.name) + "(got=\"" + a.*m.got + "\",want=\"" + f.*m.want + "\")";
  }
  return {};
}

std::shared_ptr<const policy_document> default_policy() {
  static const auto document = [] {
    auto d = std::make_shared<policy_document>();
    d->built_in = true;
    policy_step s;
    s.name = "routing_policy";
    s.strategy.name = compatibility::default_strategy;
    d->steps.push_back(std::move(s));
    return d;
  }();
  return document;
}

boost::json::object to_json(const policy_document &d) {
  boost::json::object out;
  if (!d.models.empty()) out["models"] = boost::json::value_from(d.models);
  if (!d.built_in) out["mode"] = d.mode;
  const std::pair<std::string_view, int64_t> caps[] = {{"max_input_tokens", d.max_input_tokens},
                                                       {"images_max", d.images_max},
                                                       {"admit_budget_tokens", d.admit_budget_tokens},
                                                       {"max_inflight", d.max_inflight}};
  for (const auto &[name, value] : caps)
    if (value > 0) out[name] = value;
  if (!d.shed_if.empty()) out["shed_if"] = rules_json(d.shed_if);
  if (!d.steps.empty()) out["routing_policy"] = step_json(d.steps.front(), false);
  if (d.steps.size() > 1) {
    boost::json::array chain;
    for (size_t i = 1; i < d.steps.size(); ++i) chain.push_back(step_json(d.steps[i], true));
    out["fallback_chain"] = std::move(chain);
  }
  if (d.provider) out["fallback_provider"] = {{"engine", d.provider->engine}, {"model", d.provider->model}};
  return out;
}

namespace compatibility {

bool not_implemented(std::string_view strategy) {
  static constexpr std::string_view names[] = {"lowest-kv-cache", "lowest-queue", "best-ttft", "best-itl"};
  return std::find(std::begin(names), std::end(names), strategy) != std::end(names);
}

}  // namespace compatibility

}  // namespace hive::routing
