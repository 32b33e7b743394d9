// What both programs share: the start of a process, its ready line, and component instances by id.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "link/router_hub.hpp"
#include "plugins/instance.hpp"
#include "plugins/registry.hpp"

namespace hive::apps {

inline constexpr const char *program_version = HIVE_VERSION;

// One line to the file descriptor, complete or not at all; -1 = none.
void write_line(int fd, const std::string &line);

// An instance of kind/id, made with `json`, else with the configuration that the registry keeps for it. Control thread.
result<std::unique_ptr<plugins::instance>> make_instance(plugins::component_registry &, plugins::host_services &, uint32_t kind,
                                                         const std::string &id, const std::string &name, const std::string &where,
                                                         std::string json = {});

// The guarded calls of a transport as the link takes them.
link::transport_ref transport_calls(plugins::instance &);

// The id of the component that reads an engine called `named`: its own, or the one that stands in for it.
std::string engine_id(const plugins::component_registry &, const std::string &named);

// The command in `words` (not empty): `plugins list|show|check ...` over the plugins of `places`, anything else is refused
// with `offered`, the program's list of commands. Returns the exit code.
int run_command(const std::string &program, const std::vector<std::string> &words, const plugins::settings &places,
                const std::string &offered);

// Crash line of the component on the stack, no SIGPIPE, libsodium ready. False: the process cannot run.
bool start_process();

}  // namespace hive::apps
