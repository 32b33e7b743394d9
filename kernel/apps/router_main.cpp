// hivenet-router: one OpenAI-compatible endpoint in front of a fleet of inference engines.
#include <iostream>
#include <utility>

#include "apps/check.hpp"
#include "apps/keygen.hpp"
#include "apps/plugin_host.hpp"
#include "apps/policy_check.hpp"
#include "apps/program.hpp"
#include "apps/router_app.hpp"
#include "config/load.hpp"
#include "observe/log.hpp"

namespace {

int serve(hive::config::router_settings settings, const std::vector<std::string> &warnings) {
  hive::observe::log_options logging;
  logging.level = settings.log_level;
  logging.format = settings.log_format;
  if (const hive::status s = hive::observe::start_logging(logging); !s) {
    std::cerr << "hivenet-router: " << s.text() << "\n";
    return 1;
  }
  for (const std::string &w : warnings) hive::observe::log("router").warn("{}", w);
  int code = 0;
  {
    hive::apps::router_app app(std::move(settings));  // no copy stays behind: there are secrets among them
    if (const hive::status s = app.start(); !s) {
      hive::observe::log("router").critical("cannot start: {}", s.text());
      code = 1;
    } else {
      app.run();
    }
  }
  hive::observe::stop_logging();
  return code;
}

}  // namespace

int main(int argc, char **argv) {
  using namespace hive;
  if (!apps::start_process()) return 1;
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments[0] == "keygen") return apps::keygen_command({arguments.begin() + 1, arguments.end()});
  if (!arguments.empty() && arguments[0] == "policy") return apps::policy_command({arguments.begin() + 1, arguments.end()});
  const bool check = !arguments.empty() && arguments[0] == "check";
  if (check) {
    // hivenet-router check FILE = hivenet-router --config FILE --check-config
    if (arguments.size() != 2) {
      std::cerr << "usage: hivenet-router check FILE\n";
      return 2;
    }
    arguments = {"--config", arguments[1], "--check-config"};
  }
  auto loaded = config::load_router(arguments, config::process_environment(), apps::program_version);
  if (loaded.judge) return apps::check_command("hivenet-router", loaded);
  if (!loaded.run) {
    std::cout << loaded.out;
    std::cerr << loaded.err;
    return loaded.exit_code;
  }
  if (!loaded.rest.empty())
    return apps::run_command("hivenet-router", loaded.rest, apps::plugin_places(loaded.settings),
                             "there are: check FILE, keygen, policy check FILE, policy limits, plugins list|show|check");
  return serve(std::move(loaded.settings), loaded.warnings);
}
