// What tests and benchmarks with real plugins need around them: a host that only knows columns, and a recorder of nothing.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "plugins/host_services.hpp"
#include "routing/router.hpp"

namespace hive::routing::testing {

struct column_services final : plugins::host_services {
  explicit column_services(fleet::column_table &t) : columns(t) {}
  void log(int32_t, std::string_view, std::string_view, std::string_view) override {}
  bool post(std::function<void()>) override { return false; }
  hive_column column(std::string_view name) override { return columns.intern(name); }
  hive_metric register_metric(int32_t, const std::string &, const std::string &) override { return 0; }
  void add_metric(hive_metric, double) override {}
  fleet::column_table &columns;
};

struct nobody final : outcome_recorder {
  void on_attempt(const attempt_outcome &) override {}
};

}  // namespace hive::routing::testing
