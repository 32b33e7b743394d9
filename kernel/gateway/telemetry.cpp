#include "gateway/telemetry.hpp"

namespace hive::gateway {

std::string_view to_string(ended e) {
  switch (e) {
    case ended::completed: return "completed";
    case ended::client_gone: return "client_gone";
    case ended::client_slow: return "client_slow";
    case ended::deadline: return "deadline";
    case ended::agent_lost: return "agent_lost";
    case ended::engine_error: return "engine_error";
    case ended::rejected_request: return "rejected_request";
    case ended::rejected_by_engine: return "rejected_by_engine";
    case ended::rejected_no_agent: return "rejected_no_agent";
    case ended::rejected_capacity: return "rejected_capacity";
    case ended::rejected_queue: return "rejected_queue";
    case ended::rejected_memory: return "rejected_memory";
    case ended::rejected_auth: return "rejected_auth";
    case ended::rejected_admission: return "rejected_admission";
    case ended::failed: return "failed";
    case ended::shutdown: return "shutdown";
  }
  return "unknown";
}

}  // namespace hive::gateway
