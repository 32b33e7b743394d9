#include "tenancy/instant.hpp"

#include <gtest/gtest.h>

#include <string>

namespace hive::tenancy {
namespace {

TEST(instant, every_form_of_rfc_3339_is_read) {
  const std::pair<const char *, uint64_t> cases[] = {
      {"1970-01-01T00:00:00Z", 0},
      {"2027-01-02T00:00:00Z", 1'798'848'000'000},
      {"2027-01-02t00:00:00z", 1'798'848'000'000},
      {"2027-01-02 00:00:00Z", 1'798'848'000'000},
      {"2027-01-02T00:00:00.5Z", 1'798'848'000'500},
      {"2027-01-02T00:00:00.0019999Z", 1'798'848'000'001},
      {"2027-01-02T02:00:00+02:00", 1'798'848'000'000},
      {"2027-01-01T18:30:00-05:30", 1'798'848'000'000},
      {"2028-02-29T00:00:00Z", 1'835'395'200'000}};
  for (const auto &[text, want] : cases) {
    const auto got = parse_instant(text);
    ASSERT_TRUE(got.ok()) << text << got.why().text();
    EXPECT_EQ(*got, want) << text;
  }
}

TEST(instant, what_is_none_is_refused_with_the_right_form) {
  for (const char *text : {"", "2027-01-02", "2027-01-02T00:00:00", "2027-02-29T00:00:00Z", "2027-13-01T00:00:00Z", "2027-01-02T24:00:00Z",
                           "2027-01-02T00:60:00Z", "2027-01-02T00:00:60Z", "2027-01-02T00:00:00.Z", "2027-01-02T00:00:00Zx", "2027-01-02T00:00:00+0200",
                           "2027-01-02T00:00:00+24:00", "02-01-2027", "1969-12-31T23:59:59Z", "+027-01-02T00:00:00Z", "1798848000"})
    EXPECT_FALSE(parse_instant(text).ok()) << text;
  EXPECT_EQ(parse_instant("soon").why().text(), "\"soon\" is no instant; write it as 2027-01-31T12:00:00Z");
}

}  // namespace
}  // namespace hive::tenancy
