#include "admin/audit_trail.hpp"

#include <gmock/gmock.h>

namespace hive::admin {
namespace {

using ::testing::HasSubstr;

gateway::request_record chat() {
  gateway::request_record r;
  r.request_id = "0b5f6c1e-0000-4000-8000-000000000001";
  r.method = "POST";
  r.route = "/v1/chat/completions";
  r.inference = true;
  r.client = "192.0.2.7";
  r.tenant = "acme";
  r.key_id = "a18dd697b3cd";
  r.model = "meta/llama";
  r.agent = "12D3KooWagent";
  r.status = 200;
  r.started_unix_ms = 1'796'000'000'123;
  r.duration_ns = 1'234'567'890;
  r.usage = {11, 22, 0, true};
  r.step = "routing_policy";
  r.attempts = 2;
  r.queue_ns = 40'000'000;
  r.streaming = true;
  r.estimated_prompt_tokens = 14;
  r.declared_output_tokens = 64;
  return r;
}

std::string line_of(const gateway::request_record &r) {
  std::string out;
  observe::append_audit_line(out, audit_entry_of(r), *observe::zone::named("Europe/Rome"));
  return out;
}

TEST(audit_trail, a_record_becomes_a_line_with_every_field_in_its_order) {
  EXPECT_EQ(line_of(chat()),
            R"({"log_type":"audit","level":"info","trace_id":"","request_id":"0b5f6c1e-0000-4000-8000-000000000001","tenant_id":"acme",)"
            R"("key_id":"a18dd697b3cd","model":"meta/llama","status_code":200,"latency_ms":1234,"input_tokens":11,"output_tokens":22,)"
            R"("agent_id":"12D3KooWagent","error_code":"","source_ip":"192.0.2.7","ts":"2026-11-30T01:53:20.123+01:00",)"
            R"("ended":"completed","estimated":false,"method":"POST","route":"/v1/chat/completions","step":"routing_policy","attempts":2,)"
            R"("queue_ms":40,"stream":true,"input_estimate":14,"output_limit":64,"alias":"","denied":""})"
            "\n");
}

TEST(audit_trail, who_left_is_499_and_a_deadline_names_the_agent_in_flight) {
  gateway::request_record r = chat();
  r.status = 499;
  r.how = gateway::ended::client_gone;
  r.error_code = "client_gone";
  EXPECT_THAT(line_of(r), HasSubstr(R"("status_code":499)"));
  EXPECT_THAT(line_of(r), HasSubstr(R"("ended":"client_gone")"));
  r.status = 504;
  r.how = gateway::ended::deadline;
  r.error_code = "request_timeout";
  EXPECT_THAT(line_of(r), HasSubstr(R"("agent_id":"12D3KooWagent","error_code":"request_timeout")"));
  EXPECT_THAT(line_of(r), HasSubstr(R"("level":"error")"));
}

TEST(audit_trail, who_was_not_let_in_has_the_reason) {
  gateway::request_record r = chat();
  r.status = 401;
  r.how = gateway::ended::rejected_auth;
  r.denied = tenancy::denial::disabled_key;
  EXPECT_THAT(line_of(r), HasSubstr(R"("denied":"disabled_key"})"));
}

TEST(audit_trail, health_checks_and_preflights_are_not_audited) {
  gateway::request_record r = chat();
  EXPECT_TRUE(audited(r));
  r.route = "/health";
  EXPECT_FALSE(audited(r));
  r.route = "/health/ready";
  EXPECT_FALSE(audited(r));
  for (const int refused : {503, 405, 499}) {
    r.status = refused;
    EXPECT_TRUE(audited(r)) << refused;
  }
  r.status = 200;
  r.route = "/v1/models";
  r.method = "OPTIONS";
  EXPECT_FALSE(audited(r));
  for (const char *route : {"unmatched", "/admin/health", "/v1/models"}) {
    r.method = "GET";
    r.route = route;
    EXPECT_TRUE(audited(r)) << route;
  }
}

}  // namespace
}  // namespace hive::admin
