// `hivenet-router policy limits`: proposes a key's limits for a serverless model, as lines for auth.yaml.
#pragma once

#include <string>
#include <vector>

namespace hive::apps {

// Without the words `policy limits`. The exit code: 0 done, 2 the command itself is wrong.
int limits_command(const std::vector<std::string> &words);

}  // namespace hive::apps
