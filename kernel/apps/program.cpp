#include "apps/program.hpp"

#include <signal.h>
#include <sodium.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <iostream>

#include "apps/plugin_host.hpp"
#include "plugins/guard.hpp"
#include "plugins/report.hpp"

namespace hive::apps {

bool start_process() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a file at its size limit is a failed write, not the end of the process
  // The soft limit is small for programs that use select(); these do not, and every client and agent costs a descriptor.
  rlimit descriptors;
  if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0 && descriptors.rlim_cur < descriptors.rlim_max) {
    descriptors.rlim_cur = descriptors.rlim_max;
    setrlimit(RLIMIT_NOFILE, &descriptors);
  }
  plugins::install_crash_handler();
  return sodium_init() >= 0;
}

void write_line(int fd, const std::string &line) {
  if (fd < 0) return;
  const std::string text = line + "\n";
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

result<std::unique_ptr<plugins::instance>> make_instance(plugins::component_registry &registry, plugins::host_services &services,
                                                         uint32_t kind, const std::string &id, const std::string &name,
                                                         const std::string &where, std::string json) {
  const plugins::component *component = registry.find(kind, id);
  if (component == nullptr) return registry.missing(kind, id);
  plugins::instance_options options;
  options.name = name;
  options.where = where;
  options.json = json.empty() ? registry.configuration(*component) : std::move(json);
  return plugins::instance::make(registry, *component, std::move(options), services);
}

link::transport_ref transport_calls(plugins::instance &i) {
  const auto calls = i.guarded_transport();
  return {calls.table, calls.self};
}

std::string engine_id(const plugins::component_registry &registry, const std::string &named) {
  return registry.find(HIVE_KIND_ENGINE, named) != nullptr ? named : config::engine_component(named);
}

namespace {

int plugins_command(const plugins::component_registry &registry, const std::vector<std::string> &arguments) {
  const std::string verb = arguments.empty() ? "list" : arguments[0];
  if (verb == "list") {
    const bool json = arguments.size() > 1 && arguments[1] == "--json";
    if (json) std::cout << boost::json::serialize(plugins::report(registry)) << "\n";
    else std::cout << plugins::table(registry);
    return 0;
  }
  if (verb == "show" && arguments.size() == 2) {
    const boost::json::value one = plugins::report(registry, arguments[1]);
    if (one.is_null()) {
      std::cerr << "no plugin is called '" << arguments[1] << "'; `plugins list` shows what there is\n";
      return 1;
    }
    std::cout << boost::json::serialize(one) << "\n";
    return 0;
  }
  if (verb == "check" && arguments.size() == 2) {
    const std::string checker = own_program_dir() + "/hive-plugin-check";
    execl(checker.c_str(), "hive-plugin-check", arguments[1].c_str(), nullptr);
    std::cerr << checker << " cannot be run\n";
    return 1;
  }
  std::cerr << "usage: plugins list [--json] | plugins show NAME | plugins check FILE\n";
  return 2;
}

}  // namespace

int run_command(const std::string &program, const std::vector<std::string> &words, const plugins::settings &places,
                const std::string &offered) {
  if (words[0] != "plugins") {
    std::cerr << program << ": '" << words[0] << "' is not a command; " << offered << "\n";
    return 2;
  }
  plugins::component_registry registry;
  const status s = registry.load(places);
  const int code = plugins_command(registry, {words.begin() + 1, words.end()});
  if (!s) std::cerr << program << ": " << s.text() << "\n";
  return code;
}

}  // namespace hive::apps
