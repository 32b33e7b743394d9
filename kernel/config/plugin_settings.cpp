#include "config/plugin_settings.hpp"

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <set>

#include "base/text.hpp"

namespace hive::config {
namespace {

const std::vector<std::string> kinds = {"strategy", "gate", "storage", "transport", "engine"};

bool is_library_name(const std::string &name) {
  return !name.empty() && name.size() <= 100 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

boost::json::value masked(const boost::json::value &value) {
  if (const auto *list = value.if_array()) {
    boost::json::array out;
    for (const auto &item : *list) out.push_back(masked(item));
    return out;
  }
  const auto *map = value.if_object();
  if (map == nullptr) return value;
  boost::json::object out;
  for (const auto &[key, inner] : *map) {
    const std::string name = lower(std::string_view(key.data(), key.size()));
    bool hide = false;
    for (const char *word : {"secret", "password", "token", "api_key"}) hide = hide || name.find(word) != std::string::npos;
    out.emplace(key, hide ? boost::json::value("********") : masked(inner));
  }
  return out;
}

}  // namespace

const component_config *plugin_settings::find(std::string_view kind, std::string_view id) const {
  for (const component_config &each : config)
    if (each.kind == kind && each.id == id) return &each;
  return nullptr;
}

void read_plugins(const yaml::node &block, plugin_settings &out, std::vector<status> &problems) {
  const auto usable_map = [&](const yaml::node *node) {
    if (node == nullptr) return false;
    if (status map = node->want_map(); !map) {
      problems.push_back(map);
      return false;
    }
    return !node->is_null();
  };
  if (!usable_map(&block)) return;
  for (status &unknown : block.unknown_keys({"dirs", "enable", "config", "pins"})) problems.push_back(std::move(unknown));

  if (const yaml::node *enable = block.find("enable"); enable != nullptr && !enable->is_null()) {
    if (status list = enable->want_list(); !list) {
      problems.push_back(list);
    } else {
      std::vector<std::string> names;
      std::set<std::string> seen;
      for (const yaml::node &item : enable->items()) {
        const auto name = item.as_text();
        if (!name) problems.push_back(name.why());
        else if (!is_library_name(*name))
          problems.push_back(item.wrong("\"" + *name + "\" is not the name of a library; write it without folder and .so, like gate_srtt"));
        else if (!seen.insert(*name).second) problems.push_back(item.wrong("\"" + *name + "\" is listed twice; remove one"));
        else names.push_back(*name);
      }
      out.enable = std::move(names);
    }
  }

  if (const yaml::node *config = block.find("config"); usable_map(config)) {
    for (status &unknown : config->unknown_keys(kinds)) problems.push_back(std::move(unknown));
    for (const auto &kind : config->entries()) {
      if (std::find(kinds.begin(), kinds.end(), kind.key) == kinds.end() || !usable_map(&kind.value)) continue;
      for (const auto &component : kind.value.entries()) {
        if (!usable_map(&component.value)) continue;
        out.config.push_back({kind.key, component.key, component.value.to_json().as_object(),
                              component.value.where() + ": " + component.value.path()});
      }
    }
  }

  if (const yaml::node *pins = block.find("pins"); usable_map(pins)) {
    for (const auto &pin : pins->entries()) {
      const auto hash = pin.value.as_text();
      if (!is_library_name(pin.key)) problems.push_back(pin.value.wrong("not the name of a library; write it without folder and .so, like gate_srtt"));
      else if (!hash) problems.push_back(hash.why());
      else if (hash->size() != 64 || !from_hex(*hash))
        problems.push_back(pin.value.wrong("not a SHA-256; write the 64 hexadecimal digits that sha256sum prints"));
      else out.pins[pin.key] = lower(*hash);
    }
  }
}

std::string show_plugins(const plugin_settings &settings) {
  std::string out;
  if (settings.enable) {
    out += "  enable: [";
    for (const std::string &name : *settings.enable) out += (out.ends_with('[') ? "" : ", ") + name;
    out += "]\n";
  }
  if (!settings.config.empty()) out += "  config:\n";
  for (const std::string &kind : kinds) {
    bool first = true;
    for (const component_config &each : settings.config) {
      if (each.kind != kind) continue;
      if (first) out += "    " + kind + ":\n";
      first = false;
      out += "      " + each.id + ": " + boost::json::serialize(masked(each.values)) + "\n";
    }
  }
  if (!settings.pins.empty()) out += "  pins:\n";
  for (const auto &[name, hash] : settings.pins) out += "    " + name + ": \"" + hash + "\"\n";
  return out;
}

}  // namespace hive::config
