#include "apps/embedded.hpp"

#include <boost/json/object.hpp>
#include <deque>

#include "agent/runtime.hpp"
#include "apps/agent_options.hpp"
#include "apps/program.hpp"
#include "base/digest.hpp"
#include "base/host_text.hpp"
#include "link/auth.hpp"
#include "observe/log.hpp"

namespace hive::apps {

link::identity embedded_identity(const std::string &name) {
  return link::identity_from_seed(sha256(std::string("hivenet-embedded-agent-v1") + '\0' + name));
}

std::vector<status> judge_embedded(const std::vector<config::embedded_agent> &agents, const plugins::component_registry &registry) {
  std::vector<status> problems;
  if (!agents.empty() && registry.find(HIVE_KIND_TRANSPORT, embedded_agents::transport) == nullptr)
    problems.push_back(registry.missing(HIVE_KIND_TRANSPORT, embedded_agents::transport).at(agents.front().where));
  for (const config::embedded_agent &each : agents) {
    const std::string engine = engine_id(registry, each.settings.engine);
    if (const auto origin = http::parse_origin(each.settings.backend_url); !origin) problems.push_back(origin.why().at(each.where));
    const bool any = engine == config::engine_to_be_found;
    if (any && registry.ids(HIVE_KIND_ENGINE).empty())
      problems.push_back(fail(errc::not_found, "no engine adapter is loaded, so nothing can be served", each.where));
    if (!any && registry.find(HIVE_KIND_ENGINE, engine) == nullptr) problems.push_back(registry.missing(HIVE_KIND_ENGINE, engine).at(each.where));
  }
  return problems;
}

class embedded_agents::one {
 public:
  one(embedded_agents &owner, const config::embedded_agent &c)
      : owner_(owner), url_(c.settings.backend_url), settings_(c.settings), identity_(embedded_identity(c.name)) {}

  const std::string &peer_id() const { return identity_.peer_id; }
  const std::string &url() const { return url_; }

  void start() {
    origin_ = *http::parse_origin(url_);
    observe::log("agent").info("backend {} is agent {}, engine {}", url_, identity_.peer_id, settings_.engine);
    if (settings_.engine != config::engine_to_be_found) return launch();
    std::vector<agent::engine_candidate> candidates;
    for (auto &[id, engine] : owner_.engines_) candidates.push_back({id, engine.codec.get()});
    detector_ = std::make_unique<agent::engine_detector>(
        owner_.control_, origin_, std::move(candidates), !settings_.models.empty(),
        [this](const agent::detection &d) {
          if (!detector_) return;  // stopped meanwhile
          detector_.reset();
          observe::log("agent").info("backend {} is {}: {}", url_, d.engine, d.reason);
          settings_.engine = d.engine;
          launch();
        },
        [this](const std::string &why) { observe::log("agent").warn("backend {} is starting, its engine not known yet: {}", url_, why); });
    detector_->start();
  }

  void stop() {
    detector_.reset();
    if (runtime_) runtime_->stop_control();
  }

 private:
  struct pump {
    agent::data_half *half;
  };

  void launch() {
    const status s = try_launch();
    if (!s) observe::log("agent").error("backend {} is not served: {}", url_, s.text());
  }

  status try_launch() {
    const auto engine = owner_.engine(engine_id(owner_.plugins_, settings_.engine));
    if (!engine) return engine.why();
    agent::agent_options options = agent_options_of(settings_);
    if (!is_loopback(origin_.host)) options.hardware_interval_ns = 0;
    std::vector<loop *> homes;
    for (const embedded_place &p : owner_.places_) {
      const std::string name = "backend " + url_ + " " + std::to_string(homes.size());
      auto instance = make_instance(owner_.plugins_, owner_.services_, HIVE_KIND_TRANSPORT, transport, name,
                                    "agent inside this router, worker " + std::to_string(homes.size()));
      if (!instance) return instance.why();
      transports_.push_back(std::move(*instance));
      homes.push_back(p.home);
    }
    runtime_ = std::make_unique<agent::runtime>(homes, owner_.control_, *(*engine)->codec, origin_, options, identity_);
    const uint64_t boot_id = link::random_u64();
    for (size_t i = 0; i < homes.size(); ++i) {
      agent::router_target target;
      target.options.router = owner_.places_[i].hub;
      target.options.secrets = {owner_.secret_};
      target.options.router_keys = {owner_.hub_key_};
      target.options.part = link::agent_part{static_cast<uint32_t>(i), boot_id};
      // Nothing is in between, so there is nobody to be spared.
      target.options.reconnect_min_ns = 20 * ns_per_ms;
      target.options.reconnect_max_ns = ns_per_s;
      target.transport = transport_calls(*transports_[i]);
      pumps_.push_back({&runtime_->half(i)});
      runtime_->half(i).add_router(std::move(target));
      transports_[i]->on_request_pump([](void *p) { static_cast<pump *>(p)->half->request_pump(0); }, &pumps_.back());
    }
    runtime_->start();
    return {};
  }

  embedded_agents &owner_;
  const std::string url_;
  config::agent_settings settings_;
  const link::identity identity_;
  http::origin origin_;
  std::unique_ptr<agent::engine_detector> detector_;
  std::vector<std::unique_ptr<plugins::instance>> transports_;
  std::deque<pump> pumps_;
  std::unique_ptr<agent::runtime> runtime_;
};

embedded_agents::embedded_agents(const std::vector<config::embedded_agent> &agents, loop &control, plugins::component_registry &registry,
                                 plugins::host_services &services)
    : settings_(agents), control_(control), plugins_(registry), services_(services) {
  for (const config::embedded_agent &each : agents) agents_.push_back(std::make_unique<one>(*this, each));
}

embedded_agents::~embedded_agents() = default;

result<embedded_agents::loaded_engine *> embedded_agents::engine(const std::string &id) {
  if (const auto found = engines_.find(id); found != engines_.end()) return &found->second;
  auto instance = make_instance(plugins_, services_, HIVE_KIND_ENGINE, id, "embedded", "agents inside this router");
  if (!instance) return instance.why();
  loaded_engine made{std::move(*instance), nullptr};
  const auto calls = made.instance->guarded_engine();
  made.codec = std::make_unique<agent::engine_codec>(calls.table, calls.self);
  return &engines_.emplace(id, std::move(made)).first->second;
}

status embedded_agents::prepare() {
  const std::vector<status> problems = judge_embedded(settings_, plugins_);
  if (!problems.empty()) return problems.front();
  // Whoever has to be found out is judged by every adapter there is.
  std::set<std::string> wanted;
  for (const config::embedded_agent &each : settings_) {
    if (each.settings.engine != config::engine_to_be_found) wanted.insert(engine_id(plugins_, each.settings.engine));
    else for (const std::string &id : plugins_.ids(HIVE_KIND_ENGINE)) wanted.insert(id);
  }
  for (const std::string &id : wanted)
    if (const auto made = engine(id); !made) return made.why().at("engine " + id);
  return {};
}

std::set<std::string> embedded_agents::peer_ids() const {
  std::set<std::string> out;
  for (const auto &each : agents_) out.insert(each->peer_id());
  return out;
}

boost::json::array embedded_agents::json() const {
  boost::json::array out;
  for (const auto &each : agents_) out.push_back(boost::json::object{{"url", each->url()}, {"peer_id", each->peer_id()}});
  return out;
}

void embedded_agents::start(std::vector<embedded_place> places, const std::string &secret, const link::key32 &hub_key) {
  places_ = std::move(places);
  secret_ = secret;
  hub_key_ = hub_key;
  for (const auto &each : agents_) each->start();
}

void embedded_agents::stop() {
  for (const auto &each : agents_) each->stop();
}

}  // namespace hive::apps
