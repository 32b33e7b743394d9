// The metadata an agent sends with AUTH on link 0 and with MODELS: JSON text, checked field by field.
// Pure, any thread.
#pragma once

#include <string_view>

#include "base/status.hpp"
#include "fleet/agent.hpp"

namespace hive::fleet {

// Bounds on what an agent may say of itself.
struct metadata_limits {
  static constexpr size_t json_bytes = 64 * 1024;
  static constexpr size_t models = 1024;
  static constexpr size_t text_bytes = 256;        // any text field, a model id too
  static constexpr size_t info_bytes = 8 * 1024;   // llm_info
  static constexpr size_t tags = 64;
  static constexpr uint32_t capacity = 1'000'000;
};

// {model | models, capacity, version, engine, region, organization, capability?, machine?, tags?, gpu_model?, deployment_id?,
// replica_id?, llm_pretty_name?, llm_info?, hide_llm?}. Unknown members are ignored. An error's path names the member.
result<agent_info> parse_metadata(std::string_view peer_id, std::string_view json);

}  // namespace hive::fleet
