// Logging: named spdlog loggers on stderr, one a subsystem. Levels from HIVENET_ROUTER_LOG_LEVEL, else GOLOG_LOG_LEVEL:
// "debug" or "info,router=debug,metrics=debug"; format from ..._LOG_FMT: color, nocolor, json. Any thread.
//
// Subsystems: router, agent, api, auth, link (alias grpc, p2p), hardware, metrics, policy, provider, storage, plugin, kernel.
#pragma once

#include <spdlog/logger.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace hive::observe {

struct log_options {
  std::string level = {};    // as the variable holds it; empty = info
  std::string format = {};   // color | nocolor | json; empty = color on a terminal
  std::string peer_id = {};  // set on an agent: stands in every line
};

// Call once, early. Unknown subsystem or level names are an error that names the valid ones.
status start_logging(const log_options &);
void stop_logging();  // flushes
uint64_t log_lines_lost();  // stderr did not take them; nobody waits for it (stderr_sink.hpp)

// The logger of a subsystem; created on first use. Keep the reference.
spdlog::logger &log(std::string_view subsystem);

}  // namespace hive::observe
