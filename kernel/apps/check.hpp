// `hivenet-router check FILE` and --check-config of both programs: everything that would stop the start and can be known
// without listening, dialling or opening a store. Loads plugins, so it is for a process that ends after it.
#pragma once

#include <string>
#include <vector>

#include "config/load.hpp"

namespace hive::apps {

// Every problem that the settings' own checks cannot see: plugins, their configuration, component ids, the policy file.
// Warnings are appended.
std::vector<status> judge(const config::router_settings &, std::vector<std::string> &warnings);
std::vector<status> judge(const config::agent_settings &, std::vector<std::string> &warnings);

// Prints "ok", or all problems one a line; the exit code.
int check_command(const std::string &program, const config::loaded<config::router_settings> &);
int check_command(const std::string &program, const config::loaded<config::agent_settings> &);

}  // namespace hive::apps
