// Judging policy files without a router: every problem of every file, as it would be judged at the start; and the command `policy`.
// The main thread of a process that does nothing else.
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

// `hivenet-router policy ...`, without the first word. `check PATH [FLAGS]`: PATH is a file or a folder, FLAGS are those of the
// router; the exit code is 0 when all is well (there may be warnings), 1 when there are problems, each printed, 2 when the command
// itself is wrong. `limits ...`: limits_command.hpp.
int policy_command(const std::vector<std::string> &words);

}  // namespace hive::apps
