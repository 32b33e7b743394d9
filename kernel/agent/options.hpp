// What an agent is told at start. Filled from the settings table by the program; plain data. What stands here is what the table has,
// too (apps/options_test.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "config/client_routes.hpp"

namespace hive::agent {

struct agent_options {
  std::string engine = "vllm";                 // id of an engine component
  std::string backend_url = "http://localhost:8888";
  std::string health_url;                      // asked instead of the adapter's health page; 200 is ready
  std::vector<std::string> models;             // empty = every id the engine lists
  std::string capability = "llm";
  uint32_t capacity = 10;
  std::string version = "dev";
  std::string region = "UE-France";
  std::string organization = "Unknown";
  std::string machine = "Unknown";
  std::vector<std::string> tags = {"production"};
  std::string gpu_model;
  std::string deployment_id;
  std::string replica_id;
  bool hide_llm = false;
  std::string llm_pretty_name;
  std::string llm_info;
  std::string gpu_devices_file;

  std::vector<config::allowed_route> extra_routes;    // beyond the built-in and the known ones

  uint64_t http_timeout_ns = 120 * ns_per_s;          // over one engine request; of a stream to its head, then without content
  uint64_t max_answer_bytes = 64ull << 20;            // of one that is no event stream; 0 = no limit
  uint64_t stream_write_timeout_ns = 60 * ns_per_s;   // 0 = off
  uint64_t goodbye_ns = 5 * ns_per_s;                 // for the routers to answer GOODBYE
  uint64_t hardware_interval_ns = 2 * ns_per_s;       // 0 = this host's hardware says nothing about the engine
  uint64_t engine_interval_ns = ns_per_s / 2;
  uint64_t signal_interval_ns = ns_per_s / 2;
  uint64_t health_interval_ns = 2 * ns_per_s;
  uint64_t models_interval_ns = 30 * ns_per_s;
  uint64_t busy_limit_ns = 30 * ns_per_s;             // how long a busy engine may be silent before probes count again
  uint32_t failure_threshold = 3;                     // consecutive failed probes
  bool operator==(const agent_options &) const = default;
};

}  // namespace hive::agent
