// How a router process begins: what it is made of, in the order in which one part needs the other, up to the first listener.
#include <sys/resource.h>

#include <random>
#include <utility>

#include "apps/metrics_page.hpp"
#include "apps/program.hpp"
#include "apps/provider_settings.hpp"
#include "apps/router_options.hpp"
#include "apps/router_unit.hpp"
#include "base/host_text.hpp"
#include "link/auth.hpp"
#include "observe/log.hpp"
#include "tenancy/admission_terms.hpp"

namespace hive::apps {

namespace {

uint64_t allowed_descriptors() {
  rlimit descriptors;
  return getrlimit(RLIMIT_NOFILE, &descriptors) == 0 ? descriptors.rlim_cur : UINT64_MAX;
}

// An even share of what is configured, and of what the descriptors allow.
size_t connections_a_worker(const config::router_settings &s, uint64_t room) {
  auto most = static_cast<uint64_t>(s.max_connections);
  if (room < most) {
    observe::log("router").warn("{} descriptors are allowed: at most {} client connections, not {}", allowed_descriptors(), room, most);
    most = room;
  }
  const auto workers = static_cast<uint64_t>(s.workers);
  return (most + workers - 1) / workers;
}

}  // namespace

status router_app::load_plugins() {
  if (const status s = plugins_.load(plugin_places(settings_)); !s) return s;
  for (const auto &library : plugins_.libraries())
    if (library->state == plugins::library_state::refused)
      observe::log("plugin").warn("plugin {} is not loaded: {}", library->name, library->reason);
  return {};
}

status router_app::open_storage() {
  auto json = storage_configuration(plugins_, settings_);
  if (!json) return json.why();
  auto instance = make_instance(plugins_, *host_, HIVE_KIND_STORAGE, settings_.storage, "main", "history", *std::move(json));
  if (!instance) return instance.why().at("storage");
  storage_instance_ = std::move(*instance);
  const auto calls = storage_instance_->guarded_storage();
  storage_ = std::make_unique<fleet::storage_thread>(fleet::storage_ref{calls.table, calls.self});
  if (const status s = storage_->open(); !s) return s.at("storage " + settings_.storage);
  fleet::history_settings h;
  h.flush_interval_ns = settings_.flush_interval.ns;
  h.ttl_ms = static_cast<uint64_t>(settings_.disk_db_ttl_days) * 24 * 3600 * 1000;
  history_ = std::make_unique<fleet::history>(*storage_, clock_, h);
  return {};
}

// Certificates, and which proxies are believed.
status router_app::open_edge() {
  auto proxies = gateway::trusted_proxies::parse(settings_.trusted_proxies);
  if (!proxies) return proxies.why();
  proxies_ = *std::move(proxies);
  edge_ = std::make_unique<http_edge>(settings_.edge, proxies_, allowed_descriptors());
  std::vector<std::string> warnings;
  if (const status s = edge_->start(warnings); !s) return s;
  for (const std::string &w : warnings) observe::log("router").warn("{}", w);
  return {};
}

// What outlives the process: the store with the keys that the admin API wrote, the router's identity, who may be an agent.
status router_app::open_state() {
  if (const status s = open_storage(); !s) return s;
  if (const status s = access_->restore(*storage_); !s) return s;
  auto identity = open_link_identity(settings_);
  if (!identity) return identity.why().at("identity-path");
  link_identity_ = *std::move(identity);
  roster_ = std::make_unique<fleet::agent_roster>(*storage_, control_, clock_,
                                                  fleet::agent_roster::files{settings_.revoked_agents_file, settings_.agents_file});
  return roster_->start();
}

// The fleet, and who gets what of it.
status router_app::make_routing() {
  fleet_ = std::make_unique<fleet::registry>(registry_settings_of(settings_), clock_, hubs_, history_.get(), &fleet_log_, &srtt_log_);
  host_->set_columns(fleet_->columns());
  outcomes_ = std::make_unique<outcomes>(*fleet_, exporter_);
  router_ = std::make_unique<routing::router>(*components_, fleet_->columns(), *outcomes_, router_options_of(settings_, providers_));
  policies_ = std::make_unique<policies>(policies::parts{.settings = settings_,
                                                         .control = control_,
                                                         .routing = *router_,
                                                         .components = *components_,
                                                         .columns = fleet_->columns(),
                                                         .storage = *storage_,
                                                         .metrics = exporter_,
                                                         .keys = access_->keys(),
                                                         .providers = providers_,
                                                         .changed = [this] {
                                                           if (admission_) tenancy::review_parked(*admission_, *router_->policies(), now_ns());
                                                         }});
  if (const status s = policies_->library().start(); !s) return s;
  directory_ = std::make_unique<fleet_directory>(control_, *fleet_, *router_, exporter_);
  directory_->set_roster(*roster_);
  return {};
}

// Which requests of clients get in, and what all workers share of them.
void router_app::make_admission() {
  auth_throttle_ = std::make_unique<gateway::auth_throttle>(static_cast<uint64_t>(settings_.auth_failures));
  admission_ = std::make_unique<tenancy::admission_control>(admission_settings_of(settings_), clock_);
  open_quotas(access_->keys());
  forwards_ = std::make_unique<gateway::forward_line>(static_cast<size_t>(settings_.max_concurrent),
                                                      static_cast<size_t>(settings_.queue_size));
  names_.set(settings_.model_aliases);
  gateway_options_ = gateway_options_of(settings_, names_);
  models_ = std::make_unique<gateway::models_view>(*fleet_, settings_.models_show_agents, &names_);
  recent_ = std::make_unique<gateway::recent_requests>(static_cast<size_t>(settings_.explain_requests));
}

void router_app::make_admin() {
  api_ = std::make_unique<admin::api>(api_options_of(settings_, access_->admin_keys()),
                                      admin::api_subjects{.control = control_,
                                                          .fleet = *fleet_,
                                                          .storage = *storage_,
                                                          .plugins = plugins_,
                                                          .router = *router_,
                                                          .forwards = *forwards_,
                                                          .stages = stages_,
                                                          .policies = policies_->library(),
                                                          .recent = *recent_,
                                                          .names = names_,
                                                          .tokens = tokens_,
                                                          .roster = *roster_,
                                                          .keys = access_->registry(),
                                                          .secrets = [this] { return access_->secret_test(); },
                                                          .reload = [this](auto done) { reload("api", std::move(done)); }});
  access_->serve([this](const tenancy::keyring &keys) { return policies_->fits(keys); },
                 [this](access::ring keys, std::function<void()> everywhere) { publish_keys(std::move(keys), std::move(everywhere)); },
                 [this](const std::vector<config::admin_key> &keys) { api_->set_keys(keys); });
  if (!api_->protected_by_key()) {
    if (settings_.allow_insecure_admin) observe::log("auth").warn("/admin is open to everybody (HIVENET_ROUTER_ALLOW_INSECURE_ADMIN)");
    else observe::log("auth").warn("/admin answers 401 to everybody: set HIVENET_ROUTER_ADMIN_API_KEYS to a key of your choice");
  }
}

// Before anything that records; its file is opened last, when nothing else can stop the start.
void router_app::make_audit() {
  if (!settings_.audit_log_path.empty()) {
    audit_ = std::make_unique<observe::audit_log>(audit_options_of(settings_, exporter_.audit_write_seconds()));
    api_->audit_to(audit_.get());
  }
  records_ = std::make_unique<admin::audit_trail>(exporter_, audit_.get(), *recent_);
}

status router_app::publish_metrics() {
  admin::exported shown{.fleet = fleet_.get(),
                        .router = router_.get(),
                        .forwards = forwards_.get(),
                        .stages = &stages_,
                        .plugins = &plugins_,
                        .audit = audit_.get(),
                        .queue_size = static_cast<size_t>(settings_.queue_size),
                        .links = {},
                        .memory = &memory_,
                        .drift = &drift_,
                        .servers = {},
                        .storage = storage_.get(),
                        .history = &history_->stats(),
                        .admission = admission_.get(),
                        .quotas = quotas_.get(),
                        .quota_store = quota_store_.get(),
                        .edge = &edge_->stats()};
  for (const auto &u : units_) {
    if (u->hub) shown.links.push_back(&u->hub->counters());
    shown.servers.push_back(&u->server->counters());
  }
  metrics_page_ = std::make_unique<metrics_page>(control_, exporter_, edge_->own_limits());
  start_metrics_edge(shown.servers);
  exporter_.attach(shown);
  if (const status s = metrics_page_->listen(settings_.metrics.text()); !s) return s.at("metrics-port");
  return {};
}

status router_app::start() {
  host_ = std::make_unique<plugin_host>(control_, nullptr, &exporter_);
  if (const status s = load_plugins(); !s) return s;
  access_ = std::make_unique<access>(settings_, control_);
  if (const status s = access_->start(); !s) return s;
  if (const status s = open_edge(); !s) return s;
  if (const status s = make_providers(settings_, providers_); !s) return s;
  components_ = std::make_unique<routing::plugin_source>(plugins_, *host_);
  if (const status s = open_state(); !s) return s;
  if (const status s = make_routing(); !s) return s;
  make_admission();
  make_admin();
  embedded_ = std::make_unique<embedded_agents>(settings_.embedded_agents, control_, plugins_, *host_);
  if (const status s = embedded_->prepare(); !s) return s;
  directory_->reserve(embedded_->peer_ids());
  roster_->exempt(embedded_->peer_ids());
  make_audit();
  if (const status s = start_units(); !s) return s;
  link::wipe(settings_.secrets);  // the hubs have keys made of them, access_ has hashes
  if (const status s = publish_metrics(); !s) return s;
  if (audit_) return audit_->start();
  return {};
}

// The worker's hub, if any agent can come: over the network, from inside this process, or both.
status router_app::start_hub(unit &u, uint32_t worker, uint64_t boot_id) {
  if (!settings_.link_enabled && embedded_->empty()) return {};
  const std::string number = std::to_string(worker);
  const auto table = [](const std::unique_ptr<plugins::instance> &i) { return i ? transport_calls(*i) : link::transport_ref{}; };
  if (settings_.link_enabled) {
    auto transport = make_instance(plugins_, *host_, HIVE_KIND_TRANSPORT, settings_.transport, "link " + number, "agent link of worker " + number);
    if (!transport) return transport.why().at("transport");
    u.transport = std::move(*transport);
  }
  if (!embedded_->empty()) {
    auto transport = make_instance(plugins_, *host_, HIVE_KIND_TRANSPORT, embedded_agents::transport, "inside " + number,
                                   "agents inside this router, worker " + number);
    if (!transport) return transport.why().at("backend");
    u.own_transport = std::move(*transport);
  }
  link::hub_options h = hub_options_of(settings_);
  h.keys = link_identity_.keys;
  if (!embedded_->empty()) h.own_secret = link_identity_.own_secret;
  h.router_boot_id = boot_id;
  h.worker = worker;
  u.hub = std::make_unique<link::router_hub>(u.home, table(u.transport), *directory_, h, table(u.own_transport));
  if (u.transport) u.transport->on_request_pump([](void *hub) { static_cast<link::router_hub *>(hub)->request_pump(); }, u.hub.get());
  if (u.own_transport) u.own_transport->on_request_pump([](void *hub) { static_cast<link::router_hub *>(hub)->request_own_pump(); }, u.hub.get());
  link::wipe(h.secrets);  // the hub has its own, until it starts
  if (const status s = u.hub->start(); !s) return s.at("link");
  if (!settings_.link_enabled) return {};
  config::address at = settings_.link_listen;
  if (at.host.empty()) at.host = "0.0.0.0";
  if (at.port != 0) at.port = static_cast<uint16_t>(at.port + worker);
  const auto bound = u.hub->listen(at.text());
  if (!bound) return bound.why().at("link-listen");
  link_addresses_.push_back(*bound);
  return {};
}

status router_app::start_units() {
  const auto workers = static_cast<uint32_t>(settings_.workers);
  std::random_device random;
  const uint64_t boot_id = (static_cast<uint64_t>(random()) << 32) | random();
  http::server_limits limits = edge_->client_limits();
  limits.write_stall_timeout_ns = or_never(settings_.stream_write_timeout.ns);
  limits.max_connections = connections_a_worker(settings_, edge_->room_for_clients());
  limits.half_close_is_gone = settings_.client_half_close != "allow";
  config::address http = settings_.http;
  const bool open = access_->keys()->mode() == tenancy::auth_mode::none;
  if (open && !settings_.http_given) http.host = "127.0.0.1";
  if (open && !is_loopback(http.host))
    observe::log("auth").warn("{} is open to everybody who reaches it: no client needs a key (set --auth-config-file)", http.text());
  std::vector<hub_place> places;
  std::vector<embedded_place> inside;

  for (uint32_t i = 0; i < workers; ++i) {
    auto u = std::make_unique<unit>(memory_);
    limits.memory = &u->memory;
    if (const status s = start_hub(*u, i, boot_id); !s) return s;
    if (!embedded_->empty()) {
      const auto name = u->hub->listen_own("127.0.0.1:0");
      if (!name) return name.why().at("backend");
      inside.push_back({&u->home, *name});
    }
    places.push_back({&u->home, u->hub.get()});
    u->providers = provider_calls_of(u->home, providers_, exporter_);
    const gateway::worker_context context{.home = u->home,
                                          .hub = u->hub.get(),
                                          .router = *router_,
                                          .forwards = *forwards_,
                                          .records = *records_,
                                          .stages = stages_,
                                          .options = gateway_options_,
                                          .proxies = proxies_,
                                          .memory = &u->memory,
                                          .providers = u->providers.get(),
                                          .throttle = auth_throttle_.get(),
                                          .admission = admission_.get(),
                                          .tokens = &tokens_,
                                          .quotas = quotas_.get()};
    u->gateway = std::make_unique<gateway::worker>(context, *models_, *api_, ready_, access_->keys());
    u->server = std::make_unique<http::server>(u->home, *u->gateway, limits);
    u->server->use_tls(edge_->for_clients());
    if (const status s = u->server->listen(http.text(), workers > 1); !s) return s.at("http-port");
    if (http.port == 0) http.port = u->server->port();  // the other workers share what the first one got
    units_.push_back(std::move(u));
  }
  if (const status s = start_admin_listener(*units_.front()); !s) return s;
  std::vector<std::string> told = link_addresses_;
  if (!settings_.announce_host.empty())
    for (std::string &endpoint : told) {
      const bool v6 = settings_.announce_host.find(':') != std::string::npos;
      endpoint = (v6 ? "[" + settings_.announce_host + "]" : settings_.announce_host) + endpoint.substr(endpoint.rfind(':'));
    }
  for (auto &u : units_)
    if (u->hub) u->hub->set_endpoints(told);
  if (!settings_.link_enabled && embedded_->empty()) {
    places.clear();
    observe::log("link").warn("no agent can connect: set --jwt-secret-file or HIVENET_ROUTER_JWT_SECRET");
  }
  hubs_.set_hubs(std::move(places));
  hubs_.set_denied(roster_->denied_keys());
  roster_->on_change([this] { hubs_.set_denied(roster_->denied_keys()); });
  if (!embedded_->empty()) embedded_->start(std::move(inside), link_identity_.own_secret, link_identity_.keys.public_key);
  return {};
}

}  // namespace hive::apps
