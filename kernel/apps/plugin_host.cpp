#include "apps/plugin_host.hpp"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <set>

#include "observe/log.hpp"

namespace hive::apps {

void plugin_host::log(int32_t level, std::string_view component, std::string_view instance, std::string_view line) {
  spdlog::logger &to = observe::log("plugin");
  const auto at = level <= HIVE_LOG_DEBUG ? spdlog::level::debug
                  : level == HIVE_LOG_INFO ? spdlog::level::info
                  : level == HIVE_LOG_WARN ? spdlog::level::warn
                                           : spdlog::level::err;
  to.log(at, "{} [{}] {}", component, instance, line);
}

bool plugin_host::post(std::function<void()> task) {
  control_.post(std::move(task));
  return true;
}

hive_metric plugin_host::register_metric(int32_t kind, const std::string &name, const std::string &help) {
  return metrics_ == nullptr ? 0 : metrics_->declare(kind, name, help);
}

void plugin_host::add_metric(hive_metric metric, double delta) {
  if (metrics_ != nullptr && metric != 0) metrics_->add(metric, delta);
}

std::string own_program_dir() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string(".") : self.parent_path().string();
}

std::string own_plugin_dir() {
  const std::filesystem::path here = own_program_dir();
  for (const auto &candidate : {here.parent_path() / "plugins", here.parent_path() / "lib" / "hivenet-router" / "plugins"})
    if (std::filesystem::is_directory(candidate)) return candidate.string();
  return (here.parent_path() / "lib" / "hivenet-router" / "plugins").string();
}

namespace {

plugins::settings places_of(const config::plugin_settings &written) {
  plugins::settings out;
  out.trusted_dirs = {own_plugin_dir()};
  out.dirs = written.dirs;
  out.enable_trusted = !written.enable.has_value();
  if (written.enable) {
    out.enable = *written.enable;
  } else {
    // Without a list, whatever stands in the operator's own folders is meant.
    std::set<std::string> found;
    for (const std::string &dir : written.dirs) {
      std::error_code error;
      for (const auto &entry : std::filesystem::directory_iterator(dir, error))
        if (entry.path().extension() == ".so") found.insert(entry.path().stem().string());
    }
    out.enable.assign(found.begin(), found.end());
  }
  out.pins = written.pins;
  for (const config::component_config &c : written.config) {
    out.configuration[c.kind + "/" + c.id] = boost::json::serialize(c.values);
    out.places[c.kind + "/" + c.id] = c.where;
  }
  out.probe_program = own_program_dir() + "/hive-plugin-check";
  return out;
}

}  // namespace

plugins::settings plugin_places(const config::router_settings &s) {
  namespace json = boost::json;
  plugins::settings out = places_of(s.plugins);
  out.program_values["storage/lmdb"] = json::serialize(json::object{{"path", s.disk_db_path}});
  out.program_values["transport/zmq"] = json::serialize(json::object{{"max_connections_per_ip", s.connections_per_address}, {"max_strangers", s.strangers},
                                                                                 {"max_strangers_per_ip", s.strangers_per_address}});
  return out;
}

result<std::string> storage_configuration(const plugins::component_registry &registry, const config::router_settings &s) {
  namespace json = boost::json;
  const plugins::component *chosen = registry.find(HIVE_KIND_STORAGE, s.storage);
  if (chosen == nullptr) return registry.missing(HIVE_KIND_STORAGE, s.storage).at("storage");
  const std::string written = registry.configuration(*chosen);
  if (!s.reset_disk_db) return written;
  const json::value *options = chosen->what->options.document().is_object() ? chosen->what->options.document().as_object().if_contains("properties") : nullptr;
  if (options == nullptr || !options->is_object() || !options->as_object().contains("reset"))
    return fail(errc::unsupported, "the storage \"" + s.storage + "\" has no option \"reset\": there is nothing this flag could erase; start without it",
                "reset-disk-db");
  json::value with = json::parse(written);
  with.as_object()["reset"] = true;
  return json::serialize(with);
}

plugins::settings plugin_places(const config::agent_settings &s) { return places_of(s.plugins); }

}  // namespace hive::apps
