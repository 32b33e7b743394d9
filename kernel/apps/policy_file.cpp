#include "apps/policy_file.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace hive::apps {

result<routing::parsed_policy> read_policy_file(const std::string &file, const routing::component_catalog &catalog) {
  std::error_code ignored;
  // A folder opens like an empty file.
  if (std::filesystem::is_directory(file, ignored)) return fail(errc::invalid, "is a folder, not a policy file", file);
  std::ifstream in(file, std::ios::binary);
  if (!in) return fail(errc::not_found, "cannot read the policy file: " + std::string(std::strerror(errno)), file);
  std::stringstream text;
  text << in.rdbuf();
  routing::policy_text_options options;
  options.file = file;
  auto parsed = routing::parse_policy(text.str(), catalog, options);
  if (!parsed) return parsed.why();
  if (const status s = routing::check_release(*parsed->document); !s) return s.at(file);
  return parsed;
}

}  // namespace hive::apps
