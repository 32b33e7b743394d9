// `hivenet-router keygen [--tenant NAME]`: a new client key and its entry for auth.yaml, on stdout. Writes no file.
#pragma once

#include <string>
#include <vector>

namespace hive::apps {

// `arguments` after the command's name; the exit code: 2 for a wrong flag, 1 for a tenant that no file could hold.
int keygen_command(const std::vector<std::string> &arguments);

}  // namespace hive::apps
