// hive-settings-docs DIR: writes settings-router.md, settings-agent.md and limits.md there.
#include <cstdio>
#include <fstream>
#include <string>

#include "config/load.hpp"

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fputs("usage: hive-settings-docs DIR\n", stderr);
    return 2;
  }
  const std::string folder = argv[1];
  std::ofstream router(folder + "/settings-router.md"), agent(folder + "/settings-agent.md"), limits(folder + "/limits.md");
  router << hive::config::router_reference() << std::flush;
  agent << hive::config::agent_reference() << std::flush;
  limits << hive::config::limits_reference() << std::flush;
  if (router && agent && limits) return 0;
  std::fprintf(stderr, "%s: cannot be written\n", folder.c_str());
  return 1;
}
