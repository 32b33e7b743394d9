// The policy file of a router, read and judged against what the loaded plugins offer. Control thread.
#pragma once

#include <string>

#include "base/status.hpp"
#include "routing/policy_text.hpp"

namespace hive::apps {

// Refuses what this release does not carry out, too. Messages name the file and, where they can, the line.
result<routing::parsed_policy> read_policy_file(const std::string &file, const routing::component_catalog &);

}  // namespace hive::apps
