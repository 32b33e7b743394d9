// Samples of the host's processor, memory and NVIDIA GPUs. A reading that fails is absent, never zero. NVML is loaded at
// run time, so that hosts without a driver need nothing. Control half only.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hive::agent {

struct gpu_sample {
  uint32_t index = 0;
  std::string uuid;
  std::string name;
  std::optional<double> util_percent;       // 0..100
  std::optional<uint64_t> vram_used_bytes, vram_free_bytes, vram_total_bytes;
  std::optional<double> temperature_c;
  std::optional<double> power_watts;
};

struct hardware_sample {
  std::vector<gpu_sample> gpus;
  std::optional<double> cpu_percent;        // 0..100, since the previous sample
  std::optional<double> memory_used_percent;
  std::optional<uint64_t> memory_available_bytes, memory_total_bytes;
  uint64_t unix_s = 0;
};

class hardware_sampler {
 public:
  // `gpu_devices_file`: UUIDs or indexes to report, separated by comma or line ends; "all" = every GPU, "none" or an empty
  // list = no GPU; a missing file = every GPU. Read again at each sample. "" = every GPU.
  explicit hardware_sampler(std::string gpu_devices_file, std::string proc = "/proc");
  ~hardware_sampler();
  hardware_sample sample();
  // Why there are no GPUs to see ("" when NVML works); for one log line.
  const std::string &gpu_trouble() const;

 private:
  class nvml;
  const std::string gpu_devices_file_;
  const std::string proc_;
  std::unique_ptr<nvml> nvml_;
  uint64_t cpu_busy_ = 0, cpu_total_ = 0;
  bool cpu_seen_ = false;
};

// As the routing table and metrics show it (docs/admin-api.md, docs/metrics.md); absent values are left out.
boost::json::object json_of(const hardware_sample &);

// Policy columns of a sample: fractions 0..1, the hottest GPU wins.
struct hardware_columns {
  std::optional<double> gpu_temperature_c, gpu_util_percent, gpu_vram_used_percent, memory_used_percent, cpu_usage_percent;
};
hardware_columns columns_of(const hardware_sample &);

}  // namespace hive::agent
