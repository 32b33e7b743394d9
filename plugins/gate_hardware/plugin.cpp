#include "hive/sdk/gate.hpp"

namespace {

using hive::sdk::field;

// Keeps agents out by the state of their machine. Thresholds only: the router evaluates them, there is no code here.
// Of several GPUs the columns hold the maximum, each on its own.
struct hardware_gate {
  static constexpr std::string_view id = "hardware";
  static constexpr std::string_view summary = "temperature and use of an agent's GPUs, memory and CPUs";
  static constexpr std::array fields{
      field("gpu_temperature_c", "C", "gpu_temperature_c", "hottest GPU, degrees Celsius", 0, 150),
      field("gpu_util_percent", "fraction", "gpu_util_percent", "busiest GPU, 0..1", 0, 1),
      field("gpu_vram_used_percent", "fraction", "gpu_vram_used_percent", "fullest GPU memory, used / total, 0..1", 0, 1),
      field("memory_used_percent", "fraction", "memory_used_percent", "memory of the whole host in use, 0..1", 0, 1),
      field("cpu_usage_percent", "fraction", "cpu_usage_percent", "CPU time of the whole host in use, 0..1", 0, 1),
  };
};

}  // namespace

HIVE_PLUGIN("gate_hardware", "1.0.0", "hivenet", "Apache-2.0", hive::sdk::gate<hardware_gate>)
