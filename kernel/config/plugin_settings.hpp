// The `plugins:` block of both programs' files:
//
//   plugins:
//     dirs: [/usr/lib/hivenet-router/plugins]   # also --plugin-dir
//     enable: [strategy_least_loaded, gate_srtt]  # absent = every library found
//     config:
//       gate: {srtt: {stale_after_ms: 10000}}     # kind, component id, what its schema allows
//     pins: {gate_srtt: <sha256 of the file, 64 hex digits>}
#pragma once

#include <boost/json/object.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "config/yaml.hpp"

namespace hive::config {

struct component_config {
  std::string kind;            // strategy, gate, storage, transport, engine
  std::string id;
  boost::json::object values;  // not yet checked against the component's schema
  std::string where;           // "router.yaml:12: plugins.config.gate.srtt", for the errors of that check
};

struct plugin_settings {
  std::vector<std::string> dirs;                   // empty: the program's own place
  std::optional<std::vector<std::string>> enable;  // library names without .so
  std::vector<component_config> config;
  std::map<std::string, std::string> pins;         // library name -> sha256, lowercase hex

  const component_config *find(std::string_view kind, std::string_view id) const;
};

// Reads everything but `dirs`, which is a row of the settings table.
void read_plugins(const yaml::node &block, plugin_settings &out, std::vector<status> &problems);
// As YAML, below the rows of the table; values under keys that look like secrets are masked.
std::string show_plugins(const plugin_settings &);

}  // namespace hive::config
