#include "agent/fake_nvml_test.hpp"

#include <cstdio>
#include <cstring>

namespace {

namespace asked = hive::agent::test;

constexpr int unknown_error = 999;   // NVML_ERROR_UNKNOWN

unsigned gpus = 2, failing = 0;

// The handle of a GPU is the address of its numbers.
struct fake_gpu {
  unsigned index;
  unsigned util, celsius, milliwatts;
  unsigned long long used, total;
};
fake_gpu all[2] = {{0, 90, 80, 250'000, 5, 10}, {1, 40, 60, 100'000, 1, 10}};

const fake_gpu &of(void *device) { return *static_cast<const fake_gpu *>(device); }
bool fails(const fake_gpu &g, unsigned what) { return g.index == 0 && (failing & what) != 0; }

int text(void *device, unsigned what, char *out, unsigned long size, const char *form) {
  const fake_gpu &g = of(device);
  std::memset(out, 0, size);
  if (fails(g, what)) return unknown_error;
  std::snprintf(out, size, form, g.index);
  return 0;
}

int number(void *device, unsigned what, unsigned *out, unsigned fake_gpu::*value) {
  const fake_gpu &g = of(device);
  *out = fails(g, what) ? 0 : g.*value;
  return fails(g, what) ? unknown_error : 0;
}

}  // namespace

extern "C" {

void fake_nvml_set(unsigned count, unsigned failing_queries) {
  gpus = count;
  failing = failing_queries;
}

int nvmlInit_v2() { return 0; }

int nvmlDeviceGetCount_v2(unsigned *count) {
  const bool fail = (failing & asked::gpu_count) != 0;
  *count = fail ? 0 : gpus;
  return fail ? unknown_error : 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
  *device = &all[index];
  return fails(all[index], asked::gpu_handle) ? unknown_error : 0;
}

int nvmlDeviceGetUUID(void *device, char *out, unsigned long size) { return text(device, asked::gpu_uuid, out, size, "GPU-fake-%u"); }
int nvmlDeviceGetName(void *device, char *out, unsigned long size) { return text(device, asked::gpu_name, out, size, "Fake %u"); }

int nvmlDeviceGetUtilizationRates(void *device, void *rates) {
  struct { unsigned gpu, memory; } out = {0, 0};
  const int rc = number(device, asked::gpu_utilization, &out.gpu, &fake_gpu::util);
  std::memcpy(rates, &out, sizeof out);
  return rc;
}

int nvmlDeviceGetMemoryInfo(void *device, void *bytes) {
  const fake_gpu &g = of(device);
  struct { unsigned long long total, free, used; } out = {0, 0, 0};
  const bool fail = fails(g, asked::gpu_memory);
  if (!fail) out = {g.total, g.total - g.used, g.used};
  std::memcpy(bytes, &out, sizeof out);
  return fail ? unknown_error : 0;
}

int nvmlDeviceGetTemperature(void *device, int, unsigned *celsius) { return number(device, asked::gpu_temperature, celsius, &fake_gpu::celsius); }
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) { return number(device, asked::gpu_power, milliwatts, &fake_gpu::milliwatts); }

}  // extern "C"
