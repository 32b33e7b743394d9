// The checks of hive-plugin-check. Each is a function that throws `broken` with a sentence, or `skipped`; it runs alone in
// a child process, so it may crash or hang.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "plugins/description.hpp"

namespace hive::check {

struct broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct skipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct subject {
  std::string path;
  std::string config;  // JSON for components that need some; empty = {}
};

struct check {
  const char *name;
  const char *sentence;
  void (*run)(const subject &);
};

const std::vector<check> &all_checks();

// Opens and loads without the ownership rules: the checker is run by whoever built the file. Throws broken.
plugins::plugin_description load_subject(const std::string &path);

}  // namespace hive::check
