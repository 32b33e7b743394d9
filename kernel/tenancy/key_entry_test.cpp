#include "tenancy/key_entry.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gmock/gmock.h>

#include "base/text.hpp"
#include "tenancy/auth_file.hpp"

namespace hive::tenancy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string key_hash = "a18dd697b3cd71cf3dcd695a9faa68320d2f0983d5f28566f33f734ec1dfd18f";

// The fields of an entry; `more` in front, so that it may repeat none of them.
std::string entry_text(const std::string &more = {}) {
  return "{" + more + R"("key_hash":")" + key_hash + R"(","owner":"acme","name":"n"})";
}

result<key_entry> read(const std::string &text, bool strict = false, const std::string &id = "k1", std::vector<std::string> *warnings = nullptr) {
  std::vector<std::string> told;
  auto out = read_key_entry(config::yaml::from_json(boost::json::parse(text), {}), id, {strict, 0}, told);
  if (warnings != nullptr) *warnings = told;
  return out;
}

std::string why(const std::string &text, bool strict = false, const std::string &id = "k1") {
  const auto got = read(text, strict, id);
  return got ? "accepted" : got.why().text();
}

TEST(key_entry, every_field_is_read) {
  const auto got = read(entry_text(R"("id":"other","key_preview":"sk-...kPNE","enabled":true,"expires_at":"2027-01-02T00:00:00Z",
    "allowed_models":["b","a","b"],"max_occupancy_share":0.64,"priority":-3,"max_parallel_requests":8,"max_parallel_requests_per_model":2,
    "when_parallel_full":"wait","quota":{"requests_per_minute":96,"tokens_per_day":5000000,
    "input_tokens_per_minute":519540,"output_tokens_per_minute":47424},)"));
  ASSERT_TRUE(got.ok()) << got.why().text();
  const client_key &k = got->key;
  EXPECT_EQ(k.id, "k1") << "that of the path wins";
  EXPECT_EQ(to_hex(k.hash), key_hash);
  EXPECT_EQ(k.preview + k.tenant + k.name, "sk-...kPNEacmen");
  EXPECT_TRUE(k.usable_at(1'798'847'999'999));
  EXPECT_FALSE(k.usable_at(1'798'848'000'000));
  EXPECT_THAT(k.models, ElementsAre("a", "b"));
  EXPECT_THAT(got->allowed_models, ElementsAre("b", "a", "b"));
  EXPECT_EQ(k.max_occupancy_share, 0.64);
  EXPECT_EQ(k.priority, -3);
  EXPECT_EQ(k.max_parallel_requests, 8u);
  EXPECT_EQ(k.max_parallel_requests_per_model, 2u);
  EXPECT_TRUE(k.parallel_waits);
  EXPECT_EQ(std::vector<uint64_t>({k.requests_per_minute, k.tokens_per_day, k.input_tokens_per_minute, k.output_tokens_per_minute}),
            std::vector<uint64_t>({96, 5'000'000, 519'540, 47'424}));
}

TEST(key_entry, without_more_it_is_off_without_limits_and_for_every_model) {
  const auto got = read(entry_text());
  ASSERT_TRUE(got.ok()) << got.why().text();
  EXPECT_FALSE(got->key.enabled) << "absent means off";
  EXPECT_EQ(got->key.expires_unix_ms, never_expires);
  EXPECT_TRUE(got->key.may_use("anything"));
  EXPECT_EQ(got->key.requests_per_minute + got->key.tokens_per_day + got->key.input_tokens_per_minute + got->key.output_tokens_per_minute, 0u);
  EXPECT_FALSE(got->key.per_model_quota);
  EXPECT_EQ(why(entry_text(), true), "enabled is required: true or false");
  EXPECT_EQ(why(entry_text(R"("enabled":false,)"), true), "accepted");
  EXPECT_EQ(read(entry_text(), false, " k2 ")->key.id, "k2");
  EXPECT_EQ(read(entry_text(R"("id":" own ",)"), false, "")->key.id, "own");
}

TEST(key_entry, a_quota_by_model_is_the_list_of_models_and_what_was_allowed_is_kept) {
  const auto got = read(entry_text(R"("allowed_models":["x"],"quota":{"per_model":{"z":{"requests_per_minute_per_replica":10,"tokens_per_day":0},
    "a":{"requests_per_minute_per_replica":0,"tokens_per_day":7}}},)"));
  ASSERT_TRUE(got.ok()) << got.why().text();
  EXPECT_THAT(got->key.models, ElementsAre("a", "z"));
  EXPECT_THAT(got->allowed_models, ElementsAre("x"));
  EXPECT_EQ(boost::json::serialize(to_json(*got).at("quota")),
            R"({"per_model":{"a":{"requests_per_minute_per_replica":0,"tokens_per_day":7},"z":{"requests_per_minute_per_replica":10,"tokens_per_day":0}}})");
}

TEST(key_entry, what_is_wrong_is_named_by_its_field_and_never_shows_a_hash) {
  const std::pair<std::string, const char *> cases[] = {
      {"[]", "an object with key_hash, owner and name is needed"},
      {R"({"owner":"o","name":"n"})", "key_hash is required: the SHA-256 of the key, 64 hexadecimal digits"},
      {R"({"key_hash":"sk-secret","owner":"o","name":"n"})",
       "key_hash: not a SHA-256; write the 64 hexadecimal digits that `printf %s KEY | sha256sum` prints"},
      {"{\"key_hash\":\"" + key_hash + "\",\"name\":\"n\"}", "owner is required and may not be empty"},
      {"{\"key_hash\":\"" + key_hash + "\"}", "name is required and may not be empty; owner is required and may not be empty"},
      {"{\"key_hash\":\"" + key_hash + "\",\"name\":5,\"owner\":\"o\"}", "name: text is needed here; name is required and may not be empty"},
      {"{\"key_hash\":\"" + key_hash + "\",\"name\":\"n\",\"owner\":\"a\\u0000b\"}", "owner: holds a control character"},
      {"{\"key_hash\":\"" + key_hash + "\",\"name\":\"n\",\"owner\":\"" + std::string(201, 'o') + "\"}", "owner: longer than 200 bytes"},
      {entry_text(R"("enabled":"true",)"), "enabled: \"true\" is neither true nor false; write one of the two without quotes"},
      {entry_text(R"("expires_at":"31-12-2027",)"), "expires_at: \"31-12-2027\" is no instant; write it as 2027-01-31T12:00:00Z"},
      {entry_text(R"("allowed_models":["a",""],)"), "allowed_models: an empty text is no model; without a restriction leave the list out"},
      {entry_text(R"("max_occupancy_share":1.5,)"), "max_occupancy_share: 1.5 is no share; it must be between 0 (unset) and 1"},
      {entry_text(R"("max_occupancy_share":-0.1,)"), "max_occupancy_share: -0.1 is no share; it must be between 0 (unset) and 1"},
      {entry_text(R"("quota":{"input_tokens_per_minute":-1},)"), "quota.input_tokens_per_minute: -1 is negative; it must be >= 0, and 0 means unlimited"},
      {entry_text(R"("quota":{"tokens_per_day":1,"per_model":{"m":{"requests_per_minute_per_replica":1,"tokens_per_day":1}}},)"),
       "quota: per_model and the flat limits exclude each other; a quota has one shape"},
      {entry_text(R"("quota":{"per_model":{}},)"), "quota.per_model: an empty map would allow no model; list some or leave it out"},
      {entry_text(R"("quota":{"per_model":{"m":{"tokens_per_day":1}}},)"), "quota.per_model.m: requests_per_minute_per_replica is required; 0 means unlimited"},
      {entry_text(R"("max_parallel_requests":-1,)"), "max_parallel_requests: -1 is negative; it must be >= 0, and 0 means unlimited"},
      {entry_text(R"("max_parallel_requests":1.5,)"), "max_parallel_requests: \"1.5\" is not a whole number"},
      {entry_text(R"("when_parallel_full":"drop",)"), "when_parallel_full: \"drop\" is no choice; use reject or wait"}};
  for (const auto &[text, want] : cases) {
    EXPECT_EQ(why(text), want) << text;
    EXPECT_THAT(why(text), Not(HasSubstr(key_hash.substr(0, 8)))) << text;
    EXPECT_THAT(why(text), Not(HasSubstr("sk-secret"))) << text;
  }
  for (const char *share : {"0", "0.40", "0.64", "1"}) EXPECT_EQ(why(entry_text(std::string("\"max_occupancy_share\":") + share + ",")), "accepted") << share;
}

TEST(key_entry, an_unknown_field_is_told_and_refused_when_strict) {
  std::vector<std::string> warnings;
  ASSERT_TRUE(read(entry_text(R"("quotas":{},"enabled":true,)"), false, "k1", &warnings).ok());
  EXPECT_THAT(warnings, ElementsAre("quotas: unknown key; did you mean \"quota\"?"));
  EXPECT_EQ(why(entry_text(R"("quotas":{},"enabled":true,)"), true), "quotas: unknown key; did you mean \"quota\"?");
}

TEST(key_entry, an_id_is_short_plain_and_no_name_of_a_route) {
  for (const char *good : {"a", "tenant/7", "A b", "k\xc3\xa9y", "version2"}) EXPECT_TRUE(check_key_id(good).ok()) << good;
  for (const std::string &bad : {std::string(), std::string("version"), std::string("replace"), std::string(201, 'a'), std::string("a\nb"),
                                 std::string("a\0b", 3), std::string("a\xff")})
    EXPECT_FALSE(check_key_id(bad).ok()) << bad;
  EXPECT_EQ(why(entry_text(), false, " sk-hivenet-secret"), "an id may not begin with sk-: it would look like a key, and ids stand in logs and metrics");
  EXPECT_EQ(why(entry_text(), false, " version "), "\"version\" cannot be an id: it is the name of a route");
  EXPECT_EQ(why(entry_text(R"("id":"replace",)"), false, ""), "\"replace\" cannot be an id: it is the name of a route");
}

TEST(key_entry, what_is_shown_has_every_field_and_no_hash) {
  const auto got = read(entry_text(R"("key_preview":"sk-...kPNE","enabled":true,"max_occupancy_share":0.5,)"));
  EXPECT_EQ(boost::json::serialize(to_json(*got)),
            R"({"id":"k1","key_hash":"","key_preview":"sk-...kPNE","owner":"acme","name":"n","enabled":true,"allowed_models":[],)"
            R"("quota":{"requests_per_minute":0,"tokens_per_day":0,"input_tokens_per_minute":0,"output_tokens_per_minute":0},)"
            R"("max_occupancy_share":5E-1,"max_parallel_requests":0,"max_parallel_requests_per_model":0,"when_parallel_full":"reject","priority":0})");
}

TEST(key_entry, what_is_stored_comes_back_equal_and_anything_else_is_damaged) {
  const std::string cases[] = {
      entry_text(), entry_text(R"("enabled":true,"expires_at":"2027-01-02T00:00:00.123Z","allowed_models":["b","a"],"max_occupancy_share":0.1,)"),
      entry_text(R"("priority":7,"when_parallel_full":"wait","max_parallel_requests":4294967295,"quota":{"tokens_per_day":9223372036854775807},)"),
      entry_text(R"("allowed_models":["x"],"quota":{"per_model":{"m.\"ü":{"requests_per_minute_per_replica":1,"tokens_per_day":2}}},)")};
  for (const std::string &text : cases) {
    const auto entry = read(text);
    ASSERT_TRUE(entry.ok()) << entry.why().text();
    EXPECT_THAT(encode(*entry), HasSubstr(key_hash));
    const auto back = decode_key_entry("k1", encode(*entry));
    ASSERT_TRUE(back) << encode(*entry);
    EXPECT_TRUE(*back == *entry) << encode(*entry) << encode(*back);
  }
  const std::string good = encode(*read(entry_text()));
  for (const std::string &bad : {std::string(), good.substr(1), good.substr(0, good.size() - 1), std::string("{}"), std::string("7")})
    EXPECT_FALSE(decode_key_entry("k1", bad)) << bad;
  EXPECT_FALSE(decode_key_entry("", good.substr(0, 1) + good.substr(good.find("\"key_hash\"")))) << "without an id";
}

}  // namespace
}  // namespace hive::tenancy
