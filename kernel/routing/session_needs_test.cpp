// What a request is asked for beyond its facts, and what strategies are told of its leases.
#include <gmock/gmock.h>

#include "routing/session_bed.hpp"

namespace hive::routing {
namespace {

using namespace testing;
using ::testing::ElementsAre;

struct counted_facts final : on_demand_facts {
  std::span<const uint64_t> prefix_blocks() override {
    ++asked_blocks;
    return blocks;
  }
  std::span<const hive_header> headers() override {
    ++asked_headers;
    return {&header, 1};
  }
  std::vector<uint64_t> blocks{11, 12, 13};
  hive_header header{str("x-user-id"), str("u")};
  int asked_blocks = 0, asked_headers = 0;
};

TEST_F(sessions, blocks_and_headers_are_made_for_a_component_that_needs_them) {
  start("{routing_policy: {strategy: least-loaded}, fallback_chain: [{strategy: curious}]}");
  fleet_.add(pool_, "a", 4);
  counted_facts more;
  request_facts f = facts();
  f.on_demand = &more;
  client c;
  open(c, f);
  EXPECT_EQ(more.asked_blocks, 1) << "a step further on needs them; they cannot be made under the pool's lock";
  EXPECT_EQ(more.asked_headers, 1);
  load("{routing_policy: {strategy: curious}}");
  client d;
  open(d, f);
  next(d);
  EXPECT_THAT(plan().blocks, ElementsAre(11, 12, 13));
  EXPECT_THAT(plan().headers, ElementsAre("x-user-id"));
  d.report(attempt_result::retryable);
  next(d);
  EXPECT_EQ(more.asked_blocks, 2) << "once a session, however often it chooses";
}

TEST_F(sessions, nothing_is_made_when_nobody_needs_it) {
  start("{routing_policy: {strategy: least-loaded}}");
  fleet_.add(pool_, "a", 4);
  counted_facts more;
  request_facts f = facts();
  f.on_demand = &more;
  client c;
  open(c, f);
  next(c);
  EXPECT_EQ(c.agents.size(), 1u);
  EXPECT_EQ(more.asked_blocks + more.asked_headers, 0);
  f.model = "nobody";
  client d;
  open(d, f);
  EXPECT_EQ(more.asked_blocks + more.asked_headers, 0);
}

TEST_F(sessions, an_outcome_tells_what_the_engine_counted_and_when_the_lease_was_made) {
  start("{routing_policy: {strategy: least-loaded}}");
  fleet_.add(pool_, "a", 4);
  client c;
  open(c, facts());
  const uint64_t before = now_ns();
  next(c);
  c.flow->first_content();
  attempt_report r;
  r.prompt_tokens = 900;
  r.output_tokens = 7;
  r.cached_tokens = 512;
  c.flow->report(r);
  ASSERT_EQ(plan().outcomes.size(), 2u);
  EXPECT_EQ(plan().outcomes[0].phase, HIVE_PHASE_FIRST_TOKEN);
  EXPECT_EQ(plan().outcomes[1].prompt_tokens, 900u);
  EXPECT_EQ(plan().outcomes[1].cached_tokens, 512u);
  EXPECT_LE(plan().outcomes[1].since_lease_ns, now_ns() - before);
  client d;
  open(d, facts());
  next(d);
  c.slot.reset();
  d.report(attempt_result::completed);
  EXPECT_EQ(plan().outcomes.back().cached_tokens, HIVE_TOKENS_UNKNOWN) << "not told is not nothing";
}

}  // namespace
}  // namespace hive::routing
