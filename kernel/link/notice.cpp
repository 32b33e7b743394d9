#include "link/notice.hpp"

#include "observe/log.hpp"

namespace hive::link {

void note(level l, std::string_view line) {
  auto &log = observe::log("link");
  switch (l) {
    case level::debug: log.debug(line); break;
    case level::info: log.info(line); break;
    case level::warning: log.warn(line); break;
    case level::error: log.error(line); break;
  }
}

}  // namespace hive::link
