#include "apps/policy_check.hpp"

#include <filesystem>
#include <iostream>
#include <utility>

#include "apps/limits_command.hpp"
#include "apps/plugin_host.hpp"
#include "apps/policies.hpp"
#include "apps/program.hpp"
#include "base/loop.hpp"
#include "config/load.hpp"
#include "config/yaml.hpp"
#include "fleet/pool.hpp"
#include "routing/plugin_source.hpp"
#include "routing/policy_text.hpp"

namespace hive::apps {

namespace {

// The problems of one text. The same file as a document of its own must say its models.
void judge_text(const routing::policy_file &file, bool strict, const routing::component_catalog &catalog, std::vector<status> &problems,
                std::vector<std::string> &warnings) {
  routing::policy_text_options options;
  options.file = file.path;
  options.document = file.name;
  options.strict = strict;
  options.named = !file.name.empty();
  options.every = &problems;
  if (!file.unreadable.ok()) return problems.push_back(file.unreadable);
  const size_t before = problems.size();
  const auto parsed = routing::parse_policy(file.text, catalog, options);
  if (!parsed) return problems.push_back(parsed.why());
  // Those of a good file are told when it is taken.
  if (problems.size() > before) warnings.insert(warnings.end(), parsed->warnings.begin(), parsed->warnings.end());
}

// A file on its own whose document lists models is the document of those, as it would be in a folder.
void own_document(routing::policy_files &files) {
  if (!files.global || !files.global->unreadable.ok()) return;
  const auto root = config::yaml::parse(files.global->text, files.global->path);
  if (!root) return;
  const config::yaml::node *models = root->find("models");
  const std::string stem = std::filesystem::path(files.global->path).stem().string();
  if (models == nullptr || models->is_null() || stem == "_default") return;
  files.named.push_back(*std::exchange(files.global, std::nullopt));
  files.named.back().name = stem;
}

}  // namespace

routing::policy_set judge_policies(const routing::policy_files &files, bool strict, plugins::component_registry &registry,
                                   const known_providers &known, std::vector<status> &problems, std::vector<std::string> &warnings) {
  loop control;
  fleet::column_table columns;
  fleet::intern_kernel_columns(columns);
  plugin_host host(control, &columns, nullptr);
  routing::plugin_source components(registry, host);
  // Files whose text is wrong are done with: what their steps would need and whose models they claim nobody can say.
  routing::policy_files good;
  good.warnings = files.warnings;
  const auto fits = [&](const routing::policy_file &file) {
    const size_t before = problems.size();
    judge_text(file, strict, components, problems, warnings);
    return problems.size() == before;
  };
  if (files.global && fits(*files.global)) good.global = files.global;
  for (const routing::policy_file &file : files.named)
    if (fits(file)) good.named.push_back(file);
  routing::policy_change change = routing::merge_policies({}, good, {components, policy_judge_of(components, columns, known), strict});
  if (!change.global.ok()) problems.push_back(change.global);
  problems.insert(problems.end(), change.problems.begin(), change.problems.end());
  warnings.insert(warnings.end(), change.warnings.begin(), change.warnings.end());
  return std::move(change.next);
}

int policy_command(const std::vector<std::string> &words) {
  constexpr const char *usage = "usage: hivenet-router policy check FILE|FOLDER [--config FILE and other flags of the router]\n"
                                "       hivenet-router policy limits NAME=N...\n";
  if (!words.empty() && words[0] == "limits") return limits_command({words.begin() + 1, words.end()});
  if (words.size() < 2 || words[0] != "check" || words[1].starts_with("-")) {
    std::cerr << usage;
    return 2;
  }
  const auto loaded = config::load_router({words.begin() + 2, words.end()}, config::process_environment(), program_version);
  if (!loaded.err.empty() || !loaded.rest.empty() || !loaded.run) {
    std::cerr << loaded.err << usage;
    return 2;
  }
  std::vector<status> problems;
  std::vector<std::string> warnings;
  plugins::component_registry registry;
  (void)registry.load(plugin_places(loaded.settings));
  for (const status &s : registry.problems()) warnings.push_back(s.text());
  std::error_code ignored;
  routing::policy_places where;
  (std::filesystem::is_directory(words[1], ignored) ? where.folder : where.file) = words[1];
  auto files = routing::read_policy_files(where);
  routing::policy_set good;
  known_providers known;
  if (const status made = make_providers(loaded.settings, known); !made) {
    problems.push_back(made);
  } else if (files) {
    own_document(*files);
    good = judge_policies(*files, loaded.settings.strict_policy, registry, known, problems, warnings);
  } else {
    problems.push_back(files.why());
  }
  for (const std::string &w : warnings) std::cerr << "warning: " << w << "\n";
  for (const status &s : problems) std::cout << s.text() << "\n";
  if (!problems.empty()) {
    std::cerr << problems.size() << " problem(s)\n";
    return 1;
  }
  std::cout << "ok: " << (good.global.from.empty() ? "" : "the global policy, ") << good.named.size() << " document(s) for models\n";
  return 0;
}

}  // namespace hive::apps
