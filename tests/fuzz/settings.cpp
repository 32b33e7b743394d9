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

template <class Settings>
void apply(const config::yaml::node &root, const char *program) {
  Settings into;
  config::table t(program, "HIVE_");
  rows(t, into);
  t.apply_built_in();
  std::vector<status> problems;
  t.apply_file(root, {"plugins"}, problems);
  if (const auto *block = root.find("plugins")) config::read_plugins(*block, into.plugins, problems);
  for (const status &p : problems) must(!p && !p.text().empty(), "a problem says what");
  if (!problems.empty()) return;
  const auto again = config::yaml::parse(t.resolved(), "shown.yaml");
  must(again.ok(), "what is shown is YAML");
  if (t.resolved().find("\"********\"") != std::string::npos) return;  // a masked secret cannot be read again
  (void)config::show_plugins(into.plugins);
  std::vector<status> none;
  Settings second;
  config::table u(program, "HIVE_");
  rows(u, second);
  u.apply_built_in();
  u.apply_file(*again, {"plugins"}, none);
  for (const status &p : none) std::fprintf(stderr, "%s\n%s", p.text().c_str(), t.resolved().c_str());
  must(none.empty(), "and is accepted");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const fuzz::exact_copy copy({reinterpret_cast<const char *>(data), size});
  const auto root = config::yaml::parse(copy.text(), "f.yaml", {.bytes = 64 * 1024, .depth = 24, .nodes = 2000});
  if (!root) return 0;
  apply<config::router_settings>(*root, "hivenet-router");
  apply<config::agent_settings>(*root, "hivenet-agent");
  return 0;
}
