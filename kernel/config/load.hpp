// From a command line to settings, or to what the program should print and its exit code instead. Start of a program,
// one thread; reads files, writes nothing.
#pragma once

#include <string>
#include <vector>

#include "config/agent_settings.hpp"
#include "config/router_settings.hpp"
#include "config/table.hpp"

namespace hive::config {

template <class Settings>
struct loaded {
  bool judge = false;                 // --check-config: the caller judges plugins and policy, adds to `err` and leaves
  bool run = false;                   // else print `out` to stdout and `err` to stderr and leave with `exit_code`
  int exit_code = 0;                  // 2 for a bad command line, 1 for anything else that is wrong
  std::string out;                    // --help, --print-config, --print-version
  std::string err;                    // every problem, one a line
  std::vector<std::string> warnings;  // to be logged once logging runs
  std::vector<std::string> rest;      // from the first argument that is no flag
  Settings settings;
};

// `arguments` without the program's name. `version` is what --print-version answers.
loaded<router_settings> load_router(const std::vector<std::string> &arguments, const environment &, const std::string &version);
loaded<agent_settings> load_agent(const std::vector<std::string> &arguments, const environment &, const std::string &version);

environment process_environment();

// The reference pages docs/reference/settings-{router,agent}.md and limits.md.
std::string router_reference();
std::string agent_reference();
std::string limits_reference();

}  // namespace hive::config
