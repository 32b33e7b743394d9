// What somebody who has just started the router may type next.
#pragma once

#include <string>

#include "fleet/registry.hpp"

namespace hive::apps {

// A curl line that asks the first routable model something, by what its agent can do; empty while there is none. `address`
// as the server bound it. Any thread.
std::string first_request(const fleet::registry &, const std::string &scheme, const std::string &address);

}  // namespace hive::apps
