// What `GET /admin/plugins` and `plugins list` say. [control].
#pragma once

#include <boost/json/value.hpp>
#include <string>

#include "plugins/registry.hpp"

namespace hive::plugins {

// {"plugins": [{name, file, sha256, mapped, version, vendor, abi, abi_host, state, reason, components: [...], instances: [...]}]}
boost::json::value report(const component_registry &);
// One of them, null when there is no such library.
boost::json::value report(const component_registry &, std::string_view library_name);
// Columns NAME STATE VERSION COMPONENTS, one line a library, the reason under what is not loaded.
std::string table(const component_registry &);

}  // namespace hive::plugins
