// What every program has.
#pragma once

#include <string>

namespace hive::config {

struct program_settings {
  std::string config_file, log_level, log_format;
  bool print_config = false, check_config = false, print_version = false, help = false;
};

}  // namespace hive::config
