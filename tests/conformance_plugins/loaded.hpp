// The plugins under test, loaded as the router loads them, and host services whose columns are a sample pool's.
#pragma once

#include <gtest/gtest.h>

#include "hive/check/sample_pool.hpp"
#include "plugins/instance.hpp"
#include "plugins/recording_services.hpp"

namespace hive::conformance {

inline plugins::component_registry &registry() {
  static plugins::component_registry &r = *[] {
    auto *made = new plugins::component_registry;
    plugins::settings s;
    s.enable_trusted = false;
    s.trusted_dirs = {PLUGIN_DIR, EXAMPLE_DIR};
    s.enable = {"strategy_least_loaded", "strategy_power_of_two", "strategy_peak_ewma", "strategy_token_load", "strategy_prefix_affinity",
                "strategy_consistent_hash", "strategy_weighted_c", "gate_srtt", "gate_hardware",
                "gate_engine", "gate_reliability"};
    const status st = made->load(s);
    EXPECT_TRUE(st.ok()) << st.text();
    return made;
  }();
  return r;
}

class pool_services : public plugins::recording_services {
 public:
  explicit pool_services(check::sample_pool &p) : pool_(p) {}
  hive_column column(std::string_view name) override { return pool_.column(std::string(name)); }

 private:
  check::sample_pool &pool_;
};

}  // namespace hive::conformance
