// hive-policy-docs PLUGINS PAGE [--check]: writes the reference of the strategies and gates in a folder to PAGE, or says
// whether that is what stands there.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "routing/reference.hpp"

int main(int argc, char **argv) {
  namespace fs = std::filesystem;
  const bool check = argc == 4 && std::string_view(argv[3]) == "--check";
  if (argc != 3 && !check) {
    std::fputs("usage: hive-policy-docs PLUGINS PAGE [--check]\n", stderr);
    return 2;
  }
  hive::plugins::settings settings;
  settings.trusted_dirs = {argv[1]};
  settings.enable_trusted = false;
  std::error_code ec;
  for (fs::directory_iterator it(argv[1], ec), end; !ec && it != end; it.increment(ec)) {
    const std::string name = it->path().stem().string();
    if (it->path().extension() == ".so" && (name.starts_with("strategy_") || name.starts_with("gate_"))) settings.enable.push_back(name);
  }
  hive::plugins::component_registry registry;
  if (const hive::status s = registry.load(settings); !s.ok()) {
    std::fprintf(stderr, "hive-policy-docs: %s\n", s.text().c_str());
    return 1;
  }
  const std::string page = hive::routing::policy_reference(registry);
  if (check) {
    std::ifstream in(argv[2]);
    if (std::string(std::istreambuf_iterator<char>(in), {}) == page) return 0;
    std::fprintf(stderr, "%s is not what the plugins say: run hive-policy-docs %s %s\n", argv[2], argv[1], argv[2]);
    return 1;
  }
  std::ofstream out(argv[2]);
  if (out << page << std::flush) return 0;
  std::fprintf(stderr, "%s: cannot be written\n", argv[2]);
  return 1;
}
