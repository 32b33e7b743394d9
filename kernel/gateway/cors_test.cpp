#include "gateway/cors.hpp"

#include <gmock/gmock.h>

namespace hive::gateway {
namespace {

using testing::HasSubstr;
using testing::Not;

struct request {
  request(std::string_view method, std::string_view path, std::vector<http::field> fields) : all(std::move(fields)) {
    head.method = method;
    head.path = path;
    head.fields = all;
  }
  std::vector<http::field> all;
  http::request_head head;
};

const request page_asks("POST", "/v1/chat/completions", {{"Origin", "https://app.example"}});

TEST(cors, without_a_list_there_is_no_such_header) {
  const cors off({});
  EXPECT_EQ(off.lines_for(page_asks.head), "");
  const request preflight("OPTIONS", "/v1/models", {{"Origin", "https://app.example"}, {"Access-Control-Request-Method", "GET"}});
  EXPECT_FALSE(off.is_preflight(preflight.head));
}

TEST(cors, a_listed_origin_is_named_and_no_other) {
  const cors on({"https://app.example", "http://localhost:3000"});
  const std::string lines = on.lines_for(page_asks.head);
  EXPECT_THAT(lines, HasSubstr("Access-Control-Allow-Origin: https://app.example\r\n"));
  EXPECT_THAT(lines, HasSubstr("Vary: Origin\r\n"));
  EXPECT_THAT(lines, HasSubstr("Retry-After"));
  for (const char *other : {"https://app.example.evil", "https://App.example", "http://app.example", "null", "https://app.example:8443"}) {
    const request q("POST", "/v1/chat/completions", {{"Origin", other}});
    EXPECT_EQ(on.lines_for(q.head), "Vary: Origin\r\n") << other;
  }
  EXPECT_EQ(on.lines_for(request("GET", "/v1/models", {}).head), "Vary: Origin\r\n");
}

TEST(cors, a_star_names_nobody_and_allows_all) {
  const cors any({"*"});
  EXPECT_THAT(any.lines_for(page_asks.head), HasSubstr("Access-Control-Allow-Origin: *\r\n"));
  EXPECT_THAT(any.lines_for(page_asks.head), Not(HasSubstr("app.example")));
}

TEST(cors, the_admin_api_is_never_opened) {
  const cors any({"*"});
  const request q("OPTIONS", "/admin/keys", {{"Origin", "https://app.example"}, {"Access-Control-Request-Method", "POST"}});
  EXPECT_EQ(any.lines_for(q.head), "");
  EXPECT_FALSE(any.is_preflight(q.head));
}

TEST(cors, what_a_page_asks_for_is_allowed_if_it_is_a_list_of_names) {
  const cors on({"https://app.example"});
  const auto allowed = [&](std::string_view asked) {
    const request q("OPTIONS", "/v1/messages",
                    {{"Origin", "https://app.example"}, {"Access-Control-Request-Method", "POST"}, {"Access-Control-Request-Headers", asked}});
    EXPECT_TRUE(on.is_preflight(q.head));
    for (const http::field &f : on.permissions(q.head))
      if (f.name == "Access-Control-Allow-Headers") return std::string(f.value);
    return std::string();
  };
  EXPECT_EQ(allowed("authorization,content-type,x-stainless-os,anthropic-version"), "authorization,content-type,x-stainless-os,anthropic-version");
  EXPECT_THAT(allowed("a\x01b"), HasSubstr("Authorization"));
  EXPECT_THAT(allowed(std::string(5000, 'a')), HasSubstr("Authorization"));
}

}  // namespace
}  // namespace hive::gateway
