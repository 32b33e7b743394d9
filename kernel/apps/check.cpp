#include "apps/check.hpp"

#include <algorithm>
#include <iostream>

#include "apps/client_keys.hpp"
#include "apps/embedded.hpp"
#include "apps/http_edge.hpp"
#include "apps/plugin_host.hpp"
#include "apps/policies.hpp"
#include "apps/policy_check.hpp"
#include "apps/program.hpp"
#include "apps/provider_settings.hpp"
#include "fleet/agent_roster.hpp"
#include "gateway/trusted_proxies.hpp"
#include "tenancy/policy_quota.hpp"

namespace hive::apps {
namespace {

// The component that the setting `name` chooses, and its configuration.
void judge_component(const plugins::component_registry &registry, const plugins::settings &given, uint32_t kind,
                     const std::string &id, const std::string &name, std::vector<status> &problems) {
  const plugins::component *chosen = registry.find(kind, id);
  if (chosen == nullptr) return problems.push_back(registry.missing(kind, id).at(name));
  if (given.configuration.contains(name + "/" + id)) return;  // judged when it was loaded
  if (const auto fine = registry.configure(*chosen, registry.configuration(*chosen), id); !fine) problems.push_back(fine.why().at(name));
}

std::vector<status> load(plugins::component_registry &registry, const plugins::settings &given, std::vector<std::string> &warnings) {
  (void)registry.load(given);
  std::vector<status> problems = registry.problems();
  for (const auto &library : registry.libraries()) {
    if (library->state != plugins::library_state::refused) continue;
    if (!library->told) warnings.push_back("plugin " + library->name + " is not loaded: " + library->reason);
  }
  return problems;
}

template <class Settings>
int print(const std::string &program, const config::loaded<Settings> &loaded) {
  std::vector<std::string> warnings = loaded.warnings;
  const std::vector<status> problems = judge(loaded.settings, warnings);
  for (const std::string &w : warnings) std::cerr << "warning: " << w << "\n";
  std::cerr << loaded.err;
  for (const status &s : problems) std::cerr << s.text() << "\n";
  if (!problems.empty() || !loaded.err.empty()) {
    std::cerr << program << ": would not start like this\n";
    return 1;
  }
  std::cout << "ok\n";
  return 0;
}

}  // namespace

std::vector<status> judge(const config::router_settings &s, std::vector<std::string> &warnings) {
  plugins::component_registry registry;
  const plugins::settings given = plugin_places(s);
  std::vector<status> problems = load(registry, given, warnings);
  judge_component(registry, given, HIVE_KIND_STORAGE, s.storage, "storage", problems);
  if (registry.find(HIVE_KIND_STORAGE, s.storage) != nullptr)
    if (const auto json = storage_configuration(registry, s); !json) problems.push_back(json.why());
  judge_component(registry, given, HIVE_KIND_TRANSPORT, s.transport, "transport", problems);
  for (status &each : judge_embedded(s.embedded_agents, registry)) problems.push_back(std::move(each));
  known_providers known;
  if (const status made = make_providers(s, known); !made) problems.push_back(made);
  routing::policy_set policies;
  if (const auto files = routing::read_policy_files(policy_places_of(s)); !files) problems.push_back(files.why());
  else if (known) policies = judge_policies(*files, s.strict_policy, registry, known, problems, warnings);
  const tenancy::auth_document auth = load_client_keys(s, s.admin_keys, hashes_of(s.secrets));
  warnings.insert(warnings.end(), auth.warnings.begin(), auth.warnings.end());
  problems.insert(problems.end(), auth.problems.begin(), auth.problems.end());
  if (auth.keys)
    if (const status fits = tenancy::check_minute_quotas(policies, *auth.keys); !fits) problems.push_back(fits);
  if (const status roster = fleet::agent_roster::check({s.revoked_agents_file, s.agents_file}); !roster) problems.push_back(roster);
  if (const auto proxies = gateway::trusted_proxies::parse(s.trusted_proxies); !proxies) problems.push_back(proxies.why());
  http_edge edge(s.edge, {});
  if (const status certificates = edge.start(warnings); !certificates) problems.push_back(certificates);
  return problems;
}

std::vector<status> judge(const config::agent_settings &s, std::vector<std::string> &warnings) {
  plugins::component_registry registry;
  const plugins::settings given = plugin_places(s);
  std::vector<status> problems = load(registry, given, warnings);
  judge_component(registry, given, HIVE_KIND_ENGINE, engine_id(registry, s.engine), "engine", problems);
  judge_component(registry, given, HIVE_KIND_TRANSPORT, s.transport, "transport", problems);
  return problems;
}

int check_command(const std::string &program, const config::loaded<config::router_settings> &l) { return print(program, l); }
int check_command(const std::string &program, const config::loaded<config::agent_settings> &l) { return print(program, l); }

}  // namespace hive::apps
