// `hivenet-router keygen [--tenant NAME]`: a new client key and its entry for auth.yaml, on stdout. Writes no file. Any thread.
#pragma once

#include <ctime>
#include <string>
#include <vector>

namespace hive::apps {

// `arguments` after the command's name; the exit code: 2 for a wrong flag, 1 for a tenant that no file could hold.
int keygen_command(const std::vector<std::string> &arguments);
// That day in UTC, or its anniversary, as auth.yaml has dates: DD-MM-YYYY.
std::string date_of_key(time_t at, int years_later);

}  // namespace hive::apps
