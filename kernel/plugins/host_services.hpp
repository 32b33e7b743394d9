// What the kernel lends to plugins. The program implements it over its logs, columns, metrics and control thread, so that
// this room needs none of those. Outlives every instance. Calls come from any thread unless tagged.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "hive/abi/host.h"

namespace hive::plugins {

class host_services {
 public:
  virtual ~host_services() = default;
  // One line of an instance, e.g. ("strategy/least-loaded", "edge/llama", HIVE_LOG_WARN, "..."). Already rate-limited.
  virtual void log(int32_t level, std::string_view component, std::string_view instance, std::string_view line) = 0;
  virtual uint64_t now() { return now_ns(); }
  // Queues work for [control]; false when the program is ending.
  virtual bool post(std::function<void()> task) = 0;
  // [control]; 0 = the limit of names is reached.
  virtual hive_column column(std::string_view name) = 0;
  // [control]; the name is complete (hivenet_router_plugin_<kind>_<id>_<name>); the same name gives the same handle.
  virtual hive_metric register_metric(int32_t kind, const std::string &name, const std::string &help) = 0;
  virtual void add_metric(hive_metric, double delta) = 0;  // wait-free
};

}  // namespace hive::plugins
