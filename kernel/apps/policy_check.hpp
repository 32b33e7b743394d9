// Judging policy files without a router: every problem of every file, as it would be judged at the start.
#pragma once

#include <string>
#include <vector>

#include "apps/provider_settings.hpp"
#include "base/status.hpp"
#include "plugins/registry.hpp"
#include "routing/policy_set.hpp"

namespace hive::apps {

// Appends to `problems` and `warnings`; what is good, in the order in which a start would take it, is the answer.
routing::policy_set judge_policies(const routing::policy_files &, bool strict, plugins::component_registry &,
                                   const known_providers &, std::vector<status> &problems, std::vector<std::string> &warnings);

// `hivenet-router policy check PATH [FLAGS]`, without the first word; PATH is a file or a folder, FLAGS are those of the router.
// `hivenet-router policy limits ...` goes to limits_command. The exit code: 0 all is well (there may be warnings), 1 there are problems, each printed, 2 the command itself is wrong.
int policy_command(const std::vector<std::string> &words);

}  // namespace hive::apps
