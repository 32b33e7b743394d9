#include "admin/key_api.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gmock/gmock.h>

#include "base/digest.hpp"
#include "base/text.hpp"
#include "tenancy/policy_quota.hpp"

namespace hive::admin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace json = boost::json;

std::string fields(const std::string &key, const std::string &more = {}) {
  return more + "\"key_hash\":\"" + sha256_hex(key) + "\",\"owner\":\"acme\",\"name\":\"n\",\"enabled\":true";
}

struct keys_of_the_admin_api : ::testing::Test {
  void SetUp() override { open(false); }
  void open(bool strict) {
    registry = std::make_unique<tenancy::key_registry>(tenancy::key_registry::surroundings{
        .fits = [this](const tenancy::keyring &ring) { return tenancy::check_minute_quotas(policies, ring); },
        .publish = [](std::shared_ptr<const tenancy::keyring>, std::function<void()> everywhere) { everywhere(); }});
    api = std::make_unique<key_api>(registry.get(), strict);
  }
  // "STATUS BODY".
  template <class F>
  std::string answer(F &&ask) {
    std::string out = "no answer";
    ask([&](gateway::admin_answer a) { out = std::to_string(a.status) + " " + a.body; });
    return out;
  }
  std::string one(const std::string &method, const std::string &id, const std::string &body = {}, const std::string &query = {}) {
    gateway::admin_request r;
    r.method = method;
    r.body = body;
    r.query = query;
    return answer([&](const auto &reply) { api->one(r, id, reply); });
  }
  std::string replace(const std::string &body) {
    gateway::admin_request r;
    r.method = "POST";
    r.body = body;
    return answer([&](const auto &reply) { api->replace(r, reply); });
  }
  std::string list() { return answer([&](const auto &reply) { api->list(reply); }); }
  std::string version() { return answer([&](const auto &reply) { api->version(reply); }); }
  void rule(const char *mode, int64_t most) {
    auto d = std::make_shared<routing::policy_document>();
    d->mode = mode;
    d->max_input_tokens = most;
    policies.global.document = d;
  }

  routing::policy_set policies;
  std::unique_ptr<tenancy::key_registry> registry;
  std::unique_ptr<key_api> api;
};

TEST_F(keys_of_the_admin_api, are_not_there_without_the_mode) {
  key_api none(nullptr, false);
  gateway::admin_request put;
  put.method = "PUT";
  const std::string words = "501 {\"error\":\"dynamic key registry not active\"}";
  EXPECT_EQ(answer([&](const auto &reply) { none.list(reply); }), words);
  EXPECT_EQ(answer([&](const auto &reply) { none.version(reply); }), words);
  EXPECT_EQ(answer([&](const auto &reply) { none.replace(put, reply); }), words);
  EXPECT_EQ(answer([&](const auto &reply) { none.one(put, "a", reply); }), words);
}

TEST_F(keys_of_the_admin_api, are_written_listed_by_id_and_shown_without_a_hash) {
  EXPECT_EQ(version(), "200 {\"version\":\"\",\"count\":0}");
  EXPECT_EQ(list(), "200 {\"keys\":[],\"count\":0}");
  EXPECT_EQ(one("PUT", "b", "{\"version\":\"1\"," + fields("k", "\"max_occupancy_share\":0.4,\"id\":\"ignored\",") + "}"), "200 {\"ok\":true}");
  EXPECT_EQ(one("PUT", " a ", "{\"version\":\"2\"," + fields("l") + ",\"enabled\":false}"), "200 {\"ok\":true}");
  const std::string shown = one("GET", "b");
  EXPECT_THAT(shown, HasSubstr("200 {\"key\":{\"id\":\"b\",\"key_hash\":\"\""));
  EXPECT_EQ(json::parse(shown.substr(4)).at("key").at("max_occupancy_share").as_double(), 0.4);
  EXPECT_THAT(shown, Not(HasSubstr("expires_at")));
  const json::value all = json::parse(list().substr(4));
  EXPECT_EQ(all.at("count").as_int64(), 2) << "the disabled one too";
  EXPECT_EQ(all.at("keys").at(0).at("id").as_string(), "a");
  EXPECT_THAT(list() + shown, Not(HasSubstr(sha256_hex("k").substr(0, 8))));
  EXPECT_EQ(version(), "200 {\"version\":\"2\",\"count\":2}");
  EXPECT_EQ(one("DELETE", "b", {}, "x=1&version=2026-11-30T00%3A00%3A00%2B01%3A00"), "200 {\"ok\":true}");
  EXPECT_EQ(version(), "200 {\"version\":\"2026-11-30T00:00:00+01:00\",\"count\":1}");
  EXPECT_EQ(one("GET", "b"), "404 {\"error\":\"key not found: b\"}");
}

TEST_F(keys_of_the_admin_api, a_stale_version_is_told_with_the_one_that_holds_on_all_three) {
  ASSERT_EQ(replace("{\"version\":\"5\",\"keys\":[]}"), "200 {\"ok\":true,\"count\":0}");
  const std::string stale = "409 {\"error\":\"stale version\",\"current_version\":\"5\"}";
  EXPECT_EQ(one("PUT", "a", "{\"version\":\"4\"," + fields("k") + "}"), stale);
  EXPECT_EQ(one("DELETE", "a", {}, "version=4"), stale);
  EXPECT_EQ(replace("{\"version\":\"4\",\"keys\":[]}"), stale);
}

TEST_F(keys_of_the_admin_api, what_is_wrong_is_400_and_stores_nothing) {
  const std::pair<std::string, const char *> puts[] = {
      {"", "the body is no JSON"}, {"[]", "must be a JSON object"}, {"{\"version\":\"1\"", "the body is no JSON"},
      {"{" + fields("k") + "}", "version is required, as text"}, {"{\"version\":1," + fields("k") + "}", "version is required, as text"},
      {"{\"version\":\"\"," + fields("k") + "}", "version is required and may not be empty"}, {"{\"version\":\"1\"}", "key_hash is required"},
      {"{\"version\":\"1\"," + fields("k", "\"max_occupancy_share\":1.5,") + "}", "max_occupancy_share"},
      {"{\"version\":\"1\"," + fields("k", "\"quota\":{\"output_tokens_per_minute\":-1},") + "}", "quota.output_tokens_per_minute"},
      {std::string(40, '[') + std::string(40, ']'), "the body is no JSON"}};
  for (const auto &[body, words] : puts) {
    EXPECT_THAT(one("PUT", "a", body), HasSubstr("400 {\"error\":\"")) << body;
    EXPECT_THAT(one("PUT", "a", body), HasSubstr(words)) << body;
  }
  for (const char *id : {"", " ", " version ", "replace"})
    for (const char *method : {"GET", "PUT", "DELETE"})
      EXPECT_THAT(one(method, id, "{\"version\":\"1\"," + fields("k") + "}", "version=1"), HasSubstr("400 ")) << id;
  EXPECT_THAT(one("DELETE", "a"), HasSubstr("400 {\"error\":\"version is required"));
  EXPECT_EQ(version(), "200 {\"version\":\"\",\"count\":0}");
}

TEST_F(keys_of_the_admin_api, a_key_is_never_taken_for_an_id) {
  const std::string secret = "a-secret-of-a-client";
  EXPECT_THAT(one("PUT", secret, "{\"version\":\"1\"," + fields(secret) + "}"),
              AllOf(HasSubstr("400 "), HasSubstr("the id is the key itself"), Not(HasSubstr(secret))));
  ASSERT_EQ(one("PUT", "a", "{\"version\":\"1\"," + fields(secret) + "}"), "200 {\"ok\":true}");
  for (const std::string &id : {secret, " " + secret, std::string("sk-hivenet-secret")})
    for (const char *method : {"GET", "PUT", "DELETE"})
      EXPECT_THAT(one(method, id, "{\"version\":\"2\"," + fields("k") + "}", "version=2"), AllOf(HasSubstr("400 "), Not(HasSubstr("secret")))) << method << id;
  EXPECT_EQ(version(), "200 {\"version\":\"1\",\"count\":1}");
}

TEST_F(keys_of_the_admin_api, are_replaced_whole_or_not_at_all) {
  const auto keys = [](const std::string &second) { return "{\"version\":\"1\",\"keys\":[{\"id\":\"a\"," + fields("k") + "},{" + second + "}]}"; };
  for (const std::string &second : {"\"id\":\"b\"," + fields("l", "\"priority\":5000,"), "\"id\":\"a\"," + fields("l"), "\"id\":\"b\"," + fields("k"),
                                    fields("l"), "\"id\":\"version\"," + fields("l"), std::string()})
    EXPECT_THAT(replace(keys(second)), HasSubstr("400 {\"error\":\"")) << second;
  EXPECT_THAT(replace(keys("\"id\":\"b\"," + fields("l", "\"priority\":5000,"))), HasSubstr("key[1].priority"));
  EXPECT_THAT(replace("{\"version\":\"1\"}"), HasSubstr("keys is required"));
  EXPECT_EQ(version(), "200 {\"version\":\"\",\"count\":0}");
  EXPECT_EQ(replace(keys("\"id\":\"b\"," + fields("l"))), "200 {\"ok\":true,\"count\":2}");
}

TEST_F(keys_of_the_admin_api, have_room_for_the_longest_prompt_of_the_policies_they_reach) {
  const auto put = [&](int64_t minute) {
    const std::string limits = "\"max_occupancy_share\":0.4,\"quota\":{\"input_tokens_per_minute\":" + std::to_string(minute) + "},";
    return one("PUT", "a", "{\"version\":\"1\"," + fields("k", limits) + "}");
  };
  rule("serverless", 262'144);
  EXPECT_THAT(put(100'000), HasSubstr("400 {\"error\":\"quota.input_tokens_per_minute"));
  EXPECT_THAT(put(100'000), HasSubstr("262144"));
  EXPECT_EQ(version(), "200 {\"version\":\"\",\"count\":0}");
  EXPECT_EQ(put(524'288), "200 {\"ok\":true}");
  EXPECT_THAT(one("GET", "a"), HasSubstr("\"max_occupancy_share\":4E-1"));
  rule("reserved", 262'144);
  EXPECT_EQ(put(100'000), "200 {\"ok\":true}");
}

TEST_F(keys_of_the_admin_api, an_unknown_field_is_told_in_the_answer_and_refused_when_strict) {
  const std::string body = "{\"version\":\"1\"," + fields("k", "\"models\":[\"a\"],") + "}";
  EXPECT_THAT(one("PUT", "a", body), HasSubstr("200 {\"ok\":true,\"warnings\":[\"models: unknown key"));
  open(true);
  EXPECT_THAT(one("PUT", "a", body), HasSubstr("400 "));
}

}  // namespace
}  // namespace hive::admin
