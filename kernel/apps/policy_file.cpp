#include "apps/policy_file.hpp"

#include "config/yaml.hpp"

namespace hive::apps {

result<routing::parsed_policy> read_policy_file(const std::string &file, const routing::component_catalog &catalog) {
  const auto text = config::yaml::read_file(file);
  if (!text) return text.why();
  routing::policy_text_options options;
  options.file = file;
  auto parsed = routing::parse_policy(*text, catalog, options);
  if (!parsed) return parsed.why();
  if (const status s = routing::check_release(*parsed->document); !s) return s.at(file);
  return parsed;
}

}  // namespace hive::apps
