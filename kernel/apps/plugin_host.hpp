// The program's side of the plugin room: what plugins are lent, and where the program looks for them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "admin/exporter.hpp"
#include "base/loop.hpp"
#include "config/agent_settings.hpp"
#include "config/router_settings.hpp"
#include "fleet/column.hpp"
#include "plugins/instance.hpp"
#include "plugins/registry.hpp"

namespace hive::apps {

class plugin_host final : public plugins::host_services {
 public:
  // `columns` and `metrics` may be null (an agent has neither).
  plugin_host(loop &control, fleet::column_table *columns, admin::exporter *metrics)
      : control_(control), columns_(columns), metrics_(metrics) {}

  void set_columns(fleet::column_table &columns) { columns_ = &columns; }
  void log(int32_t level, std::string_view component, std::string_view instance, std::string_view line) override;
  bool post(std::function<void()> task) override;
  hive_column column(std::string_view name) override { return columns_ == nullptr ? 0 : columns_->intern(name); }
  hive_metric register_metric(int32_t kind, const std::string &name, const std::string &help) override;
  void add_metric(hive_metric, double delta) override;

 private:
  loop &control_;
  fleet::column_table *columns_;
  admin::exporter *metrics_;
};

// The operator's plugins block, with the package's own folder in front and what the program hands to components beneath.
plugins::settings plugin_places(const config::router_settings &);
plugins::settings plugin_places(const config::agent_settings &);
// The configuration of the storage that the settings choose, which the registry must have: with --reset-disk-db its option
// `reset` is set. Refused for a storage that has no such option.
result<std::string> storage_configuration(const plugins::component_registry &, const config::router_settings &);
// build/bin/x -> build/plugins, /usr/bin/x -> /usr/lib/hivenet-router/plugins.
std::string own_plugin_dir();
std::string own_program_dir();

}  // namespace hive::apps
