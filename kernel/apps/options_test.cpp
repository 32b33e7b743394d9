// What holds when nothing is set stands twice: in the tables of settings, and in the structs that the rooms take, which tests and
// benches use without settings. Naive variant of all of these: a default is changed in one of the two places.
#include <gtest/gtest.h>

#include "apps/agent_options.hpp"
#include "apps/http_edge.hpp"
#include "apps/router_options.hpp"
#include "base/clock.hpp"
#include "config/load.hpp"

namespace hive::apps {
namespace {

config::router_settings router_without_settings() { return config::load_router({}, {}, "dev").settings; }

TEST(option_defaults, of_an_agent_are_those_of_its_settings) {
  EXPECT_TRUE(agent_options_of(config::load_agent({}, {}, "dev").settings) == agent::agent_options{})
      << "agent/options.hpp and config/agent_settings.cpp differ";
}

TEST(option_defaults, of_the_client_side_are_those_of_the_settings) {
  gateway::model_names names;
  gateway::gateway_options want;
  want.names = &names;
  EXPECT_TRUE(gateway_options_of(router_without_settings(), names) == want) << "gateway/worker_context.hpp and config/router_settings.cpp differ";

  const http::server_limits made = http_edge(router_without_settings().edge, gateway::trusted_proxies{}).own_limits(), own{};
  EXPECT_EQ(made.max_header_bytes, own.max_header_bytes);
  EXPECT_EQ(made.handshake_timeout_ns, own.handshake_timeout_ns);
  EXPECT_EQ(made.header_timeout_ns, own.header_timeout_ns);
  EXPECT_EQ(made.idle_timeout_ns, own.idle_timeout_ns);
  EXPECT_EQ(made.body_idle_timeout_ns, own.body_idle_timeout_ns);
}

TEST(option_defaults, of_the_fleet_and_of_admission_are_those_of_the_settings) {
  const config::router_settings s = router_without_settings();
  fleet::registry_settings want;
  want.workers = static_cast<uint32_t>(s.workers);  // as many as this machine suggests
  EXPECT_TRUE(registry_settings_of(s) == want) << "fleet/registry.hpp and config/router_settings.cpp differ";
  EXPECT_TRUE(admission_settings_of(s) == tenancy::admission_settings{})
      << "tenancy/admission_control.hpp and config/admission_settings.cpp differ";
}

TEST(option_defaults, of_routing_are_those_of_the_settings_or_off) {
  const routing::router_options made = router_options_of(router_without_settings(), {}), own{};
  EXPECT_EQ(made.line.depth, own.line.depth);
  EXPECT_EQ(made.line.bytes, own.line.bytes);
  EXPECT_EQ(made.max_tries, own.max_tries);
  EXPECT_EQ(made.retry_share, own.retry_share);
  EXPECT_EQ(made.retry_floor, own.retry_floor);
  // Off in the struct: the tests of lines and retries tell their order without these.
  EXPECT_TRUE(made.line.tenant_fairness);
  EXPECT_EQ(made.retry_delay_ns, 20 * ns_per_ms);
}

TEST(option_defaults, of_the_link_and_of_the_audit_log_are_those_of_the_settings) {
  const config::router_settings s = router_without_settings();
  const link::hub_options hub = hub_options_of(s), own_hub{};
  EXPECT_EQ(hub.strangers, own_hub.strangers);
  EXPECT_EQ(hub.strangers_per_address, own_hub.strangers_per_address);
  EXPECT_EQ(hub.session_ttl_ns, own_hub.session_ttl_ns);
  EXPECT_EQ(hub.heartbeat_ns, own_hub.heartbeat_ns);
  EXPECT_EQ(hub.write_timeout_ns, own_hub.write_timeout_ns);
  EXPECT_EQ(hub.slot_release_at_head, own_hub.slot_release_at_head);

  const observe::audit_options audit = audit_options_of(s, {}), own_audit{};
  EXPECT_EQ(audit.zone, own_audit.zone);
  EXPECT_EQ(audit.queue_bytes, own_audit.queue_bytes);
  EXPECT_EQ(audit.when_full, own_audit.when_full);
  EXPECT_EQ(audit.block_ns, own_audit.block_ns);
  EXPECT_EQ(audit.required, own_audit.required);

  EXPECT_EQ(api_options_of(s, {}).entry_ttl_days, admin::api_options{}.entry_ttl_days);
}

}  // namespace
}  // namespace hive::apps
