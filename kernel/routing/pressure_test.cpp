// What a rule of shed_if is compiled to; what it decides is tested with the admission that asks it.
#include "routing/pressure.hpp"

#include <gmock/gmock.h>

#include "routing/session_bed.hpp"

namespace hive::routing {
namespace {

using ::testing::HasSubstr;
using testing::test_source;

TEST(pressure, a_document_without_rules_costs_nothing) {
  const test_source source;
  fleet::column_table columns;
  const auto p = pressure::compile(*default_policy(), source, columns);
  ASSERT_TRUE(p);
  EXPECT_EQ(*p, nullptr);
}

TEST(pressure, a_field_that_is_gone_since_the_document_was_read_is_told) {
  const test_source with, without({"srtt"});
  const auto d = parse_policy("shed_if: {waiting_requests: {gte: 20}}\nrouting_policy: {strategy: least-loaded}", with);
  ASSERT_TRUE(d) << d.why().text();
  fleet::column_table columns;
  EXPECT_TRUE(pressure::compile(*d->document, with, columns));
  const auto p = pressure::compile(*d->document, without, columns);
  ASSERT_FALSE(p);
  EXPECT_THAT(p.why().text(), HasSubstr("waiting_requests"));
}

TEST(pressure, every_operator_compares_the_mean) {
  const test_source source;
  const struct { const char *rule; double mean; bool violated; } cases[] = {
      {"gt: 20", 20, false}, {"gt: 20", 20.5, true}, {"gte: 20", 20, true}, {"gte: 20", 19, false},
      {"lt: 1", 0, true},    {"lt: 1", 1, false},    {"lte: 1", 1, true},   {"lte: 1", 2, false}};
  for (const auto &c : cases) {
    testing::test_fleet fleet;
    const auto pool = fleet.make_pool("m");
    fleet.add(pool, "a", 1);
    fleet.add(pool, "b", 1);
    fleet.signal(*pool, "a", "waiting_requests", c.mean - 1);
    fleet.signal(*pool, "b", "waiting_requests", c.mean + 1);
    const auto d = parse_policy(std::string("shed_if: {waiting_requests: {") + c.rule + "}}\nrouting_policy: {strategy: least-loaded}", source);
    ASSERT_TRUE(d) << d.why().text();
    const auto p = pressure::compile(*d->document, source, fleet.columns);
    ASSERT_TRUE(p);
    EXPECT_EQ(!(*p)->violated(*pool, 1).empty(), c.violated) << c.rule << " at " << c.mean;
  }
}

}  // namespace
}  // namespace hive::routing
