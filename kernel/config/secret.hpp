// Shared secrets from a file or a variable, and whose their files are. Never logged; errors name the source and never the content. Any
// thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace hive::config {

inline constexpr size_t min_shared_secret_bytes = 32;

// Without white space and BOMs at its ends.
std::string_view trim_secret(std::string_view text);

// What remains of it when it is trimmed must be printable ASCII without spaces. `source` names it in the error.
result<std::string> clean_secret(std::string_view text, const std::string &source, size_t min_bytes);

// One secret a line, the current one first; blank lines and lines starting with # are skipped; at least one.
result<std::vector<std::string>> read_secrets(const std::string &file, size_t min_bytes);

// Whether the file is there and everybody on this machine has one of these rights to it: S_IROTH, S_IWOTH.
bool everybody_may(const std::string &file, mode_t rights);

}  // namespace hive::config
