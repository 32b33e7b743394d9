// Host services for tests: keeps what plugins say, runs posted work when told to, interns columns from 1. One thread.
#pragma once

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "plugins/host_services.hpp"

namespace hive::plugins {

class recording_services : public host_services {
 public:
  void log(int32_t, std::string_view component, std::string_view instance, std::string_view line) override {
    lines.push_back(std::string(component) + " " + std::string(instance) + ": " + std::string(line));
  }
  uint64_t now() override { return clock.now(); }
  bool post(std::function<void()> task) override {
    if (closed) return false;
    tasks.push_back(std::move(task));
    return true;
  }
  hive_column column(std::string_view name) override {
    const auto it = std::find(columns.begin(), columns.end(), name);
    if (it != columns.end()) return static_cast<hive_column>(it - columns.begin()) + 1;
    columns.emplace_back(name);
    return static_cast<hive_column>(columns.size());
  }
  hive_metric register_metric(int32_t, const std::string &name, const std::string &) override {
    metrics.emplace_back(name, 0.0);
    return static_cast<hive_metric>(metrics.size());
  }
  void add_metric(hive_metric m, double delta) override { metrics[m - 1].second += delta; }

  void run_posted() {
    while (!tasks.empty()) {
      auto task = std::move(tasks.front());
      tasks.pop_front();
      task();
    }
  }

  manual_clock clock;
  bool closed = false;
  std::vector<std::string> lines, columns;
  std::vector<std::pair<std::string, double>> metrics;
  std::deque<std::function<void()>> tasks;
};

}  // namespace hive::plugins
