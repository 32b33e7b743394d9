#include "routing/policy_text.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "base/number_text.hpp"
#include "base/text.hpp"
#include "config/yaml.hpp"
#include "plugins/text.hpp"
#include "routing/scan.hpp"

namespace hive::routing {

namespace {

namespace yaml = config::yaml;

constexpr size_t most_model_bytes = 256;
constexpr size_t most_name_bytes = 256;   // of a step, of a provider's model: they go into headers, logs and labels

std::string join(const std::vector<std::string> &names) {
  std::string out;
  for (const std::string &n : names) {
    if (!out.empty()) out += ", ";
    out += n;
  }
  return out.empty() ? "none" : out;
}

// A value a tenth on the passing side of the limit.
std::string leave_example(const threshold &t) {
  const bool above = t.op == comparison::gt || t.op == comparison::gte;
  const double step = t.limit == 0 ? 1 : std::abs(t.limit) / 10;
  return "{" + std::string(to_string(t.op)) + ": " + shortest(t.limit) + ", leave: " + shortest(above ? t.limit - step : t.limit + step) + "}";
}

// Null stands for absent everywhere.
const yaml::node *present(const yaml::node &map, std::string_view key) {
  const yaml::node *n = map.find(key);
  return n && !n->is_null() ? n : nullptr;
}

class reader {
 public:
  reader(const component_catalog &catalog, const policy_text_options &options) : catalog_(catalog), options_(options) {}

  result<parsed_policy> read(const yaml::node &root);

 private:
  status read_mode(const yaml::node &root, policy_document &);
  status read_caps(const yaml::node &root, policy_document &);
  status read_steps(const yaml::node &root, policy_document &);
  status read_provider(const yaml::node &root, policy_document &);
  status read_step(const yaml::node &, policy_step &);
  status read_strategy(const yaml::node &step, policy_step &);
  status read_match(const yaml::node &step, match_filter &);
  status read_rules(const yaml::node &, bool shed, std::vector<field_rule> &);
  status read_threshold(const yaml::node &, const gate_field &, bool shed, field_rule &);
  status unknown_field(const yaml::node &, const std::string &name, bool shed) const;
  std::vector<std::string> shed_fields() const;
  void keys(const yaml::node &map, std::initializer_list<std::string_view> allowed) {
    for (status &s : map.unknown_keys(allowed)) unknown_.push_back(std::move(s));
  }
  void warn(const status &s) { warnings_.push_back(s.text()); }
  // What follows a problem: nothing, unless all of them are asked for.
  status take(status s) {
    if (s.ok() || !options_.every) return s;
    options_.every->push_back(std::move(s));
    return {};
  }

  const component_catalog &catalog_;
  const policy_text_options &options_;
  std::vector<status> unknown_;
  std::vector<std::string> warnings_;
};

result<parsed_policy> reader::read(const yaml::node &root) {
  if (status s = root.want_map(); !s.ok()) return s;
  keys(root, {"models", "mode", "max_input_tokens", "images_max", "admit_budget_tokens", "max_inflight", "shed_if",
              "routing_policy", "fallback_chain", "fallback_provider"});
  auto document = std::make_shared<policy_document>();
  document->name = options_.document;
  if (status s = take(read_mode(root, *document)); !s.ok()) return s;
  if (status s = take(read_caps(root, *document)); !s.ok()) return s;
  if (const yaml::node *shed = present(root, "shed_if"))
    if (status s = take(read_rules(*shed, true, document->shed_if)); !s.ok()) return s;
  if (status s = take(read_steps(root, *document)); !s.ok()) return s;
  if (status s = take(read_provider(root, *document)); !s.ok()) return s;
  if (const yaml::node *models = present(root, "models")) {
    auto names = models->as_texts();
    if (names) document->models = *std::move(names);
    else if (status s = take(names.why()); !s.ok()) return s;
  }
  if (options_.named && document->models.empty())
    if (status s = take(root.wrong("a document of its own needs models: [name, ...], the model ids it is for")); !s.ok()) return s;
  for (const std::string &model : document->models)
    if (options_.named && (model.empty() || model.size() > most_model_bytes))
      if (status s = take(root.find("models")->wrong("a model id has 1 to 256 bytes")); !s.ok()) return s;
  if (options_.strict)
    for (status &s : unknown_)
      if (status stop = take(std::move(s)); !stop.ok()) return stop;
  if (options_.strict) unknown_.clear();
  for (const status &s : unknown_) warn(s);
  return parsed_policy{std::move(document), std::move(warnings_)};
}

status reader::read_mode(const yaml::node &root, policy_document &d) {
  const yaml::node *mode = present(root, "mode");
  if (!mode) return {};
  auto text = mode->as_text();
  if (!text) return text.why();
  if (*text == "reserved" || text->empty()) return {};
  if (*text != "serverless") return mode->wrong("unknown mode '" + *text + "', want reserved or serverless");
  d.mode = *text;
  return {};
}

status reader::read_caps(const yaml::node &root, policy_document &d) {
  const std::pair<std::string_view, int64_t *> caps[] = {{"max_input_tokens", &d.max_input_tokens},
                                                         {"images_max", &d.images_max},
                                                         {"admit_budget_tokens", &d.admit_budget_tokens},
                                                         {"max_inflight", &d.max_inflight}};
  for (const auto &[name, value] : caps) {
    const yaml::node *n = present(root, name);
    if (!n) continue;
    auto v = n->as_int(0);
    if (v) *value = *v;
    else if (status s = take(n->wrong(std::string(name) + " must be a whole number, 0 (off) or more")); !s.ok()) return s;
  }
  return {};
}

status reader::read_steps(const yaml::node &root, policy_document &d) {
  const yaml::node *primary = present(root, "routing_policy");
  policy_step first;
  first.name = "routing_policy";
  if (!primary) return root.wrong("routing_policy: strategy is required, one of: " + join(catalog_.strategies()));
  if (status s = primary->want_map(); !s.ok()) return s;
  keys(*primary, {"match", "exclude_if", "on_error", "strategy", "max_tries", "max_queue_wait"});
  if (status s = take(read_step(*primary, first)); !s.ok()) return s;
  d.steps.push_back(std::move(first));
  const yaml::node *chain = present(root, "fallback_chain");
  if (!chain) return {};
  if (status s = chain->want_list(); !s.ok()) return s;
  for (const yaml::node &item : chain->items()) {
    if (status s = item.want_map(); !s.ok()) return s;
    keys(item, {"name", "match", "exclude_if", "on_error", "strategy", "max_tries", "max_queue_wait"});
    policy_step step;
    step.name = "fallback_chain[" + std::to_string(d.steps.size() - 1) + "]";
    if (const yaml::node *name = present(item, "name")) {
      auto text = name->as_text();
      if (!text) return text.why();
      if (text->size() > most_name_bytes)
        if (status s = take(name->wrong("the name of a step has at most 256 bytes")); !s.ok()) return s;
      if (!text->empty()) step.name = *std::move(text);
    }
    if (status s = take(read_step(item, step)); !s.ok()) return s;
    d.steps.push_back(std::move(step));
  }
  return {};
}

status reader::read_step(const yaml::node &n, policy_step &step) {
  if (status s = take(read_strategy(n, step)); !s.ok()) return s;
  if (const yaml::node *rules = present(n, "exclude_if"))
    if (status s = take(read_rules(*rules, false, step.exclude_if)); !s.ok()) return s;
  if (const yaml::node *match = present(n, "match"))
    if (status s = take(read_match(*match, step.match)); !s.ok()) return s;
  if (const yaml::node *on_error = present(n, "on_error")) {
    auto text = on_error->as_text();
    if (!text) return text.why();
    if (*text != "pass" && *text != "exclude") return on_error->wrong("unknown value '" + *text + "', want pass or exclude");
    step.exclude_on_error = *text == "exclude";
  }
  if (const yaml::node *tries = present(n, "max_tries")) {
    auto v = tries->as_int();
    if (!v) return v.why();
    step.max_tries = std::max<int64_t>(0, *v);
  }
  if (const yaml::node *wait = present(n, "max_queue_wait")) {
    auto ns = wait->as_duration_ns();
    if (!ns) return ns.why();
    step.max_queue_wait_ns = *ns;
  }
  return {};
}

status reader::read_strategy(const yaml::node &step, policy_step &out) {
  const yaml::node *n = present(step, "strategy");
  const yaml::node *name = n;
  const yaml::node *options = nullptr;
  if (n && n->is_map()) {
    keys(*n, {"name", "options"});
    name = present(*n, "name");
    options = present(*n, "options");
  }
  if (!name) return (n ? *n : step).wrong(out.name + ": strategy is required, one of: " + join(catalog_.strategies()));
  auto text = name->as_text();
  if (!text) return text.why();
  if (text->empty()) return name->wrong(out.name + ": strategy is required, one of: " + join(catalog_.strategies()));
  out.strategy.name = *text;
  const hive_component *component = catalog_.strategy(*text);
  if (!component) {
    if (compatibility::not_implemented(*text))
      return name->wrong("strategy '" + *text + "' is not yet implemented; available: " + join(catalog_.strategies()));
    std::string message = "unknown strategy '" + *text + "'";
    const auto names = catalog_.strategies();
    if (const std::string hint = catalog_.provider_hint(HIVE_KIND_STRATEGY, *text); !hint.empty())
      message += ": " + hint;
    else if (const std::string near = nearest(*text, names); !near.empty())
      message += ", did you mean '" + near + "'?";
    return name->wrong(message + " (available: " + join(names) + ")");
  }
  if (options) {
    if (status s = options->want_map(); !s.ok()) return s;
    out.strategy.options = boost::json::serialize(options->to_json());
  }
  if (auto full = catalog_.complete_options(*component, out.strategy.options); !full)
    return (options ? *options : *name).wrong("options of strategy '" + *text + "': " + full.why().text());
  return {};
}

status reader::read_match(const yaml::node &n, match_filter &out) {
  if (status s = n.want_map(); !s.ok()) return s;
  keys(n, {"region", "engine", "tags", "organization", "machine", "gpu_model"});
  const std::pair<std::string_view, std::string *> texts[] = {{"region", &out.region},
                                                              {"engine", &out.engine},
                                                              {"organization", &out.organization},
                                                              {"machine", &out.machine},
                                                              {"gpu_model", &out.gpu_model}};
  for (const auto &[name, value] : texts) {
    const yaml::node *member = present(n, name);
    if (!member) continue;
    auto text = member->as_text();
    if (!text) return text.why();
    *value = *std::move(text);
  }
  if (const yaml::node *tags = present(n, "tags")) {
    auto names = tags->as_texts();
    if (!names) return names.why();
    out.tags = *std::move(names);
  }
  return {};
}

status reader::read_rules(const yaml::node &n, bool shed, std::vector<field_rule> &out) {
  if (status s = n.want_map(); !s.ok()) return s;
  for (const auto &entry : n.entries()) {
    const auto field = catalog_.field(entry.key);
    if (!field || (shed && !(field->field->flags & HIVE_FIELD_SHED))) {
      if (status s = take(unknown_field(n, entry.key, shed)); !s.ok()) return s;
      continue;
    }
    field_rule rule;
    rule.field = entry.key;
    if (field->field->rule == HIVE_RULE_THRESHOLD) {
      if (status s = take(read_threshold(entry.value, *field, shed, rule)); !s.ok()) return s;
    }
    rule.json = boost::json::serialize(entry.value.to_json());
    out.push_back(std::move(rule));
  }
  return {};
}

std::vector<std::string> reader::shed_fields() const {
  std::vector<std::string> out;
  for (std::string &name : catalog_.fields())
    if (const auto f = catalog_.field(name); f && (f->field->flags & HIVE_FIELD_SHED)) out.push_back(name);
  return out;
}

status reader::unknown_field(const yaml::node &n, const std::string &name, bool shed) const {
  const std::string block = shed ? "shed_if" : "exclude_if";
  const auto names = shed ? shed_fields() : catalog_.fields();
  std::string message = block + ": unknown field '" + name + "'";
  if (shed && catalog_.field(name))
    message += ", it may stand in exclude_if only";
  else if (const std::string hint = catalog_.provider_hint(HIVE_KIND_GATE, name); !hint.empty())
    message += ": " + hint;
  else if (const std::string near = nearest(name, names); !near.empty())
    message += ", did you mean '" + near + "'?";
  const yaml::node *value = n.find(name);
  return (value ? *value : n).wrong(message + " (available: " + join(names) + ")");
}

status reader::read_threshold(const yaml::node &n, const gate_field &field, bool shed, field_rule &rule) {
  const std::string where = (shed ? "shed_if." : "exclude_if.") + rule.field;
  const std::string one = where + ": want a map with exactly one operator, like {gt: 0.9}; operators are gt, gte, lt, lte";
  if (!n.is_map()) return n.wrong(one);
  for (const std::string_view name : {"on_missing", "leave", "max_age"})
    if (const yaml::node *given = present(n, name); given && shed)
      return given->wrong(where + "." + std::string(name) + " may stand in exclude_if only: shed_if compares the mean over the agents");
  keys(n, {"gt", "gte", "lt", "lte", "on_missing", "leave", "max_age"});
  threshold t;
  int operators = 0;
  for (const comparison op : {comparison::gt, comparison::gte, comparison::lt, comparison::lte}) {
    const yaml::node *value = present(n, to_string(op));
    if (!value) continue;
    if (++operators > 1)
      return n.wrong(shed ? one : where + ": only one operator may be given, not several; operators are gt, gte, lt, lte");
    auto limit = value->as_number();
    if (!limit) return limit.why();
    t.op = op;
    t.limit = *limit;
  }
  if (operators == 0) return n.wrong(one);
  const hive_field &f = *field.field;
  const auto outside = [&](double v) { return f.min < f.max && (v < f.min || v > f.max); };
  const std::string range = " lies outside " + shortest(f.min) + ".." + shortest(f.max) + " (" + plugins::text_of(f.unit) + ")";
  if (outside(t.limit)) warn(n.wrong(where + ": " + shortest(t.limit) + range + ", so the rule never or always holds"));
  if (const yaml::node *leave = present(n, "leave")) {
    auto limit = leave->as_number();
    if (!limit) return limit.why();
    if (scan::holds_at(t.op, *limit, t.limit))
      return leave->wrong(where + ".leave: an agent at " + shortest(*limit) + " still violates " + std::string(to_string(t.op)) + " " +
                          shortest(t.limit) + "; it comes back at a value that does not, like " + leave_example(t));
    if (outside(*limit)) warn(leave->wrong(where + ".leave: " + shortest(*limit) + range + ", so an agent that is kept out may never come back"));
    t.leave = *limit;
  }
  if (const yaml::node *missing = present(n, "on_missing"); missing && !shed) {
    auto text = missing->as_text();
    if (!text) return text.why();
    if (*text != "pass" && *text != "exclude") return missing->wrong("unknown value '" + *text + "', want pass or exclude");
    t.exclude_missing = *text == "exclude";
  }
  if (const yaml::node *age = present(n, "max_age"); age && !shed) {
    auto ns = age->as_duration_ns();
    if (!ns) return ns.why();
    t.max_age_ns = *ns;
  }
  rule.bound = t;
  return {};
}

status reader::read_provider(const yaml::node &root, policy_document &d) {
  const yaml::node *n = present(root, "fallback_provider");
  if (!n) return {};
  if (status s = n->want_map(); !s.ok()) return s;
  keys(*n, {"engine", "model"});
  provider_choice p;
  const std::pair<std::string_view, std::string *> members[] = {{"engine", &p.engine}, {"model", &p.model}};
  for (const auto &[name, value] : members) {
    if (const yaml::node *member = present(*n, name)) {
      auto text = member->as_text();
      if (!text) return text.why();
      *value = *std::move(text);
    }
    if (value->empty()) return n->wrong("fallback_provider." + std::string(name) + " is required");
    if (value->size() > most_name_bytes)
      if (status s = take(n->find(name)->wrong("fallback_provider." + std::string(name) + " has at most 256 bytes")); !s.ok()) return s;
  }
  d.provider = std::move(p);
  return {};
}

}  // namespace

result<parsed_policy> parse_policy(std::string_view text, const component_catalog &catalog,
                                   const policy_text_options &options) {
  auto root = yaml::parse(text, options.file);
  if (!root) return root.why();
  return reader(catalog, options).read(*root);
}

}  // namespace hive::routing
