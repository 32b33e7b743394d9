// hive-settings-docs DIR: writes settings-router.md and settings-agent.md there.
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
  std::ofstream router(folder + "/settings-router.md"), agent(folder + "/settings-agent.md");
  router << hive::config::router_reference() << std::flush;
  agent << hive::config::agent_reference() << std::flush;
  if (router && agent) return 0;
  std::fprintf(stderr, "%s: cannot be written\n", folder.c_str());
  return 1;
}
