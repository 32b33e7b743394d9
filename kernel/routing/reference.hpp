// The reference page of what policies may name, made from what the loaded plugins say of themselves, so that page and program
// cannot differ. The thread that loads the registry.
#pragma once

#include <string>

#include "plugins/registry.hpp"

namespace hive::routing {

// docs/reference/policy-fields.md: gate fields, then strategies with their options. Markdown.
std::string policy_reference(const plugins::component_registry &);

}  // namespace hive::routing
