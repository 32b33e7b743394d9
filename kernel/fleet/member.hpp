// The registry's private record of one key: its owner, the owner's links and a newcomer that waits for a probe.
// Guarded by the registry's mutex, except `names`.
#pragma once

#include <optional>

#include "fleet/registry.hpp"

namespace hive::fleet {

struct registry::member {
  struct link_entry {
    link::link_id id;
    uint32_t index;
    std::string address;
  };
  struct newcomer {
    link::auth_request request;
    agent_info info;
    reply_fn reply;
  };

  std::string peer_id;
  std::shared_ptr<agent> who;               // null until its first registration is complete
  uint64_t boot_id = 0;
  std::vector<link_entry> links;
  std::optional<newcomer> waiting;
  uint64_t probe_round = 0;                 // answers of an older round are ignored
  uint32_t probes_out = 0;
  uint64_t no_probe_before_ns = 0;

  std::mutex names_mutex;
  text_map<hive_column> names;              // signal names it publishes; 0 = refused by the router's limit
};

}  // namespace hive::fleet
