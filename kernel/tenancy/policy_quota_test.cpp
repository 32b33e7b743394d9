#include "tenancy/policy_quota.hpp"

#include <gmock/gmock.h>

#include "tenancy/auth_file.hpp"

namespace hive::tenancy {
namespace {

using ::testing::HasSubstr;
using names = std::vector<std::string>;

routing::policy_set set_with(const names &models, const std::string &mode, int64_t most) {
  auto d = std::make_shared<routing::policy_document>();
  d->name = models.empty() ? "" : "doc";
  d->models = models;
  d->mode = mode;
  d->max_input_tokens = most;
  routing::policy_set set;
  (models.empty() ? set.global : set.named["doc"]).document = d;
  return set;
}

std::shared_ptr<const keyring> keys_with(uint64_t minute, names models = {}) {
  client_key key;
  key.hash = sha256("key");
  key.preview = "sk-...kPNE";
  key.models = std::move(models);
  key.input_tokens_per_minute = minute;
  return keyring::of({key});
}

TEST(minute_quotas, have_room_for_the_longest_prompt_of_every_serverless_policy_they_reach) {
  const struct {
    names policy;
    const char *mode;
    int64_t most;
    uint64_t minute;
    names key;
    bool fits;
  } cases[] = {{{}, "serverless", 262144, 519540, {}, true},        {{}, "serverless", 262144, 262144, {}, true},
               {{}, "serverless", 262144, 262143, {}, false},       {{}, "serverless", 262144, 100, {}, false},
               {{}, "serverless", 262144, 0, {}, true},             {{}, "serverless", 0, 100, {}, true},
               {{}, "reserved", 262144, 100, {}, true},             {{"a"}, "serverless", 10, 9, {}, false},
               {{}, "serverless", 10, 9, {"a"}, false},             {{"a", "b"}, "serverless", 10, 9, {"b", "c"}, false},
               {{"a"}, "serverless", 10, 9, {"b"}, true}};
  for (const auto &c : cases) {
    const status s = check_minute_quotas(set_with(c.policy, c.mode, c.most), *keys_with(c.minute, c.key));
    EXPECT_EQ(s.ok(), c.fits) << c.most << " " << c.minute << " " << s.text();
    if (c.fits) continue;
    EXPECT_THAT(s.text(), HasSubstr("input_tokens_per_minute"));
    EXPECT_THAT(s.text(), HasSubstr(std::to_string(c.most)));
    EXPECT_THAT(s.text(), HasSubstr(std::to_string(c.minute)));
    EXPECT_THAT(s.text(), HasSubstr("sk-...kPNE"));
  }
}

// What a global document lists under models covers nothing less.
TEST(minute_quotas, models_of_the_global_policy_restrict_nothing) {
  auto set = set_with({"a"}, "serverless", 10);
  auto global = std::make_shared<routing::policy_document>(*set.named["doc"].document);
  global->name.clear();
  set.named.clear();
  set.global.document = global;
  EXPECT_FALSE(check_minute_quotas(set, *keys_with(9, {"b"})).ok());
}

TEST(minute_quotas, are_those_of_the_file) {
  const auto d = parse_auth("api:\n  mode: api-key\n  keys:\n    - key_hash: " + std::string(64, 'a') +
                                "\n      metadata: {name: n, owner: o}\n      quota: {input_tokens_per_minute: 100}\n", "auth.yaml", {});
  ASSERT_TRUE(d.keys);
  EXPECT_EQ(d.keys->keys()[0].input_tokens_per_minute, 100u);
}

}  // namespace
}  // namespace hive::tenancy
