#include "apps/link_security.hpp"

#include "base/text.hpp"
#include "link/auth.hpp"
#include "observe/log.hpp"

namespace hive::apps {

result<link_identity> open_link_identity(const config::router_settings &s) {
  link_identity out;
  out.own_secret = to_hex(link::random_nonce());
  if (s.identity_path.empty()) {
    out.keys = link::router_keys(s.secrets.empty() ? out.own_secret : s.secrets.front());
    return out;
  }
  const auto id = link::load_or_create_identity(s.identity_path);
  if (!id) return id.why();
  auto lock = link::identity_lock::take(s.identity_path);
  if (!lock) return lock.why();
  out.lock.emplace(*std::move(lock));
  out.keys = {id->curve_public, id->curve_secret};
  out.router_id = id->peer_id;
  observe::log("link").info("this router is {}; agents name it with --router-id", out.router_id);
  return out;
}

admin::reload_report reload_link(const config::router_settings &s, access &doors, hub_control &hubs, fleet::agent_roster &roster, fleet_directory &directory) {
  admin::reload_report report;
  if (s.link_enabled) {
    auto secrets = config::read_link_secrets(s.secret_sources);
    if (secrets && secrets->empty()) secrets = fail(errc::invalid, "there is none any more");
    if (secrets)
      if (const status apart = doors.take_secrets(*secrets); !apart) {
        link::wipe(*secrets);
        secrets = apart;
      }
    if (secrets) {
      observe::log("link").info("{} shared secret(s) accepted; asked to prove one: every agent if the list has changed, else those that proved an older one",
                                secrets->size());
      hubs.set_secrets(*secrets);
      link::wipe(*secrets);
    } else {
      observe::log("link").error("the shared secrets stay as they were: {}", secrets.why().text());
    }
    report.push_back({"link_secrets", secrets.why()});
  }
  const status read = roster.reload();
  if (!read) observe::log("link").error("the lists of agents stay as they were: {}", read.text());
  else directory.put_out();
  report.push_back({"agent_lists", read});
  return report;
}

}  // namespace hive::apps
