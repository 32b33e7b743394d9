// What a library says of itself, copied out of its constant tables after every rule of docs/abi/rules.md was checked.
// Pure functions; any thread.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "hive/abi/plugin.h"
#include "plugins/schema.hpp"

namespace hive::plugins {

std::string_view kind_name(uint32_t kind);          // "strategy", ...; "unknown" for a kind this host does not know
uint32_t kind_of(std::string_view name);            // 0 when unknown

struct field_description {
  std::string name, unit, summary, column;
  uint32_t rule = 0, flags = 0;
  double min = 0, max = 0;
  uint32_t bit = 0;                                  // its place in the gate's fields and verdicts
};

struct component_description {
  uint32_t kind = 0;
  std::string id, version, summary;
  uint32_t needs = 0;
  schema options;
  std::vector<field_description> fields;             // gates
  const hive_component *table = nullptr;             // null in a description read from a file
};

struct plugin_description {
  std::string id, version, vendor, license;
  uint32_t abi_major = 0, abi_minor = 0;
  std::vector<component_description> components;
};

// The checks in order; the first broken rule is the answer. `table` may be null (the entry said so).
result<plugin_description> describe(const hive_plugin *table);

boost::json::value to_json(const plugin_description &);
result<plugin_description> description_from_json(std::string_view text);

}  // namespace hive::plugins
