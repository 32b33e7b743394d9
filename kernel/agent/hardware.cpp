#include "agent/hardware.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>
#include <fstream>
#include <sstream>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace hive::agent {

// The few calls of libnvidia-ml.so.1 that are needed, by their stable C names.
class hardware_sampler::nvml {
 public:
  nvml() {
    library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
      trouble_ = "no NVIDIA driver library (libnvidia-ml.so.1)";
      return;
    }
    int (*init)() = nullptr;
    const bool found = load("nvmlInit_v2", init) && load("nvmlDeviceGetCount_v2", count_) &&
                       load("nvmlDeviceGetHandleByIndex_v2", handle_) && load("nvmlDeviceGetUUID", uuid_) &&
                       load("nvmlDeviceGetName", name_) && load("nvmlDeviceGetUtilizationRates", utilization_) &&
                       load("nvmlDeviceGetMemoryInfo", memory_) && load("nvmlDeviceGetTemperature", temperature_) &&
                       load("nvmlDeviceGetPowerUsage", power_);
    if (!found) {
      trouble_ = "libnvidia-ml.so.1 lacks a function this agent needs";
      return;
    }
    if (const int rc = init(); rc != 0) {
      trouble_ = "NVML does not start (error " + std::to_string(rc) + ")";
      return;
    }
    ready_ = true;
  }

  bool ready() const { return ready_; }
  const std::string &trouble() const { return trouble_; }

  std::vector<gpu_sample> sample() {
    std::vector<gpu_sample> out;
    unsigned count = 0;
    if (count_(&count) != 0) return out;
    for (unsigned i = 0; i < count; ++i) {
      void *device = nullptr;
      if (handle_(i, &device) != 0) continue;
      gpu_sample g;
      g.index = i;
      std::array<char, 96> text{};
      if (uuid_(device, text.data(), text.size() - 1) == 0) g.uuid = text.data();
      if (name_(device, text.data(), text.size() - 1) == 0) g.name = text.data();
      struct { unsigned gpu, memory; } rates;
      if (utilization_(device, &rates) == 0) g.util_percent = rates.gpu;
      struct { unsigned long long total, free, used; } bytes;
      if (memory_(device, &bytes) == 0) {
        g.vram_total_bytes = bytes.total;
        g.vram_free_bytes = bytes.free;
        g.vram_used_bytes = bytes.used;
      }
      unsigned value = 0;
      if (temperature_(device, 0, &value) == 0) g.temperature_c = value;
      if (power_(device, &value) == 0) g.power_watts = value / 1000.0;
      out.push_back(std::move(g));
    }
    return out;
  }

 private:
  template <class F>
  bool load(const char *name, F &f) {
    f = reinterpret_cast<F>(dlsym(library_, name));
    return f != nullptr;
  }

  void *library_ = nullptr;  // never closed: the driver keeps threads of its own
  bool ready_ = false;
  std::string trouble_;
  int (*count_)(unsigned *) = nullptr;
  int (*handle_)(unsigned, void **) = nullptr;
  int (*uuid_)(void *, char *, unsigned long) = nullptr;
  int (*name_)(void *, char *, unsigned long) = nullptr;
  int (*utilization_)(void *, void *) = nullptr;
  int (*memory_)(void *, void *) = nullptr;
  int (*temperature_)(void *, int, unsigned *) = nullptr;
  int (*power_)(void *, unsigned *) = nullptr;
};

hardware_sampler::hardware_sampler(std::string gpu_devices_file, std::string proc)
    : gpu_devices_file_(std::move(gpu_devices_file)), proc_(std::move(proc)), nvml_(std::make_unique<nvml>()) {}

hardware_sampler::~hardware_sampler() = default;

const std::string &hardware_sampler::gpu_trouble() const { return nvml_->trouble(); }

namespace {

void keep_listed(std::vector<gpu_sample> &gpus, const std::string &path) {
  std::ifstream file(path);
  if (!file) return;
  std::stringstream text;
  text << file.rdbuf();
  std::string list = text.str();
  std::replace_if(list.begin(), list.end(), [](char c) { return c == '\n' || c == '\r'; }, ',');
  const std::vector<std::string> wanted = split_trimmed(list, ',');
  if (std::find(wanted.begin(), wanted.end(), "all") != wanted.end()) return;
  std::erase_if(gpus, [&](const gpu_sample &g) {
    return std::none_of(wanted.begin(), wanted.end(),
                        [&](const std::string &w) { return w == g.uuid || w == std::to_string(g.index); });
  });
}

}  // namespace

hardware_sample hardware_sampler::sample() {
  hardware_sample s;
  s.unix_s = unix_ms() / 1000;
  if (nvml_->ready()) {
    s.gpus = nvml_->sample();
    if (!gpu_devices_file_.empty()) keep_listed(s.gpus, gpu_devices_file_);
  }

  std::ifstream stat(proc_ + "/stat");
  std::string word;
  if (stat >> word && word == "cpu") {
    std::array<uint64_t, 8> t{};  // user nice system idle iowait irq softirq steal
    bool whole = true;
    for (uint64_t &v : t) whole = whole && static_cast<bool>(stat >> v);
    if (whole) {
      uint64_t total = 0;
      for (uint64_t v : t) total += v;
      const uint64_t busy = total - t[3] - t[4];
      if (cpu_seen_ && total > cpu_total_ && busy >= cpu_busy_)
        s.cpu_percent = 100.0 * static_cast<double>(busy - cpu_busy_) / static_cast<double>(total - cpu_total_);
      cpu_seen_ = true;
      cpu_busy_ = busy;
      cpu_total_ = total;
    }
  }

  std::ifstream meminfo(proc_ + "/meminfo");
  std::optional<uint64_t> total, free, buffers, cached, reclaimable, available;
  for (std::string line; std::getline(meminfo, line);) {
    std::istringstream parts(line);
    std::string key;
    uint64_t kib = 0;
    if (!(parts >> key >> kib)) continue;
    const uint64_t bytes = kib * 1024;
    if (key == "MemTotal:") total = bytes;
    else if (key == "MemFree:") free = bytes;
    else if (key == "Buffers:") buffers = bytes;
    else if (key == "Cached:") cached = bytes;
    else if (key == "SReclaimable:") reclaimable = bytes;
    else if (key == "MemAvailable:") available = bytes;
  }
  s.memory_total_bytes = total;
  s.memory_available_bytes = available;
  if (total && *total > 0 && free && buffers && cached) {
    const uint64_t loose = *free + *buffers + *cached + reclaimable.value_or(0);
    s.memory_used_percent = 100.0 * static_cast<double>(*total - std::min(*total, loose)) / static_cast<double>(*total);
  }
  return s;
}

boost::json::object json_of(const hardware_sample &s) {
  namespace json = boost::json;
  json::object out;
  json::array gpus;
  for (const gpu_sample &g : s.gpus) {
    json::object o;
    o["index"] = g.index;
    if (g.util_percent) o["util_percent"] = *g.util_percent;
    if (g.vram_used_bytes) o["vram_used_bytes"] = *g.vram_used_bytes;
    if (g.vram_free_bytes) o["vram_free_bytes"] = *g.vram_free_bytes;
    if (g.vram_total_bytes) o["vram_total_bytes"] = *g.vram_total_bytes;
    if (g.temperature_c) o["temperature_c"] = *g.temperature_c;
    if (g.power_watts) o["power_watts"] = *g.power_watts;
    gpus.push_back(std::move(o));
  }
  out["gpu"] = std::move(gpus);
  json::object cpu;
  if (s.cpu_percent) cpu["usage_percent"] = *s.cpu_percent;
  out["cpu"] = std::move(cpu);
  json::object memory;
  if (s.memory_used_percent) memory["used_percent"] = *s.memory_used_percent;
  if (s.memory_available_bytes) memory["available_bytes"] = *s.memory_available_bytes;
  if (s.memory_total_bytes) memory["total_bytes"] = *s.memory_total_bytes;
  out["memory"] = std::move(memory);
  out["timestamp"] = s.unix_s;
  return out;
}

hardware_columns columns_of(const hardware_sample &s) {
  hardware_columns c;
  const auto raise = [](std::optional<double> &best, double v) { best = best ? std::max(*best, v) : v; };
  for (const gpu_sample &g : s.gpus) {
    if (g.temperature_c) raise(c.gpu_temperature_c, *g.temperature_c);
    if (g.util_percent) raise(c.gpu_util_percent, *g.util_percent / 100);
    if (g.vram_used_bytes && g.vram_total_bytes)
      raise(c.gpu_vram_used_percent, *g.vram_total_bytes == 0 ? 0.0
                                                              : static_cast<double>(*g.vram_used_bytes) /
                                                                    static_cast<double>(*g.vram_total_bytes));
  }
  if (s.memory_used_percent) c.memory_used_percent = *s.memory_used_percent / 100;
  if (s.cpu_percent) c.cpu_usage_percent = *s.cpu_percent / 100;
  return c;
}

}  // namespace hive::agent
