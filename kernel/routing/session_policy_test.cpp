// Sessions, instances and documents over a reload.
#include "routing/session.hpp"

#include <gmock/gmock.h>

#include "routing/session_bed.hpp"

namespace hive::routing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::client;
using testing::plain;
using testing::plan;
using testing::sessions;

TEST_F(sessions, instances_hear_of_every_lease_exactly_once) {
  start(plain);
  fleet::agent &a = fleet_.add(pool_, "a", 10);
  {
    client c;
    open(c, facts());
    next(c);
    c.flow->first_content();
    c.flow->first_content();
    c.report(attempt_result::completed);
    client left;
    open(left, facts());
    next(left);  // and is destroyed without a report
  }
  EXPECT_THAT(plan().chosen, ElementsAre(0u, 0u));
  ASSERT_EQ(plan().outcomes.size(), 3u);
  EXPECT_EQ(plan().outcomes[0].phase, static_cast<uint32_t>(HIVE_PHASE_FIRST_TOKEN));
  EXPECT_EQ(plan().outcomes[1].phase, static_cast<uint32_t>(HIVE_PHASE_END));
  EXPECT_EQ(plan().outcomes[1].status, HIVE_OK);
  EXPECT_EQ(plan().outcomes[2].status, HIVE_GONE);
  EXPECT_EQ(plan().outcomes[2].agent_key, a.key());
  EXPECT_EQ(a.slots.load().first, 0u);
  EXPECT_EQ(recorder_.attempts.back().effect, standing_effect::neutral);

  client c;
  open(c, facts());
  next(c);
  pool_->leave(a);
  c.report(attempt_result::link_lost);
  EXPECT_EQ(plan().outcomes.back().index, UINT32_MAX);
}

TEST_F(sessions, instances_survive_a_reload_and_sessions_keep_their_policy) {
  start(plain);
  fleet_.add(pool_, "a", 2);
  EXPECT_EQ(plan().created, 1);
  load("routing_policy: {strategy: least-loaded, max_tries: 7, exclude_if: {srtt: {gt: 1000}}}");
  EXPECT_EQ(plan().created, 1) << "same strategy, options, step and pool";
  client before;
  open(before, facts());
  next(before);
  load("routing_policy: {strategy: liar}");
  EXPECT_EQ(plan().created, 2);
  EXPECT_EQ(plan().alive, 2) << "a session still runs on the old one";
  before.flow->first_content();
  EXPECT_EQ(plan().outcomes.size(), 1u);
  before.report(attempt_result::completed);
  before.flow.reset();
  router_->sweep();
  EXPECT_EQ(plan().alive, 1);
}

TEST_F(sessions, a_removed_pool_is_unknown_and_its_instances_go) {
  start(plain);
  fleet_.add(pool_, "a", 2);
  EXPECT_EQ(router_->add_pool(pool_).code(), errc::conflict);
  router_->remove_pool("qwen");
  router_->sweep();
  EXPECT_EQ(plan().alive, 0);
  client c;
  open(c, facts());
  next(c);
  ASSERT_TRUE(c.end);
  EXPECT_EQ(c.end->code, "model_not_found");
}

TEST_F(sessions, wrong_answers_of_a_component_are_warned_of_once) {
  start("routing_policy: {strategy: liar}");
  fleet_.add(pool_, "a", 2);
  client c;
  open(c, facts());
  next(c);
  router_->sweep();
  router_->sweep();
  ASSERT_EQ(recorder_.lines.size(), 1u);
  EXPECT_THAT(recorder_.lines[0], HasSubstr("liar"));
}

TEST_F(sessions, a_reload_with_an_error_changes_nothing) {
  start(plain);
  fleet_.add(pool_, "a", 1);
  const auto d = parse_policy("routing_policy: {strategy: liar}", source_);
  plan().create_fails = true;
  const status s = router_->set_policies(d->document);
  EXPECT_THAT(s.text(), HasSubstr("the component said no"));
  EXPECT_EQ(router_->policies()->global()->steps[0].strategy.name, "least-loaded");
  client c;
  open(c, facts());
  next(c);
  EXPECT_THAT(c.agents, ElementsAre("a"));
}

TEST_F(sessions, a_named_document_governs_its_models_alone) {
  start("routing_policy: {strategy: least-loaded}");
  fleet_.add(pool_, "a", 1);
  const auto named = parse_policy("models: [qwen]\nrouting_policy: {strategy: least-loaded, match: {region: x}}", source_,
                                  {"q.yaml", "q", false, true});
  ASSERT_TRUE(named) << named.why().text();
  ASSERT_TRUE(router_->set_policies(router_->policies()->global(), {{"q", named->document}}).ok());
  client c;
  open(c, facts());
  next(c);
  EXPECT_TRUE(c.end);
  ASSERT_TRUE(router_->set_policies(router_->policies()->global()).ok());
  client d;
  open(d, facts());
  next(d);
  EXPECT_THAT(d.agents, ElementsAre("a"));
}

// A SIGHUP must not let in whom a rule keeps out; a new rule knows nothing of the old one's.
TEST_F(sessions, who_a_rule_keeps_out_stays_out_over_a_reload_that_leaves_the_rule_as_it_was) {
  const std::string rule = "exclude_if: {kv_cache_utilization: {gt: 0.9, leave: 0.8}}";
  const auto agents = [&] {
    client c;
    open(c, facts());
    next(c);
    const auto got = c.agents;
    if (c.slot) c.report(attempt_result::completed);
    return got;
  };
  start("routing_policy: {strategy: least-loaded, " + rule + "}");
  fleet_.add(pool_, "a", 1);
  fleet_.signal(*pool_, "a", "kv_cache_utilization", 0.95);
  EXPECT_THAT(agents(), ElementsAre());
  fleet_.signal(*pool_, "a", "kv_cache_utilization", 0.85);
  load("routing_policy: {strategy: least-loaded, max_tries: 7, " + rule + "}");
  EXPECT_THAT(agents(), ElementsAre());
  load("routing_policy: {strategy: least-loaded, exclude_if: {kv_cache_utilization: {gt: 0.9, leave: 0.7}}}");
  EXPECT_THAT(agents(), ElementsAre("a"));
}

}  // namespace
}  // namespace hive::routing
