#include "admin/explain_json.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <limits>
#include <string>

namespace hive::admin {
namespace {

namespace json = boost::json;

// Naive variant: `nan`, or 1e99999, which half of all readers refuse.
TEST(explained_as_json, what_is_no_number_is_null) {
  constexpr double inf = std::numeric_limits<double>::infinity(), tiny = std::numeric_limits<double>::denorm_min();
  const double odd[] = {NAN, inf, -inf, tiny, 0.25};
  routing::step_fate step;
  for (const double v : odd) {
    routing::agent_fate a;
    a.score = v;
    routing::rule_fate r;
    r.field = r.column = "heat";
    r.now.value = v;
    r.now.missing = std::isnan(v);
    a.rules.push_back(r);
    step.agents.push_back(std::move(a));
  }
  step.agents.emplace_back();  // its strategy tells no score
  routing::explanation e;
  e.known = true;
  e.steps.push_back(std::move(step));
  const json::value read = json::parse(json::serialize(to_json(e)));
  const json::array &agents = read.at("steps").at(0).at("agents").as_array();
  ASSERT_EQ(agents.size(), 6u);
  for (size_t i = 0; i < 5; ++i) {
    const bool number = std::isfinite(odd[i]);
    for (const json::value &shown : {agents[i].at("score"), agents[i].at("rules").at(0).at("value")})
      EXPECT_TRUE(number ? shown.is_double() : shown.is_null()) << odd[i] << " is " << json::serialize(shown);
  }
  EXPECT_EQ(agents[4].at("score").as_double(), 0.25);
  EXPECT_FALSE(agents[5].as_object().contains("score"));
}

}  // namespace
}  // namespace hive::admin
