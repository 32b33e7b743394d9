// hivenet-agent: sits beside one inference engine and dials out to the routers.
#include <unistd.h>

#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <deque>
#include <iostream>
#include <optional>
#include <thread>
#include <utility>

#include "agent/runtime.hpp"
#include "apps/agent_options.hpp"
#include "apps/check.hpp"
#include "apps/plugin_host.hpp"
#include "apps/program.hpp"
#include "config/load.hpp"
#include "link/auth.hpp"
#include "observe/log.hpp"

namespace {

using namespace hive;

// The agent process, in the order in which its parts live and die.
class agent_app {
 public:
  explicit agent_app(config::agent_settings s, link::identity identity)
      : settings_(std::move(s)), identity_(std::move(identity)), host_(control_, nullptr, nullptr) {}

  ~agent_app() {
    control_.stop();
    if (control_thread_.joinable()) control_thread_.join();
    runtime_.reset();
  }

  status start() {
    if (const status s = plugins_.load(apps::plugin_places(settings_)); !s) return s;
    const auto origin = http::parse_origin(settings_.backend_url);
    if (!origin) return origin.why().at("backend-url");
    if (const auto url = http::parse_origin(settings_.health_url); !settings_.health_url.empty() && !url) return url.why().at("health-url");
    auto engine = apps::make_instance(plugins_, host_, HIVE_KIND_ENGINE, apps::engine_id(plugins_, settings_.engine), "engine",
                                      settings_.backend_url);
    if (!engine) return engine.why().at("engine");
    engine_ = std::move(*engine);
    const auto calls = engine_->guarded_engine();
    codec_ = std::make_unique<agent::engine_codec>(calls.table, calls.self);
    runtime_ = std::make_unique<agent::runtime>(std::vector<loop *>{&data_}, control_, *codec_, *origin, apps::agent_options_of(settings_), identity_);
    for (const std::string &address : settings_.routers) {
      auto transport = apps::make_instance(plugins_, host_, HIVE_KIND_TRANSPORT, settings_.transport, "link " + address,
                                           "link to router " + address);
      if (!transport) return transport.why().at("transport");
      agent::router_target target;
      target.options.router = address;
      for (const std::string &id : settings_.router_ids) {
        const auto key = link::curve_key_of(id);
        if (!key) return key.why().at("router-id " + id);
        target.options.router_keys.push_back(*key);
      }
      target.transport = apps::transport_calls(**transport);
      pumps_.push_back({&runtime_->half(0), runtime_->half(0).add_router(std::move(target))});
      transports_.push_back(std::move(*transport));
    }
    for (size_t i = 0; i < transports_.size(); ++i)
      transports_[i]->on_request_pump([](void *p) { static_cast<pump *>(p)->half->request_pump(static_cast<pump *>(p)->router); },
                                      &pumps_[i]);
    runtime_->half(0).set_secrets(settings_.secrets);  // which makes keys of them and wipes its copies
    link::wipe(settings_.secrets);
    return {};
  }

  void run() {
    const auto report = [](const char *what) { observe::log("kernel").error("exception on a loop: {}", what); };
    control_thread_ = std::thread([this, report] { control_.run(report); });
    boost::asio::signal_set signals(data_.io(), SIGINT, SIGTERM, SIGHUP);
    bool leaving = false;
    std::function<void(const boost::system::error_code &, int)> on_signal = [&](const boost::system::error_code &error, int number) {
      if (error) return;
      signals.async_wait(on_signal);
      if (number == SIGHUP) return reload();
      if (leaving) return data_.stop();  // a second signal ends it now
      leaving = true;
      observe::log("agent").info("leaving: {} request(s) in flight, draining for at most {} s", runtime_->in_flight(),
                                 settings_.drain_timeout.ns / ns_per_s);
      runtime_->drain(settings_.drain_timeout.ns, [this] { data_.stop(); });
    };
    signals.async_wait(on_signal);
    apps::write_line(static_cast<int>(settings_.ready_fd),
                     "{\"ready\":true,\"pid\":" + std::to_string(::getpid()) + ",\"peer_id\":\"" + identity_.peer_id + "\"}");
    runtime_->start();
    data_.run(report);
    observe::log("agent").info("stopped");
  }

 private:
  // The secrets again; links go on with what they have proven. Files are read where nothing waits for them.
  void reload() {
    control_.post([this] {
      auto secrets = config::read_link_secrets(settings_.secret_sources);
      if (secrets && secrets->empty()) secrets = fail(errc::invalid, "there is none any more");
      if (!secrets) return observe::log("agent").error("the shared secrets stay as they were: {}", secrets.why().text());
      observe::log("agent").info("{} shared secret(s) read again", secrets->size());
      data_.post([this, found = *std::move(secrets)]() mutable {
        runtime_->half(0).set_secrets(found);
        link::wipe(found);
      });
    });
  }

  struct pump {
    agent::data_half *half;
    size_t router;
  };

  config::agent_settings settings_;  // as they were at the start, but for the shared secrets, which are gone after it
  const link::identity identity_;
  loop control_, data_;
  plugins::component_registry plugins_;
  apps::plugin_host host_;
  std::unique_ptr<plugins::instance> engine_;
  std::unique_ptr<agent::engine_codec> codec_;
  std::vector<std::unique_ptr<plugins::instance>> transports_;
  std::deque<pump> pumps_;
  std::unique_ptr<agent::runtime> runtime_;
  std::thread control_thread_;
};

int serve(config::agent_settings settings, const std::vector<std::string> &warnings) {
  auto identity = link::load_or_create_identity(settings.identity_path);
  std::optional<link::identity_lock> lock;
  if (identity) {
    if (auto taken = link::identity_lock::take(settings.identity_path); taken) lock.emplace(*std::move(taken));
    else identity = taken.why();
  }
  observe::log_options logging;
  logging.level = settings.log_level;
  logging.format = settings.log_format;
  if (identity) logging.peer_id = identity->peer_id;
  if (const status s = observe::start_logging(logging); !s) {
    std::cerr << "hivenet-agent: " << s.text() << "\n";
    return 1;
  }
  for (const std::string &w : warnings) observe::log("agent").warn("{}", w);
  int code = 1;
  if (!identity) {
    observe::log("agent").critical("identity: {}", identity.why().text());
  } else {
    agent_app app(std::move(settings), *identity);
    if (const status s = app.start(); !s) {
      observe::log("agent").critical("cannot start: {}", s.text());
    } else {
      app.run();
      code = 0;
    }
  }
  observe::stop_logging();
  return code;
}

}  // namespace

int main(int argc, char **argv) {
  if (!apps::start_process()) return 1;
  auto loaded = config::load_agent(std::vector<std::string>(argv + 1, argv + argc), config::process_environment(), apps::program_version);
  if (loaded.judge) return apps::check_command("hivenet-agent", loaded);
  if (!loaded.run) {
    std::cout << loaded.out;
    std::cerr << loaded.err;
    return loaded.exit_code;
  }
  if (!loaded.rest.empty())
    return apps::run_command("hivenet-agent", loaded.rest, apps::plugin_places(loaded.settings), "there is: plugins list|show|check");
  return serve(std::move(loaded.settings), loaded.warnings);
}
