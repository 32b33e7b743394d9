// A stand-in for NVIDIA's driver library, under its name: a program that links it finds it in the place of a real one. Two GPUs at
// most; the queries of a test's choice fail for the first. As a driver does, a failing query leaves zeros behind.
#pragma once

namespace hive::agent::test {

enum gpu_query : unsigned {
  gpu_handle = 1u << 0,
  gpu_uuid = 1u << 1,
  gpu_name = 1u << 2,
  gpu_utilization = 1u << 3,
  gpu_memory = 1u << 4,
  gpu_temperature = 1u << 5,
  gpu_power = 1u << 6,
  gpu_count = 1u << 7,   // of both
};

}  // namespace hive::agent::test

// From the next sample on.
extern "C" void fake_nvml_set(unsigned gpus, unsigned failing_queries);
