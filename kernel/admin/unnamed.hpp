// Words in labels for what has no name of its own.
#pragma once

#include <string_view>

namespace hive::admin {

inline std::string_view or_anonymous(std::string_view name) { return name.empty() ? std::string_view("anonymous") : name; }
inline std::string_view or_unset(std::string_view name) { return name.empty() ? std::string_view("unset") : name; }

}  // namespace hive::admin
