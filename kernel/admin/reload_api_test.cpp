#include "admin/reload_api.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace hive::admin {
namespace {

namespace json = boost::json;

TEST(reload_api, a_reload_that_is_taken_whole_is_200) {
  const auto answer = answer_of(reload_report{{"keys", {}}, {"policies", {}}});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(json::parse(answer.body), json::parse(R"({"status":"reloaded","parts":{"keys":"ok","policies":"ok"}})"));
}

// Naive variant: whatever came of the parts, the reload was done.
TEST(reload_api, a_part_that_stays_as_it_was_is_422_and_says_why) {
  const auto answer = answer_of(
      reload_report{{"certificates", fail(errc::invalid, "has expired", "cert.pem")}, {"keys", {}}, {"policies", fail(errc::invalid, "no \"map\"")}});
  EXPECT_EQ(answer.status, 422);
  const json::value body = json::parse(answer.body);
  EXPECT_EQ(body.at("parts").at("keys"), "ok");
  EXPECT_EQ(body.at("parts").at("policies"), "no \"map\"");
  EXPECT_EQ(body.at("error"), "certificates: cert.pem: has expired; policies: no \"map\"");
}

}  // namespace
}  // namespace hive::admin
