// One line in the log of subsystem `link`; keeps the logging library out of the other files. Any thread.
#pragma once

#include <string_view>

namespace hive::link {

enum class level { debug, info, warning, error };
void note(level l, std::string_view line);

}  // namespace hive::link
