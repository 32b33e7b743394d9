// The component source over the plugin registry: what the loaded libraries offer to policies. Control thread.
#pragma once

#include "plugins/host_services.hpp"
#include "plugins/registry.hpp"
#include "routing/catalog.hpp"

namespace hive::routing {

class plugin_source final : public component_source {
 public:
  // Both outlive it and every instance.
  plugin_source(plugins::component_registry &registry, plugins::host_services &services)
      : registry_(registry), services_(services) {}

  const hive_component *strategy(std::string_view id) const override;
  std::optional<gate_field> field(std::string_view name) const override;
  std::vector<std::string> strategies() const override { return registry_.ids(HIVE_KIND_STRATEGY); }
  std::vector<std::string> fields() const override { return registry_.fields(); }
  std::string provider_hint(uint32_t kind, std::string_view name) const override;
  result<std::string> complete_options(const hive_component &, const std::string &json) const override;
  result<std::unique_ptr<component_instance>> create(const hive_component &, const std::string &name,
                                                     const std::string &where, const std::string &options,
                                                     const custom_rules &rules) override;

 private:
  plugins::component_registry &registry_;
  plugins::host_services &services_;
};

}  // namespace hive::routing
