#include "gateway/request_material.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hive::gateway {
namespace {

TEST(request_material, shows_headers_in_lower_case_and_no_secret) {
  const std::vector<http::field> fields = {
      {"Authorization", "Bearer k"}, {"X-Api-Key", "k"},      {"api-key", "k"},        {"X-Goog-Api-Key", "k"}, {"Cookie", "c"},
      {"X-Auth-User", "u"},          {"X-Csrf-Token", "t"},   {"Connection", "x-hop"}, {"X-Hop", "h"},          {"X-User-Id", "u-7"},
      {"Proxy-Authorization", "p"},  {"X-Forwarded-For", "a"}, {"X-Session-ID", "s-1"}, {"User-Agent", "curl"}, {"X-Client-Secret", "s"}};
  request_scan scan;
  request_material material("", scan, fields);
  std::vector<std::string> shown;
  for (const hive_header &h : material.headers())
    shown.push_back(std::string(h.name.ptr, h.name.len) + "=" + std::string(h.value.ptr, h.value.len));
  EXPECT_THAT(shown, testing::ElementsAre("x-user-id=u-7", "x-session-id=s-1", "user-agent=curl"));
}

TEST(request_material, takes_the_session_from_its_header_unless_it_is_long) {
  EXPECT_EQ(session_of({}), "");
  const std::vector<http::field> one = {{"x-SESSION-id", "abc"}};
  EXPECT_EQ(session_of(one), "abc");
  const std::string text(257, 's');
  const std::vector<http::field> many = {{"X-Session-ID", text}};
  EXPECT_EQ(session_of(many), "");
}

}  // namespace
}  // namespace hive::gateway
