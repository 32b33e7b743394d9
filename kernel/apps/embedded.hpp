// The agents inside a router: for each configured engine the agent's own code, with a data half in every worker's loop and
// its control half on the control thread, linked to the workers' hubs over the transport `inproc`. Belongs to the control
// thread; what runs in the workers' loops gets there by posts.
#pragma once

#include <boost/json/array.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/detect.hpp"
#include "base/loop.hpp"
#include "config/router_settings.hpp"
#include "link/identity.hpp"
#include "plugins/host_services.hpp"
#include "plugins/instance.hpp"
#include "plugins/registry.hpp"

namespace hive::apps {

// Where the agents of a worker live and which hub they dial.
struct embedded_place {
  loop *home;
  std::string hub;   // what router_hub::listen_own bound
};

class embedded_agents {
 public:
  static constexpr const char *transport = "inproc";

  embedded_agents(const std::vector<config::embedded_agent> &, loop &control, plugins::component_registry &, plugins::host_services &);
  // Once no loop runs any more; before the hubs' transports go.
  ~embedded_agents();

  bool empty() const { return agents_.empty(); }
  // Finds the engines' adapters; says what is missing.
  status prepare();
  // Their peer ids. An agent that comes over the network with one of them is an impostor: the keys are no secrets.
  std::set<std::string> peer_ids() const;
  // {url, peer_id} each, for the ready line.
  boost::json::array json() const;
  // `secret`: what the hubs take from agents of this process; `hub_key`: the key they have.
  void start(std::vector<embedded_place>, const std::string &secret, const link::key32 &hub_key);
  // Ends probing and sampling; streams go on.
  void stop();

 private:
  struct loaded_engine {
    std::unique_ptr<plugins::instance> instance;
    std::unique_ptr<agent::engine_codec> codec;
  };
  class one;

  result<loaded_engine *> engine(const std::string &id);

  const std::vector<config::embedded_agent> settings_;
  loop &control_;
  plugins::component_registry &plugins_;
  plugins::host_services &services_;
  std::map<std::string, loaded_engine> engines_;
  std::vector<embedded_place> places_;
  std::string secret_;
  link::key32 hub_key_{};
  std::vector<std::unique_ptr<one>> agents_;
};

// Every problem of the list that shows before a start: adapters and the transport that are missing, URLs nobody can fetch.
std::vector<status> judge_embedded(const std::vector<config::embedded_agent> &, const plugins::component_registry &);

// The identity of an embedded agent: an Ed25519 key from SHA-256("hivenet-embedded-agent-v1" 00 name), so that its peer id
// is the same after every start.
link::identity embedded_identity(const std::string &name);

}  // namespace hive::apps
