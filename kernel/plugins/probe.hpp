// Lets a limited child process load a library first, because static constructors run foreign bytes before any check can.
// The child is `hive-plugin-check --describe`, started by fork and exec, and gets the already opened descriptor.
#pragma once

#include <string>

#include "base/status.hpp"
#include "plugins/settings.hpp"

namespace hive::plugins {

// The child's standard output (the description as JSON), or why it refused, crashed, hung or could not be started. Blocks
// for at most the timeout of the settings; call it from [control]. `fd` stays the caller's.
result<std::string> probe(int fd, const settings &);

// hive-plugin-check in the folder of our own program.
std::string default_probe_program();

}  // namespace hive::plugins
