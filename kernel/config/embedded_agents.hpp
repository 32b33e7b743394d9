// The engines that a router serves by itself: `--backend [TYPE=]URL` and the file's list
//
//   embedded_agents:
//     - url: http://10.0.0.5:8000     # required
//       name: edge-1                  # who it is over restarts; the URL if not given
//       engine: vllm                  # auto, the built-in value, finds it out
//       model: [llama-3]
//       capacity: 64
//
// whose other keys are those of the agent's settings: sections Engine, Metadata and Sampling. Start of a program, one thread.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "config/agent_settings.hpp"
#include "config/yaml.hpp"

namespace hive::config {

inline constexpr const char *engine_to_be_found = "auto";

struct embedded_agent {
  std::string name;         // never empty once resolved
  agent_settings settings;  // without what belongs to the link
  std::string where;        // "--backend", "router.yaml:3: embedded_agents[0]"
  std::string shown;        // as YAML, for --print-config
};

// One value of --backend.
status is_backend(const std::string &text);
// The block of the file.
void read_embedded_agents(const yaml::node &block, std::vector<embedded_agent> &out, std::vector<status> &problems);
// Adds those of --backend, in front, and fills what only the whole can say.
void finish_embedded_agents(const std::vector<std::string> &backends, const std::string &program_version,
                            std::vector<embedded_agent> &all, std::vector<status> &problems);
std::string show_embedded_agents(const std::vector<embedded_agent> &);

}  // namespace hive::config
