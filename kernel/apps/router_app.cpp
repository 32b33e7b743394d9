#include "apps/router_app.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/signal_set.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <csignal>
#include <random>
#include <utility>

#include "apps/metrics_page.hpp"
#include "apps/provider_settings.hpp"
#include "apps/program.hpp"
#include "apps/router_unit.hpp"
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

router_app::router_app(config::router_settings settings)
    : settings_(std::move(settings)),
      memory_(settings_.memory_budget.bytes),
      exporter_(program_version),
      housekeeping_timer_([this] { housekeeping(); }),
      drain_timer_([this] { check_drained(); }),
      drain_({.delay_ns = settings_.drain_delay.ns, .timeout_ns = settings_.drain_timeout.ns}) {}

router_app::~router_app() {
  stop_units();
  embedded_.reset();
  for (auto &u : units_) u->server.reset();  // what still ran is over, and charged
  if (fleet_) fleet_->flush_history();
  if (quota_store_) quota_store_->flush();
  if (storage_) storage_->stop();
}

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

// `everywhere` is called on the control thread once every worker has them.
void router_app::publish_keys(access::ring keys, std::function<void()> everywhere) {
  if (quotas_) set_quota_keys(keys);
  struct round {
    std::atomic<size_t> missing;
    std::function<void()> done;
  };
  const auto one = std::make_shared<round>(units_.size(), std::move(everywhere));
  for (auto &u : units_)
    u->home.post([this, unit = u.get(), keys, one] {
      unit->gateway->set_keys(keys);
      if (one->missing.fetch_sub(1) == 1) control_.post(std::move(one->done));
    });
}

// Before anything that records; its file is opened last, when nothing else can stop the start.
void router_app::make_audit() {
  if (!settings_.audit_log_path.empty()) {
    observe::audit_options o;
    o.path = settings_.audit_log_path;
    o.zone = settings_.audit_zone;
    o.queue_bytes = settings_.audit_queue.bytes;
    o.required = settings_.audit_required;
    o.when_full = settings_.audit_overflow == "block" ? observe::overflow::block : observe::overflow::drop;
    o.block_ns = settings_.audit_block_limit.ns;
    o.write_seconds = exporter_.audit_write_seconds();
    audit_ = std::make_unique<observe::audit_log>(o);
    api_->audit_to(audit_.get());
  }
  records_ = std::make_unique<admin::audit_trail>(exporter_, audit_.get(), *recent_);
}

// Each part is taken whole or stays as it was, whatever becomes of the others; it is judged beside what holds at that moment, so
// that no order of good and bad ones leaves two that exclude each other. Keys before policies (routing sheet section 7), and before
// the secrets: what was an admin key may become a secret in one go.
void router_app::reload() {
  if (audit_) audit_->reopen();
  reload_certificates();
  if (const auto good = access_->reload()) exporter_.on_auth_reload(*good);
  reload_link(settings_, *access_, hubs_, *roster_, *directory_);
  policies_->library().reload();
  auto aliases = config::read_model_aliases(settings_.config_file);
  if (aliases) names_.set(*std::move(aliases));
  else observe::log("router").error("the model aliases stay as they were: {}", aliases.why().text());
}

status router_app::start() {
  host_ = std::make_unique<plugin_host>(control_, nullptr, &exporter_);
  if (const status s = load_plugins(); !s) return s;
  access_ = std::make_unique<access>(settings_, control_);
  if (const status s = access_->start(); !s) return s;
  auto proxies = gateway::trusted_proxies::parse(settings_.trusted_proxies);
  if (!proxies) return proxies.why();
  proxies_ = *std::move(proxies);
  edge_ = std::make_unique<http_edge>(settings_.edge, proxies_, allowed_descriptors());
  std::vector<std::string> edge_warnings;
  if (const status s = edge_->start(edge_warnings); !s) return s;
  for (const std::string &w : edge_warnings) observe::log("router").warn("{}", w);
  guesses_ = std::make_unique<gateway::auth_throttle>(static_cast<uint64_t>(settings_.auth_failures));
  if (const status s = make_providers(settings_, providers_); !s) return s;
  components_ = std::make_unique<routing::plugin_source>(plugins_, *host_);
  if (const status s = open_storage(); !s) return s;
  if (const status s = access_->restore(*storage_); !s) return s;
  auto identity = open_link_identity(settings_);
  if (!identity) return identity.why().at("identity-path");
  link_identity_ = *std::move(identity);
  roster_ = std::make_unique<fleet::agent_roster>(*storage_, control_, clock_,
                                                  fleet::agent_roster::files{settings_.revoked_agents_file, settings_.agents_file});
  if (const status s = roster_->start(); !s) return s;

  fleet::registry_settings f;
  f.workers = static_cast<uint32_t>(settings_.workers);
  f.unhealthy_after_ns = settings_.unhealthy_after.ns;
  f.removed_after_ns = settings_.remove_after.ns;
  f.probation_after = static_cast<uint32_t>(settings_.probation_after);
  f.slow_start_ns = settings_.slow_start.ns;
  f.monitor_interval_ns = settings_.health_check_interval.ns;
  fleet_ = std::make_unique<fleet::registry>(f, clock_, hubs_, history_.get(), &fleet_log_, &srtt_log_);
  host_->set_columns(fleet_->columns());
  outcomes_ = std::make_unique<outcomes>(*fleet_, exporter_);
  routing::router_options r;
  r.line.depth = static_cast<size_t>(settings_.queue_depth);
  r.line.bytes = settings_.queue_bytes.bytes;
  r.line.tenant_fairness = settings_.tenant_fairness;
  r.max_tries = static_cast<uint32_t>(settings_.max_tries_per_step);
  r.retry_delay_ns = settings_.retry_delay.ns;
  r.retry_share = settings_.retry_budget;
  r.retry_floor = static_cast<uint32_t>(settings_.retry_budget_min);
  r.judge_provider = [known = providers_](const routing::provider_choice &p) { return known->judge(p.engine); };
  router_ = std::make_unique<routing::router>(*components_, fleet_->columns(), *outcomes_, r);
  policies_ = std::make_unique<policies>(policies::parts{settings_, control_, *router_, *components_, fleet_->columns(), *storage_, exporter_, access_->keys(),
                                                         providers_,
                                                         [this] { if (admission_) tenancy::review_parked(*admission_, *router_->policies(), now_ns()); }});
  if (const status s = policies_->library().start(); !s) return s;
  directory_ = std::make_unique<fleet_directory>(control_, *fleet_, *router_, exporter_);
  directory_->set_roster(*roster_);

  admission_ = std::make_unique<tenancy::admission_control>(
      tenancy::admission_settings{settings_.admit_fraction, settings_.admit_park_timeout.ns, static_cast<uint64_t>(settings_.admit_default_output)}, clock_);
  open_quotas(access_->keys());
  forwards_ = std::make_unique<gateway::forward_line>(static_cast<size_t>(settings_.max_concurrent),
                                                      static_cast<size_t>(settings_.queue_size));
  gateway_options_.max_body_bytes = settings_.max_request.bytes;
  gateway_options_.request_timeout_ns = settings_.request_timeout.ns;
  gateway_options_.stream_timeout_ns = settings_.stream_timeout.ns;
  gateway_options_.ask_usage = settings_.stream_usage == "ask";
  gateway_options_.extra_routes = settings_.extra_routes;
  gateway_options_.sse_keepalive_ns = settings_.sse_keepalive.ns;
  gateway_options_.cors_origins = settings_.cors_origins;
  names_.set(settings_.model_aliases);
  gateway_options_.names = &names_;
  gateway_options_.expose_routing = settings_.expose_routing;
  gateway_options_.admin_apart = settings_.edge.admin_apart;
  models_ = std::make_unique<gateway::models_view>(*fleet_, settings_.models_show_agents, &names_);
  recent_ = std::make_unique<gateway::recent_requests>(static_cast<size_t>(settings_.explain_requests));
  admin::api_options a;
  a.keys = access_->admin_keys();
  a.strict_keys = settings_.strict_auth;
  a.open_without_keys = settings_.allow_insecure_admin;
  a.storage = settings_.storage;
  a.extra_routes = settings_.extra_routes;
  a.entry_ttl_days = static_cast<uint64_t>(settings_.disk_db_ttl_days);
  api_ = std::make_unique<admin::api>(a, admin::api_subjects{control_, *fleet_, *storage_, plugins_, *router_, *forwards_,
                                                             stages_, policies_->library(), *recent_, names_, tokens_, *roster_,
                                                             access_->registry(), [this] { return access_->secret_test(); }});
  access_->serve([this](const tenancy::keyring &keys) { return policies_->fits(keys); },
                 [this](access::ring keys, std::function<void()> everywhere) { publish_keys(std::move(keys), std::move(everywhere)); },
                 [this](const std::vector<config::admin_key> &keys) { api_->set_keys(keys); });
  if (!api_->protected_by_key()) {
    if (a.open_without_keys) observe::log("auth").warn("/admin is open to everybody (HIVENET_ROUTER_ALLOW_INSECURE_ADMIN)");
    else observe::log("auth").warn("/admin answers 401 to everybody: set HIVENET_ROUTER_ADMIN_API_KEYS to a key of your choice");
  }
  embedded_ = std::make_unique<embedded_agents>(settings_.embedded_agents, control_, plugins_, *host_);
  if (const status s = embedded_->prepare(); !s) return s;
  directory_->reserve(embedded_->peer_ids());
  roster_->exempt(embedded_->peer_ids());
  make_audit();
  if (const status s = start_units(); !s) return s;
  link::wipe(settings_.secrets);  // the hubs have keys made of them, access_ has hashes
  admin::exported shown{fleet_.get(), router_.get(), forwards_.get(), &stages_, &plugins_, audit_.get(), static_cast<size_t>(settings_.queue_size),
                        {}, &memory_, &drift_, {}, storage_.get(), &history_->stats(), admission_.get(), quotas_.get(), quota_store_.get()};
  for (const auto &u : units_) {
    if (u->hub) shown.links.push_back(&u->hub->counters());
    shown.servers.push_back(&u->server->counters());
  }
  metrics_page_ = std::make_unique<metrics_page>(control_, exporter_, edge_->own_limits());
  start_metrics_edge(shown.servers);
  shown.edge = &edge_->stats();
  exporter_.attach(shown);
  if (const status s = metrics_page_->listen(settings_.metrics.text()); !s) return s.at("metrics-port");
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
  link::hub_options h;
  h.secrets = settings_.secrets;
  h.keys = link_identity_.keys;
  h.strangers = static_cast<uint32_t>(settings_.strangers);
  h.strangers_per_address = static_cast<uint32_t>(settings_.strangers_per_address);
  if (!embedded_->empty()) h.own_secret = link_identity_.own_secret;
  h.session_ttl_ns = settings_.session_ttl.ns;
  h.heartbeat_ns = settings_.heartbeat_interval.ns;
  h.write_timeout_ns = or_never(settings_.stream_write_timeout.ns);
  h.slot_release_at_head = settings_.slot_release == "headers";
  h.router_boot_id = boot_id;
  h.worker = worker;
  h.workers = static_cast<uint32_t>(settings_.workers);
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
  if (open && http.host != "127.0.0.1" && http.host != "::1")
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
    gateway::worker_context context{u->home, u->hub.get(), *router_, *forwards_, *records_, stages_, gateway_options_, proxies_, &u->memory};
    context.guesses = guesses_.get();
    context.admission = admission_.get();
    context.tokens = &tokens_;
    context.quotas = quotas_.get();
    u->providers = provider_calls_of(u->home, providers_, exporter_);
    context.providers = u->providers.get();
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

std::string router_app::ready_line() const {
  namespace json = boost::json;
  json::object out{{"ready", true},
                   {"pid", ::getpid()},
                   {"version", program_version},
                   {"http", units_.front()->server->address()},
                   {"metrics", metrics_page_->address()},
                   {"link", json::array(link_addresses_.begin(), link_addresses_.end())}};
  if (!link_identity_.router_id.empty()) out["router_id"] = link_identity_.router_id;
  if (edge_->for_clients()) out["tls"] = true;
  if (units_.front()->admin_server) out["admin"] = units_.front()->admin_server->address();
  if (!embedded_->empty()) out["embedded"] = embedded_->json();
  return json::serialize(out);
}

void router_app::run() {
  const auto report = [](const char *what) { observe::log("kernel").error("exception on a loop: {}", what); };
  for (auto &u : units_)
    u->thread = std::thread([unit = u.get(), report] { unit->home.run(report); });
  boost::asio::signal_set signals(control_.io(), SIGINT, SIGTERM, SIGHUP);
  signals.add(SIGUSR1);
  std::function<void(const boost::system::error_code &, int)> on_signal = [&](const boost::system::error_code &error, int number) {
    if (error) return;
    signals.async_wait(on_signal);
    if (number == SIGHUP) return reload();
    if (number == SIGUSR1) {
      if (audit_) audit_->reopen();
      return;
    }
    if (drain_.begun()) return control_.stop();  // a second signal ends it now
    begin_drain();
  };
  signals.async_wait(on_signal);
  ready_.enter(gateway::readiness::phase::serving);
  housekeeping();
  write_line(static_cast<int>(settings_.ready_fd), ready_line());
  observe::log("router").info("serving {} on {} worker(s); agents at {}; metrics on {}", units_.front()->server->address(),
                              units_.size(), link_addresses_.empty() ? "-" : link_addresses_.front(), metrics_page_->address());
  control_.run(report);
  observe::log("router").info("stopped");
}

void router_app::housekeeping() {
  control_.arm_in(housekeeping_timer_, 100 * ns_per_ms);
  fleet_->tick();
  if (quota_store_) quota_store_->tick();
  tell_first_request();
  const uint64_t now = now_ns();
  watch_memory(now);
  if (now >= next_second_ns_) {
    next_second_ns_ = now + ns_per_s;
    router_->sweep();
    directory_->forget_pools(now, settings_.remove_after.ns);
    forget_gone_tenants(now);
    exporter_.sweep();
    access_->sweep();
    sample_drift();
    watch_storage();
    watch_accepting();
  }
  if (now >= next_admission_sweep_ns_) {
    next_admission_sweep_ns_ = now + 5 * 60 * ns_per_s;
    admission_->sweep();
    quotas_->sweep();
  }
}

// Whoever started it with nothing but --backend is told what to do next, once there is something to do it with.
void router_app::tell_first_request() {
  if (first_request_told_ || embedded_->empty() || !settings_.config_file.empty()) return;
  const std::string line = first_request(*fleet_, settings_.edge.tls() ? "https" : "http", units_.front()->server->address());
  if (line.empty()) return;
  first_request_told_ = true;
  observe::log("router").info("try: {}", line);
}

void router_app::begin_drain() {
  ready_.enter(gateway::readiness::phase::draining);
  busy_ = std::make_unique<survey>(units_.size());
  drain_.begin(now_ns());
  observe::log("router").info("leaving: not ready from now on, new requests are refused after {} ms, running ones get {} s",
                              settings_.drain_delay.ns / ns_per_ms, settings_.drain_timeout.ns / ns_per_s);
  check_drained();
}

void router_app::check_drained() {
  using act = drain_plan::act;
  const auto busy = busy_->total();
  const act what = drain_.step(now_ns(), busy);
  for (auto &u : units_) {
    unit *one = u.get();
    if (what == act::refuse) {
      one->home.post([one] {
        one->gateway->drain();
        one->server->drain();
      });
    } else if (what == act::cut) {
      one->home.post([one] { one->gateway->shut_down(); });
    } else if (what == act::close) {
      one->home.post([one] {
        one->server->stop_accepting();
        one->server->close_idle();
        if (!one->admin_server) return;  // operators watch the drain to its end
        one->admin_server->drain();
        one->admin_server->stop_accepting();
        one->admin_server->close_idle();
      });
    }
  }
  if (what == act::cut) observe::log("router").warn("{} connection(s) were not done in time and are cut", busy.value_or(0));
  if (what == act::stop) {
    stop_units();
    return control_.stop();
  }
  if (what != act::none || busy) ask_busy();
  control_.arm_in(drain_timer_, 10 * ns_per_ms);
}

void router_app::ask_busy() {
  const uint64_t round = busy_->ask();
  for (size_t i = 0; i < units_.size(); ++i)
    units_[i]->home.post([this, round, i] { busy_->answer(i, round, units_[i]->busy()); });
}

void router_app::stop_units() {
  if (embedded_) embedded_->stop();
  for (auto &u : units_) {
    if (!u->thread.joinable()) continue;
    u->home.post([unit = u.get()] {
      if (unit->hub) unit->hub->shut_down(200);
      unit->home.post([unit] { unit->home.stop(); });
    });
    u->thread.join();
  }
}

}  // namespace hive::apps
