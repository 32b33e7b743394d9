#include "routing/reference.hpp"

#include <boost/json.hpp>

#include "base/number_text.hpp"

namespace hive::routing {

namespace {

namespace json = boost::json;

// A cell of a Markdown table.
std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  return text;
}

std::string code(const std::string &text) { return text.empty() ? "" : "`" + cell(text) + "`"; }

void add_field(std::string &out, const plugins::gate_field &f) {
  const plugins::field_description &d = *f.field;
  const bool threshold = d.rule == HIVE_RULE_THRESHOLD;
  out += "| " + code(d.name) + " | " + cell(d.unit) + " | " + (threshold && d.min < d.max ? shortest(d.min) + " to " + shortest(d.max) : "") +
         " | " + (threshold ? "threshold" : "custom") + " | " + ((d.flags & HIVE_FIELD_SHED) != 0 ? "yes" : "") + " | " + code(d.column) +
         " | " + code(f.gate->from->name) + " | " + cell(d.summary) + " |\n";
}

std::string limits_of(const json::object &o) {
  std::string out;
  const auto add = [&](const char *key, const std::string &words) {
    if (const json::value *v = o.if_contains(key)) out += (out.empty() ? "" : ", ") + words + json::serialize(*v);
  };
  add("enum", "one of ");
  add("minimum", "at least ");
  add("maximum", "at most ");
  add("minLength", "length at least ");
  add("maxLength", "length at most ");
  return out;
}

void add_strategy(std::string &out, const plugins::component &c) {
  out += "\n### " + c.id() + "\nPlugin `" + c.from->name + "`: " + c.what->summary + ".\n";
  const json::value &schema = c.what->options.document();
  const json::object *o = schema.if_object();
  const json::value *properties = o ? o->if_contains("properties") : nullptr;
  if (!properties || !properties->is_object() || properties->get_object().empty()) {
    out += "No options.\n";
    return;
  }
  out += "\n| option | type | default | limits | meaning |\n|---|---|---|---|---|\n";
  for (const auto &[name, value] : properties->get_object()) {
    const json::object empty;
    const json::object &p = value.is_object() ? value.get_object() : empty;
    const auto text = [&](const char *key) {
      const json::value *v = p.if_contains(key);
      return v == nullptr ? std::string() : v->is_string() ? std::string(v->get_string()) : json::serialize(*v);
    };
    out += "| `" + std::string(name) + "` | " + cell(text("type")) + " | " + code(text("default")) + " | " + cell(limits_of(p)) + " | " +
           cell(text("description")) + " |\n";
  }
}

}  // namespace

std::string policy_reference(const plugins::component_registry &registry) {
  std::string out =
      "# Policy fields and strategies\n\n"
      "Made by `hive-policy-docs` from the plugins of this tree; do not edit. How rules are written and what a missing value means:\n"
      "[policy.md](../policy.md).\n\n"
      "## Fields\n"
      "Names for `exclude_if`; those marked also for `shed_if`. A threshold outside the range is a warning when the policy loads.\n\n"
      "| field | unit | range | rule | `shed_if` | signal it reads | plugin | meaning |\n|---|---|---|---|---|---|---|---|\n";
  for (const std::string &name : registry.fields()) add_field(out, *registry.field(name));
  out += "\n## Strategies\nNames for `strategy`; options as in `strategy: {name: NAME, options: {OPTION: VALUE}}`.\n";
  for (const std::string &id : registry.ids(HIVE_KIND_STRATEGY)) add_strategy(out, *registry.find(HIVE_KIND_STRATEGY, id));
  return out;
}

}  // namespace hive::routing
