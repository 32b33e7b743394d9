// What the enabled plugins offer to policies: strategies, gate fields, and instances of them. The real one wraps the plugin
// registry; the kernel knows none of these names itself. Everything here belongs to the control thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "hive/abi/plugin.h"

namespace hive::routing {

// A policy field and the enabled gate that serves it. Both pointers outlive every policy (libraries stay mapped).
struct gate_field {
  const hive_component *gate = nullptr;
  const hive_field *field = nullptr;
  uint32_t bit = 0;  // index in the gate's fields: its bit in a verdict
};

class component_catalog {
 public:
  virtual ~component_catalog() = default;
  virtual const hive_component *strategy(std::string_view id) const = 0;      // null = no enabled plugin has it
  virtual std::optional<gate_field> field(std::string_view name) const = 0;   // empty = no enabled plugin has it
  virtual std::vector<std::string> strategies() const = 0;                    // ids, sorted
  virtual std::vector<std::string> fields() const = 0;                        // names, sorted
  // Which plugin would provide a strategy or field that is not there, and why it does not: "plugin gate_hardware provides it
  // and is not enabled"; empty when none is known.
  virtual std::string provider_hint(uint32_t kind, std::string_view name) const = 0;
  // The options a policy writes, valid against the component's schema and with defaults filled in.
  virtual result<std::string> complete_options(const hive_component &, const std::string &json) const = 0;
};

// An instance of a component; destroying it calls the component's `destroy`, on control. The two hooks stand around every
// call, under the pool's lock: counts, the crash line, the circuit.
class component_instance {
 public:
  virtual ~component_instance() = default;
  virtual void *self() const = 0;
  virtual std::vector<hive_column> columns() const { return {}; }          // those it bound when it was made
  virtual bool begin(uint64_t /*now_ns*/) { return true; }                 // false: its circuit is open, do not call it
  virtual void end(hive_status, bool /*wrong_answer*/) {}                  // after each begin that answered true
};

// Custom rules of a step for one gate: field, JSON.
using custom_rules = std::vector<std::pair<std::string, std::string>>;

class component_source : public component_catalog {
 public:
  // `name` stands in logs and the admin API, `where` says who uses it. Strategies get `options` (complete_options was asked
  // before), gates their own configuration block and `rules`.
  virtual result<std::unique_ptr<component_instance>> create(const hive_component &, const std::string &name,
                                                             const std::string &where, const std::string &options,
                                                             const custom_rules &rules) = 0;
};

}  // namespace hive::routing
