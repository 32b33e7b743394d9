// Configuration files of both programs against their tables: every problem says what and where, and what is accepted is shown
// in a form that is accepted.
#include "config/agent_settings.hpp"
#include "config/router_settings.hpp"
#include "fuzz.hpp"

using namespace hive;
using fuzz::must;

namespace {

void rows(config::table &t, config::router_settings &into) { add_rows(t, into); }
void rows(config::table &t, config::agent_settings &into) { add_rows(t, into, "1.0.0"); }

// A program's table, which is built once: that costs more than most files do. Every file finds it as it was built.
template <class Settings>
struct program {
  explicit program(const char *name) : table(name, "HIVE_") {
    rows(table, into);
    table.apply_built_in();
    built_in = into;
    shown = table.resolved();
  }
  void forget() {
    into = built_in;
    table.forget();
  }
  std::vector<status> read(const config::yaml::node &root) {
    forget();
    std::vector<status> problems;
    table.apply_file(root, {"plugins"}, problems);
    return problems;
  }
  Settings into, built_in;
  config::table table;
  std::string shown;  // without a file
};

template <class Settings>
void apply(const config::yaml::node &root, program<Settings> &p) {
  std::vector<status> problems = p.read(root);
  if (const auto *block = root.find("plugins")) config::read_plugins(*block, p.into.plugins, problems);
  for (const status &problem : problems) must(!problem && !problem.text().empty(), "a problem says what");
  if (!problems.empty()) return;
  const std::string shown = p.table.resolved();
  const auto again = config::yaml::parse(shown, "shown.yaml");
  must(again.ok(), "what is shown is YAML");
  if (shown.find("\"********\"") != std::string::npos) return;  // a masked secret cannot be read again
  (void)config::show_plugins(p.into.plugins);
  const std::vector<status> none = p.read(*again);
  for (const status &problem : none) std::fprintf(stderr, "%s\n%s", problem.text().c_str(), shown.c_str());
  must(none.empty(), "and is accepted");
  p.forget();
  must(p.table.resolved() == p.shown, "a file leaves nothing behind");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const fuzz::exact_copy copy({reinterpret_cast<const char *>(data), size});
  const auto root = config::yaml::parse(copy.text(), "f.yaml", {.bytes = 64 * 1024, .depth = 24, .nodes = 2000});
  if (!root) return 0;
  static program<config::router_settings> router("hivenet-router");
  static program<config::agent_settings> agent("hivenet-agent");
  apply(*root, router);
  apply(*root, agent);
  return 0;
}
