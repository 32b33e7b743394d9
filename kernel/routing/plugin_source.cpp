#include "routing/plugin_source.hpp"

#include <algorithm>

#include "plugins/instance.hpp"

namespace hive::routing {

namespace {

class plugin_instance final : public component_instance {
 public:
  explicit plugin_instance(std::unique_ptr<plugins::instance> of) : of_(std::move(of)) {}
  void *self() const override { return of_->self(); }
  std::vector<hive_column> columns() const override { return of_->columns(); }
  bool begin(uint64_t now_ns) override {
    if (!of_->usable(now_ns)) return false;
    call_.emplace(*of_);
    return true;
  }
  void end(hive_status answer, bool wrong_answer) override {
    if (wrong_answer)
      call_->wrong_answer("an answer outside its rules (status " + std::to_string(answer) + ")");
    else
      call_->result(answer);
    call_.reset();
  }

 private:
  std::unique_ptr<plugins::instance> of_;
  std::optional<plugins::call> call_;
};

std::string_view id_of(const hive_component &c) { return {c.id.ptr, c.id.len}; }

status missing(const hive_component &c) {
  return fail(errc::not_found, "component '" + std::string(id_of(c)) + "' is not loaded");
}

}  // namespace

const hive_component *plugin_source::strategy(std::string_view id) const {
  const plugins::component *found = registry_.find(HIVE_KIND_STRATEGY, id);
  return found ? found->table() : nullptr;
}

std::optional<gate_field> plugin_source::field(std::string_view name) const {
  const plugins::gate_field *found = registry_.field(name);
  if (!found) return {};
  const hive_component *gate = found->gate->table();
  const uint32_t bit = found->field->bit;
  return gate_field{gate, static_cast<const hive_gate_vtable *>(gate->vtable)->fields[bit], bit};
}

std::string plugin_source::provider_hint(uint32_t kind, std::string_view name) const {
  const auto provides = [&](const plugins::component_description &c) {
    if (c.kind != kind) return false;
    if (kind != HIVE_KIND_GATE) return c.id == name;
    return std::any_of(c.fields.begin(), c.fields.end(), [&](const auto &field) { return field.name == name; });
  };
  for (const auto &library : registry_.libraries()) {
    const auto &all = library->description.components;
    if (library->state == plugins::library_state::loaded || std::none_of(all.begin(), all.end(), provides)) continue;
    const std::string text = "plugin " + library->name + " provides it and ";
    switch (library->state) {
      case plugins::library_state::absent: return text + "is gone: " + library->reason;
      case plugins::library_state::refused: return text + "was refused: " + library->reason;
      default: return text + "is not enabled";
    }
  }
  return {};
}

result<std::string> plugin_source::complete_options(const hive_component &c, const std::string &json) const {
  const plugins::component *found = registry_.find(c.kind, id_of(c));
  if (!found) return missing(c);
  return registry_.configure(*found, json, "policy");
}

result<std::unique_ptr<component_instance>> plugin_source::create(const hive_component &c, const std::string &name,
                                                                  const std::string &where, const std::string &options,
                                                                  const custom_rules &rules) {
  const plugins::component *found = registry_.find(c.kind, id_of(c));
  if (!found) return missing(c);
  plugins::instance_options with;
  with.name = name;
  with.where = where;
  with.json = c.kind == HIVE_KIND_GATE ? registry_.configuration(*found) : options;
  with.rules = rules;
  auto made = plugins::instance::make(registry_, *found, std::move(with), services_);
  if (!made) return made.why();
  return std::unique_ptr<component_instance>(new plugin_instance(*std::move(made)));
}

}  // namespace hive::routing
