#include "config/model_aliases.hpp"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <map>
#include <set>

namespace hive::config {

namespace {

constexpr size_t most_bytes = 256;

std::string what_is_wrong(const std::string &name) {
  if (name.empty() || name.size() > most_bytes) return "a model's name has 1 to 256 bytes";
  const bool plain = std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  return plain ? "" : "a model's name holds no control characters";
}

// Follows aliases to a name that is none. Empty: it comes to one that it has passed, and `way` shows the circle.
std::string end_of(const std::string &alias, const std::map<std::string, const yaml::node *> &all, std::string &way) {
  way = alias;
  std::string at = alias;
  std::set<std::string> passed{alias};
  for (auto next = all.find(at); next != all.end(); next = all.find(at)) {
    at = next->second->text();
    way += " -> " + at;
    if (!passed.insert(at).second) return {};
  }
  return at;
}

}  // namespace

void read_model_aliases(const yaml::node &block, std::vector<model_alias> &out, std::vector<status> &problems) {
  out.clear();
  if (const status map = block.want_map(); !map) return problems.push_back(map);
  std::map<std::string, const yaml::node *> all;
  for (const yaml::node::entry &each : block.entries()) {
    const auto model = each.value.is_scalar() ? each.value.as_text() : result<std::string>(each.value.wrong(
                                                    "the name of a model is needed; write it like " + each.key + ": llama3-70b"));
    std::string wrong = model ? what_is_wrong(*model) : std::string();
    if (wrong.empty()) wrong = what_is_wrong(each.key);
    if (!model) problems.push_back(model.why());
    else if (!wrong.empty()) problems.push_back(each.value.wrong(wrong));
    else all.emplace(each.key, &each.value);
  }
  for (const auto &[alias, value] : all) {
    std::string way;
    std::string model = end_of(alias, all, way);
    if (model.empty()) problems.push_back(value->wrong("this alias leads in a circle (" + way + "); let one of them name a model"));
    else out.push_back({alias, std::move(model)});
  }
}

result<std::vector<model_alias>> read_model_aliases(const std::string &file) {
  std::vector<model_alias> out;
  if (file.empty()) return out;
  const auto root = yaml::parse_file(file);
  if (!root) return root.why();
  std::vector<status> problems;
  if (const yaml::node *block = root->find("model_aliases")) read_model_aliases(*block, out, problems);
  if (!problems.empty()) return problems.front();
  return out;
}

std::string show_model_aliases(const std::vector<model_alias> &all) {
  std::string out = all.empty() ? "" : "model_aliases:\n";
  for (const model_alias &each : all)
    out += "  " + boost::json::serialize(boost::json::value(each.alias)) + ": " + boost::json::serialize(boost::json::value(each.model)) + "\n";
  return out;
}

}  // namespace hive::config
