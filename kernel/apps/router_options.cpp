#include "apps/router_options.hpp"

#include "base/clock.hpp"

namespace hive::apps {

fleet::registry_settings registry_settings_of(const config::router_settings &s) {
  fleet::registry_settings f;
  f.workers = static_cast<uint32_t>(s.workers);
  f.unhealthy_after_ns = s.unhealthy_after.ns;
  f.removed_after_ns = s.remove_after.ns;
  f.probation_after = static_cast<uint32_t>(s.probation_after);
  f.slow_start_ns = s.slow_start.ns;
  f.monitor_interval_ns = s.health_check_interval.ns;
  return f;
}

routing::router_options router_options_of(const config::router_settings &s, const known_providers &providers) {
  routing::router_options r;
  r.line.depth = static_cast<size_t>(s.queue_depth);
  r.line.bytes = s.queue_bytes.bytes;
  r.line.tenant_fairness = s.tenant_fairness;
  r.max_tries = static_cast<uint32_t>(s.max_tries_per_step);
  r.retry_delay_ns = s.retry_delay.ns;
  r.retry_share = s.retry_budget;
  r.retry_floor = static_cast<uint32_t>(s.retry_budget_min);
  r.judge_provider = [known = providers](const routing::provider_choice &p) { return known->judge(p.engine); };
  return r;
}

tenancy::admission_settings admission_settings_of(const config::router_settings &s) {
  return {.fraction = s.admit_fraction,
          .park_ns = s.admit_park_timeout.ns,
          .undeclared_output = static_cast<uint64_t>(s.admit_default_output)};
}

gateway::gateway_options gateway_options_of(const config::router_settings &s, const gateway::model_names &names) {
  gateway::gateway_options g;
  g.max_body_bytes = s.max_request.bytes;
  g.request_timeout_ns = s.request_timeout.ns;
  g.stream_timeout_ns = s.stream_timeout.ns;
  g.ask_usage = s.stream_usage == "ask";
  g.extra_routes = s.extra_routes;
  g.sse_keepalive_ns = s.sse_keepalive.ns;
  g.cors_origins = s.cors_origins;
  g.names = &names;
  g.expose_routing = s.expose_routing;
  g.admin_apart = s.edge.admin_apart;
  return g;
}

admin::api_options api_options_of(const config::router_settings &s, const std::vector<config::admin_key> &keys) {
  admin::api_options a;
  a.keys = keys;
  a.strict_keys = s.strict_auth;
  a.open_without_keys = s.allow_insecure_admin;
  a.storage = s.storage;
  a.extra_routes = s.extra_routes;
  a.entry_ttl_days = static_cast<uint64_t>(s.disk_db_ttl_days);
  return a;
}

link::hub_options hub_options_of(const config::router_settings &s) {
  link::hub_options h;
  h.secrets = s.secrets;
  h.strangers = static_cast<uint32_t>(s.strangers);
  h.strangers_per_address = static_cast<uint32_t>(s.strangers_per_address);
  h.session_ttl_ns = s.session_ttl.ns;
  h.heartbeat_ns = s.heartbeat_interval.ns;
  h.write_timeout_ns = or_never(s.stream_write_timeout.ns);
  h.slot_release_at_head = s.slot_release == "headers";
  h.workers = static_cast<uint32_t>(s.workers);
  return h;
}

observe::audit_options audit_options_of(const config::router_settings &s, const observe::histogram &write_seconds) {
  observe::audit_options o;
  o.path = s.audit_log_path;
  o.zone = s.audit_zone;
  o.queue_bytes = s.audit_queue.bytes;
  o.required = s.audit_required;
  o.when_full = s.audit_overflow == "block" ? observe::overflow::block : observe::overflow::drop;
  o.block_ns = s.audit_block_limit.ns;
  o.write_seconds = write_seconds;
  return o;
}

}  // namespace hive::apps
