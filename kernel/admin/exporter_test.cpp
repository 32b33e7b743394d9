#include "admin/exporter.hpp"

#include <gmock/gmock.h>

#include <thread>
#include <vector>

#include "routing/fleet_fixture.hpp"

namespace hive::admin {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(exporter, links_are_shown_worker_by_worker) {
  link::hub_counters first, second;
  first.links_open += 3;
  first.links_welcomed += 5;
  first.links_lost += 2;
  ++first.streams_opened;
  ++first.streams_open;
  first.in.bytes += 4096;
  second.out.frames += 7;
  ++second.protocol_errors;
  ++second.auth_failures;
  ++second.kicked;
  ++second.renewals;
  ++second.late_records;
  exporter metrics("1.0");
  EXPECT_THAT(metrics.expose(), Not(HasSubstr("_link_")));
  exported subjects;
  subjects.links = {&first, &second};
  metrics.attach(subjects);
  const std::string page = metrics.expose();
  for (const char *line : {"link_links{worker=\"0\"} 3", "link_links_welcomed_total{worker=\"0\"} 5", "link_links_lost_total{worker=\"0\"} 2",
                           "link_streams_opened_total{worker=\"0\"} 1", "link_streams_open{worker=\"0\"} 1", "link_streams_closing{worker=\"0\"} 0",
                           "link_bytes_total{worker=\"0\",direction=\"in\"} 4096", "link_bytes_total{worker=\"0\",direction=\"out\"} 0",
                           "link_frames_total{worker=\"1\",direction=\"out\"} 7", "link_records_total{worker=\"1\",direction=\"in\"} 0",
                           "link_protocol_errors_total{worker=\"1\"} 1", "link_auth_failures_total{worker=\"1\"} 1",
                           "link_kicked_total{worker=\"1\"} 1", "link_renewals_total{worker=\"1\"} 1",
                           "link_late_records_total{worker=\"1\"} 1"})
    EXPECT_THAT(page, HasSubstr("\nhivenet_router_" + std::string(line) + "\n"));
  --first.streams_open;
  EXPECT_THAT(metrics.expose(), HasSubstr("link_streams_open{worker=\"0\"} 0\n"));
}

TEST(exporter, listeners_are_shown_with_the_sum_of_their_servers) {
  http::server_counters first, second, own;
  first.refused_address += 2;
  second.refused_address += 3;
  first.handshakes += 7;
  ++second.handshakes_failed;
  ++own.handshake_timeouts;
  ++first.header_timeouts;
  second.body_timeouts += 4;
  ++own.idle_timeouts;
  edge_stats stats{{{"client", {&first, &second}, 1'900'000'000}, {"metrics", {&own}}}, 2, 1};
  exporter metrics("1.0");
  EXPECT_THAT(metrics.expose(), Not(HasSubstr("tls_")));
  exported subjects;
  subjects.edge = &stats;
  metrics.attach(subjects);
  const std::string page = metrics.expose();
  for (const char *line : {"http_connections_refused_total{listener=\"client\",reason=\"address_limit\"} 5",
                           "http_connections_refused_total{listener=\"client\",reason=\"tls_handshake\"} 1",
                           "http_connections_refused_total{listener=\"metrics\",reason=\"tls_timeout\"} 1",
                           "http_server_timeouts_total{listener=\"client\",phase=\"header\"} 1",
                           "http_server_timeouts_total{listener=\"client\",phase=\"body\"} 4",
                           "http_server_timeouts_total{listener=\"metrics\",phase=\"idle\"} 1", "hivenet_router_tls_handshakes_total{listener=\"client\"} 7",
                           "hivenet_router_tls_certificate_expiry_timestamp_seconds{listener=\"client\"} 1900000000",
                           "hivenet_router_tls_reload_total{result=\"success\"} 2", "hivenet_router_tls_reload_total{result=\"error\"} 1"})
    EXPECT_THAT(page, HasSubstr("\n" + std::string(line) + "\n"));
  EXPECT_THAT(page, Not(HasSubstr("tls_handshakes_total{listener=\"metrics\"}"))) << "it has no TLS";
}

TEST(exporter, refused_keys_are_shown_by_where_and_why) {
  exporter metrics("1.0");
  gateway::request_record r;
  r.method = "GET";
  r.route = "/v1/models";
  r.status = 401;
  r.how = gateway::ended::rejected_auth;
  // Naive variant: a request that began under another label is one of /admin.
  const auto finish = [&](tenancy::denial why, gateway::surface at, std::string_view started_as) {
    r.denied = why;
    r.at = at;
    r.started_as = started_as;
    metrics.on_started(r.method, started_as.empty() ? r.route : started_as);
    metrics.on_finished(r);
  };
  using gateway::surface;
  finish(tenancy::denial::expired_key, surface::client, "");
  finish(tenancy::denial::expired_key, surface::client, "/v1");
  finish(tenancy::denial::unknown_key, surface::admin, "/admin");
  r.status = 200;
  r.how = gateway::ended::completed;
  finish(tenancy::denial::none, surface::client, "");
  const std::string page = metrics.expose();
  for (const char *line : {R"({reason="expired_key",surface="client"} 2)", R"({reason="unknown_key",surface="client"} 0)",
                           R"({reason="unknown_key",surface="admin"} 1)",
                           R"({reason="no_key",surface="admin"} 0)", R"({reason="two_credentials",surface="client"} 0)"})
    EXPECT_THAT(page, HasSubstr("\nhivenet_router_auth_failures_total" + std::string(line) + "\n"));
}

TEST(exporter, servers_and_storage_are_shown) {
  http::server_counters server;
  server.accepted += 9;
  server.open += 4;
  server.accept_failures += 2;
  ++server.limit_reached;
  ++server.refused_heads;
  server.client_gone += 3;
  ++server.client_slow;
  fleet::history_stats history;
  history.flushes = 5;
  history.records_written = 7;
  history.read_errors = 1;
  history.corrupt = 2;
  history.warm_starts = 3;
  history.write_errors = 4;
  fleet::storage_thread storage({}, 1);
  EXPECT_FALSE(storage.post([](fleet::storage_client &) {})) << "not open";
  exporter metrics("1.0");
  EXPECT_THAT(metrics.expose(), Not(AnyOf(HasSubstr("http_server_connections"), HasSubstr("_storage_"), HasSubstr("_history_"))));
  exported subjects;
  subjects.servers = {&server};
  subjects.storage = &storage;
  subjects.history = &history;
  metrics.attach(subjects);
  const std::string page = metrics.expose();
  for (const char *line : {"http_server_connections{worker=\"0\"} 4", "http_server_connections_accepted_total{worker=\"0\"} 9",
                           "http_server_accept_failures_total{worker=\"0\"} 2", "http_server_connection_limit_total{worker=\"0\"} 1",
                           "http_server_heads_refused_total{worker=\"0\"} 1", "http_server_clients_gone_total{worker=\"0\"} 3",
                           "http_server_clients_slow_total{worker=\"0\"} 1", "hivenet_router_storage_jobs 0",
                           "hivenet_router_storage_jobs_dropped_total 1", "hivenet_router_storage_sweeps_failed_total 0",
                           "hivenet_router_history_flushes_total 5", "hivenet_router_history_records_written_total 7",
                           "hivenet_router_history_write_errors_total 4", "hivenet_router_history_read_errors_total 1",
                           "hivenet_router_history_corrupt_total 2", "hivenet_router_history_warm_starts_total 3"})
    EXPECT_THAT(page, HasSubstr("\n" + std::string(line) + "\n"));
}

// Its agents may drop a model and list it again without a new registration, so the generation stays the same.
TEST(exporter, what_a_provider_did_is_counted_in_the_cloud) {
  exporter metrics("1.0");
  const auto finish = [&](gateway::ended how, uint64_t first_byte_ns) {
    gateway::request_record r;
    r.method = "POST";
    r.route = "/v1/chat/completions";
    r.inference = true;
    r.model = "m";
    r.model_known = true;
    r.agent = "provider:openai";
    r.provider = "openai";
    r.provider_model = "gpt-4o";
    r.tenant = "acme";
    r.how = how;
    r.first_byte_ns = first_byte_ns;
    r.usage = {11, 4, 0, true};
    metrics.on_started(r.method, r.route);
    metrics.on_finished(r);
  };
  using gateway::ended;
  finish(ended::completed, 5);
  finish(ended::engine_error, 5);   // broke off
  finish(ended::engine_error, 0);   // gave nothing
  finish(ended::deadline, 0);
  finish(ended::client_gone, 0);
  finish(ended::rejected_by_engine, 0);
  metrics.on_provider_call("openai", 0, 0);
  const std::string page = metrics.expose();
  for (const char *line : {"hivenet_router_policy_provider_fallback_total{model=\"m\"} 2", "hivenet_router_policy_exhausted_total{model=\"m\"} 1",
                           "hivenet_router_routing_requests_routed_total{engine=\"openai\",model=\"gpt-4o\",region=\"cloud\",tenant_id=\"acme\"} 1",
                           "hivenet_router_routing_requests_failed_total{engine=\"openai\",model=\"gpt-4o\",region=\"cloud\",tenant_id=\"acme\"} 2",
                           "hivenet_router_tenant_input_tokens_total{deployment_id=\"unset\",key_id=\"anonymous\",model=\"m\",tenant_id=\"acme\"} 11",
                           "hivenet_router_tenant_output_tokens_total{deployment_id=\"unset\",key_id=\"anonymous\",model=\"m\",tenant_id=\"acme\"} 4",
                           "http_client_request_duration_seconds_count{provider=\"openai\",status_code=\"0\"} 1"})
    EXPECT_THAT(page, HasSubstr("\n" + std::string(line) + "\n"));
}

TEST(exporter, what_quotas_refuse_is_counted_and_what_they_allow_is_shown_while_there_are_keys) {
  system_clock_source clock;
  tenancy::quota_book quotas({}, clock);
  tenancy::client_key flat, shaped;
  flat.tenant = "acme";
  flat.hash.fill(1);
  flat.requests_per_minute = 96;
  flat.tokens_per_day = 5000;
  shaped.tenant = "beta";
  shaped.hash.fill(2);
  shaped.per_model_quota = true;
  shaped.models = {"m"};
  shaped.per_model = {{"m", 10, 700}};
  quotas.set_keys(tenancy::keyring::of({flat, shaped}));
  tenancy::day_charge charge;
  ASSERT_TRUE(quotas.days().take("acme", 5000, 40, 0, charge));
  exporter metrics("1.0");
  EXPECT_THAT(metrics.expose(), Not(AnyOf(HasSubstr("_quota_"), HasSubstr("_limited_total{"), HasSubstr("rejections_total{"))));
  exported subjects;
  subjects.quotas = &quotas;
  metrics.attach(subjects);

  gateway::request_record r;
  r.method = "POST";
  r.route = "/v1/chat/completions";
  r.inference = true;
  r.tenant = "acme";
  r.key_id = "k1";
  r.model = "whatever a client may write";
  r.status = 429;
  r.how = gateway::ended::rejected_admission;
  for (const auto &[by, tokens] : {std::pair("b4_rpm", ""), std::pair("b4_itpm", ""), std::pair("", "input"), std::pair("", "output"), std::pair("b2", ""),
                                   std::pair("b4_parallel", "")}) {
    metrics.on_started(r.method, r.route);
    r.refused_by = by;
    r.token_limited = tokens;
    metrics.on_finished(r);
  }
  const std::string page = metrics.expose();
  for (const char *line : {"tenant_rate_limited_total{key_id=\"k1\",tenant_id=\"acme\"} 1",
                           "tenant_token_limited_total{deployment_id=\"unset\",key_id=\"k1\",phase=\"input\",tenant_id=\"acme\"} 2",
                           "tenant_token_limited_total{deployment_id=\"unset\",key_id=\"k1\",phase=\"output\",tenant_id=\"acme\"} 1",
                           "tenant_requests_failed_total{deployment_id=\"unset\",key_id=\"k1\",model=\"__unknown__\",tenant_id=\"acme\"} 4",
                           "admission_rejections_total{model=\"__unknown__\",reason=\"b4_rpm\"} 1", "quota_backend_errors_total 0",
                           "tenant_quota_rpm_limit{tenant_id=\"acme\"} 96", "tenant_quota_rpm_limit{tenant_id=\"beta\"} 0",
                           "tenant_quota_tpd_limit{tenant_id=\"acme\"} 5000", "tenant_tokens_used_today{tenant_id=\"acme\"} 40",
                           "tenant_tokens_used_today{tenant_id=\"beta\"} 0", "tenant_per_model_quota_rpm_limit{tenant_id=\"beta\",model=\"m\"} 0",
                           "tenant_per_model_quota_tpd_limit{tenant_id=\"beta\",model=\"m\"} 700"})
    EXPECT_THAT(page, HasSubstr("\nhivenet_router_" + std::string(line) + "\n"));
  EXPECT_THAT(page, Not(HasSubstr("a client may write")));
  quotas.set_keys(tenancy::keyring::of({flat}));
  EXPECT_THAT(metrics.expose(), Not(HasSubstr("limit{tenant_id=\"beta\"")));
}

TEST(exporter, counts_a_model_that_comes_back_after_its_series_were_buried) {
  routing::testing::test_fleet fleet;
  const auto pool = fleet.make_pool("m");
  fleet.add(pool, "a", 4);
  const std::shared_ptr<fleet::agent> who = fleet.agents["a"];
  exporter metrics("1.0");
  const auto serve = [&](const char *model) {
    metrics.on_attempt({who, 1, "id", model, "acme", "key", false, {}, routing::standing_effect::success, 3, 5});
  };
  serve("m");
  serve("other");
  EXPECT_THAT(metrics.expose(), HasSubstr("model=\"m\",tenant_id=\"acme\"} 3\n"));
  metrics.forget_model("m");
  for (uint32_t i = 0; i < observe::metrics::burial_calls; ++i) metrics.sweep();
  EXPECT_THAT(metrics.expose(), Not(HasSubstr("model=\"m\"")));
  serve("m");
  serve("other");
  const std::string page = metrics.expose();
  EXPECT_THAT(page, HasSubstr("model=\"m\",tenant_id=\"acme\"} 3\n"));
  EXPECT_THAT(page, HasSubstr("model=\"other\",tenant_id=\"acme\"} 6\n"));
}

// Series that are found without a lock: with many statuses at once none is counted twice or lost, and a full list loses nothing.
TEST(exporter, requests_of_many_threads_are_each_counted_once) {
  exporter metrics("1.0");
  constexpr int threads = 4, rounds = 3, statuses = 600;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&metrics] {
      for (int i = 0; i < rounds * statuses; ++i) {
        gateway::request_record r;
        r.method = "POST";
        r.route = "/v1/chat/completions";
        r.status = 200 + i % statuses;
        metrics.on_started(r.method, r.route);
        metrics.on_finished(r);
      }
    });
  for (std::thread &t : all) t.join();
  const std::string page = metrics.expose();
  EXPECT_THAT(page, HasSubstr("http_server_active_requests{method=\"POST\",route=\"/v1/chat/completions\"} 0\n"));
  for (const int status : {200, 201, 711, 712, 799})
    EXPECT_THAT(page, HasSubstr("http_server_request_duration_seconds_count{method=\"POST\",route=\"/v1/chat/completions\",status_code=\"" +
                                std::to_string(status) + "\"} " + std::to_string(threads * rounds) + "\n"));
}

TEST(exporter, a_tenants_requests_are_timed_and_dated) {
  routing::testing::test_fleet fleet;
  exporter metrics("1.0");
  gateway::request_record r;
  r.method = "POST";
  r.route = "/v1/chat/completions";
  r.inference = true;
  r.tenant = "acme";
  r.key_id = "a18dd697b3cd";
  r.model = "m";
  r.model_known = true;
  r.agent = "a";
  r.status = 200;
  r.started_unix_ms = 1'796'000'000'999;
  r.first_byte_ns = 300 * ns_per_ms;
  r.duration_ns = 40 * ns_per_s;
  const auto finish = [&] {
    metrics.on_started(r.method, r.route);
    metrics.on_finished(r);
  };
  finish();
  const std::string labels = "deployment_id=\"unset\",key_id=\"a18dd697b3cd\",", who = labels + "tenant_id=\"acme\"";
  const std::string of_model = labels + "model=\"m\",tenant_id=\"acme\"";
  const std::string answers = "tenant_request_duration_seconds_count{" + of_model + "} 1\n";
  std::string page = metrics.expose();
  EXPECT_THAT(page, HasSubstr("tenant_last_request_timestamp{" + who + "} 1796000000\n"));
  EXPECT_THAT(page, HasSubstr(answers));
  EXPECT_THAT(page, HasSubstr("tenant_request_duration_seconds_bucket{" + of_model + ",le=\"0.25\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("tenant_request_duration_seconds_bucket{" + of_model + ",le=\"0.5\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("\nhivenet_router_request_duration_seconds_count{model=\"m\",peer_id=\"a\",status_code=\"200\",tenant_id=\"acme\"} 1\n"));
  // One that failed is dated and not timed; one that was not let in is neither.
  r.how = gateway::ended::engine_error;
  r.started_unix_ms += 5000;
  finish();
  r.how = gateway::ended::rejected_auth;
  r.started_unix_ms += 5000;
  finish();
  page = metrics.expose();
  EXPECT_THAT(page, HasSubstr("tenant_last_request_timestamp{" + who + "} 1796000005\n"));
  EXPECT_THAT(page, HasSubstr(answers));
}

}  // namespace
}  // namespace hive::admin
