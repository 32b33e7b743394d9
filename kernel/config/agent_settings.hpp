// What hivenet-agent runs with. A plain struct, filled once at start and then only read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "config/client_routes.hpp"
#include "config/link_settings.hpp"
#include "config/plugin_settings.hpp"
#include "config/program_settings.hpp"
#include "config/table.hpp"

namespace hive::config {

struct agent_settings : program_settings {
  // engine
  std::string engine;               // component id
  std::string backend_url;          // without trailing slash
  std::vector<std::string> models;  // empty = every id that the engine lists
  std::string health_url;
  std::string capability;           // llm | embedding | reranker
  int64_t capacity = 0;
  duration http_timeout;
  byte_count max_answer;            // 0 = no limit
  std::vector<allowed_route> extra_routes;  // resolved
  duration health_check_interval, model_check_interval;
  duration backend_busy_limit;
  int64_t backend_failure_threshold = 0;
  // link
  std::vector<std::string> routers;  // HOST:PORT each, at least one
  std::string transport;
  std::string identity_path;
  std::vector<std::string> secrets;  // newest first
  link_secret_sources secret_sources;     // where they come from
  std::vector<std::string> router_ids;    // peer ids; empty = the routers' keys are derived from the secrets
  duration stream_write_timeout;     // 0 = off
  duration drain_timeout, shutdown_timeout;
  int64_t ready_fd = -1;             // -1 = no ready line
  // metadata
  std::string version, region, organization, machine, gpu_model, deployment_id, replica_id, llm_pretty_name, llm_info;
  std::vector<std::string> tags;
  bool hide_llm = false;
  // sampling
  duration hardware_sample_interval, engine_sample_interval, routing_signal_interval;
  std::string gpu_devices_file;
  plugin_settings plugins;

  struct written_form {
    std::string router_p2p;
    int64_t p2p_listen_port = 0;
    std::vector<std::string> extra_routes;
  } written;
};

// The component that reads an engine of that name when there is no component of the name itself: `openai` for the
// engines that older command lines name, else the name.
std::string engine_component(const std::string &engine);

void add_rows(table &, agent_settings &, const std::string &program_version);
// Those that an agent inside a router has too; its backend_url is called `url`, its engine is `auto` unless named.
void add_embedded_rows(table &, agent_settings &);
status is_component_id(const std::string &text);
status is_label(const std::string &text);
void finish(const table &, agent_settings &, std::vector<status> &problems, std::vector<std::string> &warnings);

}  // namespace hive::config
