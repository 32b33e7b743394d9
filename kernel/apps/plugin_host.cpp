#include "apps/plugin_host.hpp"

#include <boost/json/serialize.hpp>
#include <algorithm>
#include <filesystem>
#include <set>

#include "observe/log.hpp"

namespace hive::apps {

void plugin_host::log(int32_t level, std::string_view component, std::string_view instance, std::string_view line) {
  spdlog::logger &to = observe::log("plugin");
  const auto at = level <= HIVE_LOG_DEBUG ? spdlog::level::debug
                  : level == HIVE_LOG_INFO ? spdlog::level::info
                  : level == HIVE_LOG_WARN ? spdlog::level::warn
                                           : spdlog::level::err;
  to.log(at, "{} [{}] {}", component, instance, line);
}

bool plugin_host::post(std::function<void()> task) {
  control_.post(std::move(task));
  return true;
}

hive_metric plugin_host::register_metric(int32_t kind, const std::string &name, const std::string &help) {
  return metrics_ == nullptr ? 0 : metrics_->declare(kind, name, help);
}

void plugin_host::add_metric(hive_metric metric, double delta) {
  if (metrics_ != nullptr && metric != 0) metrics_->add(metric, delta);
}

std::string own_program_dir() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string(".") : self.parent_path().string();
}

std::string own_plugin_dir() {
  const std::filesystem::path here = own_program_dir();
  for (const auto &candidate : {here.parent_path() / "plugins", here.parent_path() / "lib" / "hivenet-router" / "plugins"})
    if (std::filesystem::is_directory(candidate)) return candidate.string();
  return (here.parent_path() / "lib" / "hivenet-router" / "plugins").string();
}

plugins::settings plugin_places(const config::plugin_settings &written) {
  plugins::settings out;
  out.trusted_dirs = {own_plugin_dir()};
  out.dirs = written.dirs;
  out.enable_trusted = !written.enable.has_value();
  if (written.enable) {
    out.enable = *written.enable;
  } else {
    // Without a list, whatever stands in the operator's own folders is meant.
    std::set<std::string> found;
    for (const std::string &dir : written.dirs) {
      std::error_code error;
      for (const auto &entry : std::filesystem::directory_iterator(dir, error))
        if (entry.path().extension() == ".so") found.insert(entry.path().stem().string());
    }
    out.enable.assign(found.begin(), found.end());
  }
  out.pins = written.pins;
  for (const config::component_config &c : written.config) out.configuration[c.kind + "/" + c.id] = boost::json::serialize(c.values);
  out.probe_program = own_program_dir() + "/hive-plugin-check";
  return out;
}

const hive_component *routing_components::strategy(std::string_view id) const {
  const plugins::component *c = registry_.find(HIVE_KIND_STRATEGY, id);
  return c == nullptr ? nullptr : c->table();
}

std::optional<routing::gate_field> routing_components::field(std::string_view name) const {
  const plugins::gate_field *found = registry_.field(name);
  if (found == nullptr) return std::nullopt;
  const hive_component *component = found->gate->table();
  const auto *gate = static_cast<const hive_gate_vtable *>(component->vtable);
  for (uint32_t bit = 0; bit < gate->field_count; ++bit) {
    const hive_field *f = gate->fields[bit];
    if (std::string_view(f->name.ptr, f->name.len) == name) return routing::gate_field{component, f, bit};
  }
  return std::nullopt;
}

std::string routing_components::provider_hint(uint32_t kind, std::string_view name) const {
  for (const auto &library : registry_.libraries()) {
    if (library->state == plugins::library_state::loaded) continue;
    for (const auto &component : library->description.components) {
      if (component.kind != kind) continue;
      if (kind == HIVE_KIND_STRATEGY && component.id == name) return library->name;
      for (const auto &f : component.fields)
        if (f.name == name) return library->name;
    }
  }
  return {};
}

const plugins::component *routing_components::find(const hive_component &table) const {
  return registry_.find(table.kind, std::string_view(table.id.ptr, table.id.len));
}

result<std::string> routing_components::complete_options(const hive_component &table, const std::string &json) const {
  const plugins::component *c = find(table);
  if (c == nullptr) return fail(errc::not_found, "the component is not enabled");
  return registry_.configure(*c, json, c->id());
}

namespace {

class held_instance final : public routing::component_instance {
 public:
  explicit held_instance(std::unique_ptr<plugins::instance> i) : instance_(std::move(i)) {}
  void *self() const override { return instance_->self(); }

 private:
  std::unique_ptr<plugins::instance> instance_;
};

}  // namespace

result<std::unique_ptr<routing::component_instance>> routing_components::create(const hive_component &table, const std::string &name,
                                                                                const std::string &options, const void *setup) {
  const plugins::component *c = find(table);
  if (c == nullptr) return fail(errc::not_found, "the component is not enabled");
  plugins::instance_options made;
  made.name = name;
  made.where = "policy: " + name;
  made.json = options.empty() ? registry_.configuration(*c) : options;
  if (table.kind == HIVE_KIND_GATE && setup != nullptr) {
    const auto &rules = *static_cast<const hive_gate_setup *>(setup);
    for (uint32_t i = 0; i < rules.rule_count; ++i) {
      const hive_rule &r = *rules.rules[i];
      made.rules.emplace_back(std::string(r.field.ptr, r.field.len), std::string(r.json.ptr, r.json.len));
    }
  }
  auto instance = plugins::instance::make(registry_, *c, std::move(made), services_);
  if (!instance) return instance.why();
  return std::unique_ptr<routing::component_instance>(std::make_unique<held_instance>(std::move(*instance)));
}

}  // namespace hive::apps
