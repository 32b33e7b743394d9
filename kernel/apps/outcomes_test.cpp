// What attempts tell of their agents, from a client's socket to the routing table.
#include <gmock/gmock.h>

#include <boost/json/object.hpp>
#include <string>

#include "admin/exporter.hpp"
#include "admin/fleet_json.hpp"
#include "apps/fleet_wiring.hpp"
#include "gateway/edge_bed.hpp"

namespace hive::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Naive variant: a sample waits for its stream to end, and an agent whose answers are long stays unknown meanwhile.
TEST(outcomes, a_streams_latency_is_known_while_it_still_runs) {
  manual_clock clock;
  fleet::hubs no_links;
  fleet::registry registry({}, clock, no_links, nullptr, nullptr, nullptr);
  admin::exporter metrics("1.0");
  outcomes told(registry, metrics);
  gateway::testing::edge_bed bed(&told);
  bed.behind.holds_open = true;
  const auto universal = [&] { return admin::routing_table_row(registry, *bed.agent).at("universal").as_object(); };
  EXPECT_EQ(universal().at("latency_state").as_string(), "UNKNOWN");

  const std::string body = R"({"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]})";
  const int fd = bed.send(std::string("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ") + gateway::testing::client_secret +
                          "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  const std::string answer = bed.received(fd);
  EXPECT_THAT(answer, HasSubstr(R"("content":"x")"));
  EXPECT_THAT(answer, Not(HasSubstr("[DONE]")));
  ASSERT_EQ(bed.stages.streaming.load(), 1) << "it goes on";
  const auto meanwhile = universal();
  EXPECT_EQ(meanwhile.at("latency_state").as_string(), "KNOWN");
  EXPECT_GT(meanwhile.at("srtt_ms").as_double(), 0);
  EXPECT_GT(meanwhile.at("rttvar_ms").as_double(), 0);
  EXPECT_EQ(meanwhile.at("successful_requests_total").as_uint64(), 0u) << "of its end nothing is known";
  {
    const auto pool = bed.router.look_up("m").way->where->pool;
    const std::lock_guard lock(pool->mutex());
    EXPECT_EQ(pool->value(bed.fleet.kernel.srtt_ms, 0), meanwhile.at("srtt_ms").as_double()) << "and the next request is routed by it";
  }
  bed.leave(fd);
  EXPECT_EQ(universal().at("srtt_ms"), meanwhile.at("srtt_ms")) << "a stream is one sample";
}

}  // namespace
}  // namespace hive::apps
