#include "config/load.hpp"

#include <unistd.h>

#include <algorithm>

extern char **environ;

namespace hive::config {
namespace {

void add_program_rows(table &t, program_settings &p, bool is_router) {
  t.section("Program");
  t.add("config", &p.config_file, "", "Configuration file (YAML).").no_file().shown_as("PATH");
  t.add("print-config", &p.print_config, "",
        "Prints the resolved configuration with the origin of every value and leaves.").no_env().no_file();
  t.add("check-config", &p.check_config, "", "Checks the configuration and leaves.").no_env().no_file();
  setting &version = t.add("print-version", &p.print_version, "", "Prints the version and leaves.").no_env().no_file();
  if (is_router) version.also_flag("version");
  t.add("help", &p.help, "", "Prints this and leaves.").no_env().no_file().also_flag("h");
  setting &level = t.add("log-level", &p.log_level, "",
        "debug, info, warn or error, for all or by subsystem: info,router=debug. Empty = info.");
  setting &format = t.add("log-format", &p.log_format, "",
        "Form of log lines; empty = colour on a terminal.").choices({"", "color", "nocolor", "json"});
  if (!is_router) level.also_env("HIVENET_ROUTER_LOG_LEVEL");
  level.also_env("GOLOG_LOG_LEVEL");
  format.also_env("HIVENET_ROUTER_LOG_FMT").also_env("GOLOG_LOG_FMT");
}

template <class Settings>
void read_all(table &t, const std::vector<std::string> &arguments, const environment &variables, loaded<Settings> &out,
              std::vector<status> &problems) {
  Settings &into = out.settings;
  // Flags first for --config alone; then again on top of everything.
  std::vector<status> ignored;
  std::vector<std::string> unheard;
  t.apply_built_in();
  (void)t.apply_flags(arguments, ignored, unheard);
  std::string file = into.config_file;
  if (const setting *row = t.find("config"); file.empty() && row->from == origin::built_in)
    if (const auto found = variables.find(row->env.front()); found != variables.end()) file = found->second;
  out.settings = Settings();
  t.forget();
  t.apply_built_in();

  if (!file.empty()) {
    if (auto root = yaml::parse_file(file)) {
      if constexpr (requires { into.embedded_agents; }) {
        t.apply_file(*root, {"plugins", "embedded_agents", "model_aliases"}, problems);
        if (const yaml::node *block = root->find("embedded_agents")) read_embedded_agents(*block, into.embedded_agents, problems);
        if (const yaml::node *block = root->find("model_aliases")) read_model_aliases(*block, into.model_aliases, problems);
      } else {
        t.apply_file(*root, {"plugins"}, problems);
      }
      if (const yaml::node *block = root->find("plugins")) read_plugins(*block, into.plugins, problems);
    } else {
      problems.push_back(root.why());
    }
  }
  t.apply_environment(variables, problems, out.warnings);
}

// Answers false when the program should not run.
template <class Settings, class Finish>
void load(table &t, const std::vector<std::string> &arguments, const environment &variables, const std::string &version,
          const Finish &finish_all, loaded<Settings> &out) {
  std::vector<status> problems;
  read_all(t, arguments, variables, out, problems);
  const size_t before_flags = problems.size();
  out.rest = t.apply_flags(arguments, problems, out.warnings);
  const bool bad_flags = problems.size() > before_flags;

  if (out.settings.help) {
    out.out = t.help();
    return;
  }
  if (out.settings.print_version) {
    out.out = t.program() + " " + version + "\n";
    return;
  }
  finish_all(problems, out.warnings);
  if (!problems.empty()) {
    for (const status &each : problems) out.err += each.text() + "\n";
    if (bad_flags) out.err += "usage: " + t.program() + " [flags]   (--help lists them)\n";
    out.judge = out.settings.check_config && !bad_flags;
    out.exit_code = bad_flags ? 2 : 1;
    return;
  }
  if (out.settings.print_config) {
    out.out = t.resolved() + show_plugins(out.settings.plugins);
    if constexpr (requires { out.settings.embedded_agents; })
      out.out += show_embedded_agents(out.settings.embedded_agents) + show_model_aliases(out.settings.model_aliases);
  } else if (out.settings.check_config) {
    out.judge = true;
  } else {
    out.run = true;
  }
}

}  // namespace

loaded<router_settings> load_router(const std::vector<std::string> &arguments, const environment &variables, const std::string &version) {
  loaded<router_settings> out;
  table t("hivenet-router", "HIVENET_ROUTER_");
  add_program_rows(t, out.settings, true);
  add_rows(t, out.settings);
  load(t, arguments, variables, version,
       [&](auto &problems, auto &warnings) { finish(t, out.settings, problems, warnings, version); }, out);
  return out;
}

loaded<agent_settings> load_agent(const std::vector<std::string> &arguments, const environment &variables, const std::string &version) {
  loaded<agent_settings> out;
  table t("hivenet-agent", "HIVENET_ROUTER_AGENT_");
  add_program_rows(t, out.settings, false);
  add_rows(t, out.settings, version);
  load(t, arguments, variables, version,
       [&](auto &problems, auto &warnings) { finish(t, out.settings, problems, warnings); }, out);
  return out;
}

environment process_environment() {
  environment out;
  for (char **each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view text(*each);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

namespace {

std::string router_page(std::string (table::*text)() const) {
  router_settings any;
  table t("hivenet-router", "HIVENET_ROUTER_");
  add_program_rows(t, any, true);
  add_rows(t, any);
  return (t.*text)();
}

std::string agent_page(std::string (table::*text)() const) {
  agent_settings any;
  table t("hivenet-agent", "HIVENET_ROUTER_AGENT_");
  add_program_rows(t, any, false);
  add_rows(t, any, "");
  return (t.*text)();
}

}  // namespace

std::string router_reference() { return router_page(&table::markdown); }
std::string agent_reference() { return agent_page(&table::markdown); }

std::string limits_reference() {
  return "# Limits and timeouts\n\nMade by `hive-settings-docs` from the programs' own tables; do not edit. What happens at each limit, and the limits "
         "that no setting moves: [limits.md](../limits.md).\n" +
         router_page(&table::limits) + agent_page(&table::limits);
}

}  // namespace hive::config
