#include "apps/keygen.hpp"

#include <gtest/gtest.h>

#include <string_view>
#include <tuple>

#include "tenancy/auth_file.hpp"
#include "tenancy/keyring.hpp"

namespace hive::apps {
namespace {

TEST(keygen, a_date_is_that_day_in_utc_or_its_anniversary) {
  const std::tuple<time_t, int, const char *> cases[] = {
      {1'798'761'599, 0, "31-12-2026"}, {1'798'761'599, 1, "31-12-2027"},  // 2026-12-31T23:59:59Z
      {1'798'761'600, 0, "01-01-2027"}, {1'835'395'200, 0, "29-02-2028"},  // midnight
      {1'835'395'200, 1, "01-03-2029"}, {1'835'395'200, 4, "29-02-2032"},
  };
  for (const auto &[at, years, date] : cases) EXPECT_EQ(date_of_key(at, years), date) << at;
}

TEST(keygen, the_expiry_it_suggests_is_a_year_away_and_one_that_the_file_may_have) {
  const time_t now = time(nullptr);
  testing::internal::CaptureStdout();
  const int code = keygen_command({});
  std::string printed = testing::internal::GetCapturedStdout();
  ASSERT_EQ(code, 0);
  printed.erase(0, printed.find("    - key_hash:"));
  const size_t suggested = printed.find("# expires_at:");
  ASSERT_NE(suggested, std::string::npos) << printed;
  printed.erase(suggested, std::string_view("# ").size());
  const auto d = tenancy::parse_auth("api:\n  mode: api-key\n  keys:\n" + printed, "auth.yaml", {true, static_cast<uint64_t>(now) * 1000});
  ASSERT_NE(d.keys, nullptr) << (d.problems.empty() ? printed : d.problems[0].text());
  EXPECT_TRUE(d.warnings.empty()) << d.warnings[0];
  ASSERT_EQ(d.keys->keys().size(), 1u);
  const int64_t days = (static_cast<int64_t>(d.keys->keys().begin()->expires_unix_ms) / 1000 - now) / 86'400;
  EXPECT_GE(days, 365);  // through that whole day
  EXPECT_LE(days, 367);
}

}  // namespace
}  // namespace hive::apps
