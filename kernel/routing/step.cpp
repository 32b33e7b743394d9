#include "routing/step.hpp"

#include <algorithm>

#include "fleet/agent.hpp"
#include "plugins/text.hpp"
#include "routing/lane.hpp"

namespace hive::routing {

result<std::shared_ptr<step>> step::compile(const policy_document &document, size_t index, const surroundings &around) {
  const policy_step &from = document.steps[index];
  auto out = std::make_shared<step>();
  out->name_ = from.name;
  out->max_tries_ = from.max_tries > 0 ? static_cast<uint32_t>(std::min<int64_t>(from.max_tries, 1000)) : around.default_tries;
  out->max_queue_wait_ns_ = from.max_queue_wait_ns;
  out->match_ = from.match;
  out->exclude_on_error_ = from.exclude_on_error;
  out->load_ = around.columns.intern("load");

  instance_store::place at{around.where, around.where->pool->model(), document.name, from.name, 0};
  for (size_t i = 0; i < index; ++i) at.nth += document.steps[i].name == from.name;

  const hive_component *component = around.source.strategy(from.strategy.name);
  // The built-in policy works without any plugin: then the kernel's own least-loaded order stands in.
  if (!component && !document.built_in)
    return fail(errc::not_found, "no enabled plugin provides strategy '" + from.strategy.name + "'", from.name);
  std::string options = from.strategy.options;
  if (component) {
    out->needs_ |= component->needs;
    auto full = around.source.complete_options(*component, options);
    if (!full) return full.why().at(from.name);
    options = *std::move(full);
  }
  auto strategy = around.instances.get(at, component, options, {});
  if (!strategy) return strategy.why().at(from.name);
  out->strategy_ = *std::move(strategy);

  if (status s = out->bind_gates(from, at, around); !s.ok()) return s.at(from.name);
  return out;
}

void step::bind_threshold(const field_rule &rule, hive_column column, const instance_store::place &at) {
  const bool varies = at.where->pool->varies_by_kind(column);
  for (const fleet::request_kind kind : fleet::all_kinds) {
    const size_t k = fleet::index_of(kind);
    bound_rule bound{*rule.bound, column, rule.field, {}};
    if (bound.bound.leave) {
      const std::string whose = varies ? rule.field + ' ' + std::to_string(k) : rule.field;
      bound.memory = at.where->memory_of(at.document, at.step, at.nth, whose, rule.json);
    }
    rules_[k].push_back(bound);
    if (varies) by_kind_[k].add(std::move(bound));
    else if (k == 0) thresholds_.add(std::move(bound));
  }
}

status step::bind_gates(const policy_step &from, const instance_store::place &at,
                        const surroundings &around) {
  struct pending {
    const hive_component *gate;
    std::vector<const field_rule *> rules;
    custom_gate compiled;
  };
  std::vector<pending> custom;
  for (const field_rule &rule : from.exclude_if) {
    const auto served = around.source.field(rule.field);
    if (!served) return fail(errc::not_found, "no enabled plugin serves field '" + rule.field + "'", "exclude_if");
    hive_column column = 0;
    if (const std::string signal = plugins::text_of(served->field->column); !signal.empty()) {
      column = around.columns.intern(signal);
      if (column == 0)
        return fail(errc::exhausted, "field '" + rule.field + "' reads signal '" + signal +
                                         "', and the router's limit of signal names is reached", "exclude_if");
    }
    // A custom rule may read more signals than it declares.
    reads_all_ = reads_all_ || !rule.bound;
    if (rule.bound) {
      bind_threshold(rule, column, at);
      continue;
    }
    needs_ |= served->gate->needs;
    auto found = std::find_if(custom.begin(), custom.end(), [&](const pending &p) { return p.gate == served->gate; });
    if (found == custom.end()) found = custom.insert(custom.end(), pending{served->gate, {}, {}});
    found->rules.push_back(&rule);
    found->compiled.mask |= 1u << served->bit;
    found->compiled.fields.emplace_back(served->bit, rule.field);
  }
  for (pending &p : custom) {
    custom_rules rules;
    for (const field_rule *r : p.rules) rules.emplace_back(r->field, r->json);
    auto gate = around.instances.get(at, p.gate, {}, rules);
    if (!gate) return gate.why().at("exclude_if");
    if (!(*gate)->gate() || !(*gate)->gate()->evaluate)
      return fail(errc::invalid, "gate '" + plugins::text_of(p.gate->id) + "' declares a custom rule and has no evaluate", "exclude_if");
    p.compiled.gate = *std::move(gate);
    gates_.push_back(std::move(p.compiled));
  }
  return {};
}

bool step::reads(hive_column id) const {
  return reads_all_ || std::any_of(rules().begin(), rules().end(), [id](const bound_rule &r) { return r.column == id; });
}

bool step::reads_rise(hive_column id) const {
  return reads_all_ || std::any_of(rules().begin(), rules().end(), [id](const bound_rule &r) {
           return r.column == id && (r.bound.op == comparison::lt || r.bound.op == comparison::lte);
         });
}

step::known &step::known_of(std::string_view capability) {
  constexpr size_t most = 4;
  auto found = std::find_if(known_.begin(), known_.end(), [&](const known &k) { return k.capability == capability; });
  if (found != known_.end()) return *found;
  if (known_.size() < most) {
    found = known_.insert(known_.end(), known{});
  } else {
    found = known_.begin() + static_cast<std::ptrdiff_t>(next_known_++ % most);
  }
  found->capability = capability;
  found->epoch = 0;
  found->explained = {};
  return *found;
}

const uint8_t *step::fits(const fleet::pool &pool, std::string_view capability) {
  known &k = known_of(capability);
  if (k.epoch == pool.epoch()) return k.fits.data();
  k.epoch = pool.epoch();
  k.fits.resize(pool.count());
  for (uint32_t i = 0; i < pool.count(); ++i) {
    const fleet::pool_row &row = pool.row(i);
    k.fits[i] = row.who && row.info && can_do(*row.info, capability) && matches(match_, *row.info);
  }
  return k.fits.data();
}

}  // namespace hive::routing
