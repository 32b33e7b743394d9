// The HTTP listeners of a router beside those of its clients, and the certificates of all of them.
#include "apps/router_unit.hpp"
#include "observe/log.hpp"

namespace hive::apps {

// On one worker: operators are no load.
status router_app::start_admin_listener(unit &u) {
  if (!settings_.edge.admin_apart) return {};
  u.admin_server = std::make_unique<http::server>(u.home, u.gateway->admin_side(), edge_->own_limits());
  u.admin_server->use_tls(edge_->for_admin());
  if (const status s = u.admin_server->listen(settings_.edge.admin.text(), false); !s) return s.at("admin-listen");
  return {};
}

void router_app::start_metrics_edge(std::vector<const http::server_counters *> clients) {
  metrics_page_->use_tls(edge_->for_metrics());
  auto &listeners = edge_->stats().listeners;
  listeners.push_back({"client", std::move(clients)});
  if (const http::server *admin = units_.front()->admin_server.get()) listeners.push_back({"admin", {&admin->counters()}});
  listeners.push_back({"metrics", {&metrics_page_->counters()}});
  edge_->note_certificates();
}

// While there is TLS. Connections that are open go on with what they began with.
status router_app::reload_certificates() {
  std::vector<std::string> warnings;
  if (const status s = edge_->reload(warnings); !s) {
    observe::log("router").error("the certificates stay as they were: {}", s.text());
    return s;
  }
  for (const std::string &w : warnings) observe::log("router").warn("{}", w);
  for (auto &u : units_)
    u->home.post([unit = u.get(), clients = edge_->for_clients(), admin = edge_->for_admin()] {
      unit->server->use_tls(clients);
      if (unit->admin_server) unit->admin_server->use_tls(admin);
    });
  metrics_page_->use_tls(edge_->for_metrics());
  observe::log("router").info("certificates read again");
  return {};
}

}  // namespace hive::apps
