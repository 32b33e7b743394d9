#include "tenancy/auth_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace hive::tenancy {
namespace {

constexpr uint64_t now = 1'790'000'000'000;  // September 2026
const std::string raw = "sk-hivenet-1thX6LZfHDZZKUs92febYZhYRcXddmzfzF2NvTkPNE";
const std::string hash = "a18dd697b3cd71cf3dcd695a9faa68320d2f0983d5f28566f33f734ec1dfd18f";
const std::string other = "3ad6b5a133a2300abe4e8ba61ef9b9bcb6cf0e7eeebacb3c284667d35ea06536";

auth_document parsed(const std::string &text, bool strict = false) { return parse_auth(text, "auth.yaml", {strict, now}); }

std::string all(const auth_document &d) {
  std::string out;
  for (const status &s : d.problems) out += s.text() + "\n";
  return out;
}

std::string key(const std::string &more = {}, const std::string &meta = "name: n, owner: acme") {
  return "api:\n  mode: api-key\n  keys:\n    - key_hash: " + hash + "\n      key_preview: sk-...kPNE\n      metadata: {" + meta + "}\n" + more;
}

// What keygen of the Go product prints, put under api.keys.
TEST(auth_file, a_file_of_the_go_product_loads_without_a_word) {
  const auto d = parsed("# keys\napi:\n  mode: api-key\n  keys:\n    - key_hash: \"" + hash + "\"\n      key_preview: \"sk-...kPNE\"\n      metadata:\n"
                        "        name: \"acme key\"\n        owner: \"acme\"\n        description: \"\"\n        created_at: \"29-11-2026\"\n"
                        "        expires_at: \"01-01-2027\"\n      models: []\n      quota:\n        requests_per_minute: 100\n"
                        "        tokens_per_day: 500000\nadmin:\n  mode: api-key\n");
  ASSERT_NE(d.keys, nullptr) << all(d);
  EXPECT_EQ(d.keys->mode(), auth_mode::api_key);
  EXPECT_TRUE(d.admin_key_required);
  const client_key *k = d.keys->find(sha256(raw));
  ASSERT_NE(k, nullptr);
  EXPECT_EQ(k->tenant, "acme");
  EXPECT_EQ(k->id, "a18dd697b3cd");
  EXPECT_EQ(k->expires_unix_ms, 1'798'848'000'000u);
  EXPECT_TRUE(k->models.empty());
  EXPECT_EQ(k->requests_per_minute, 100u);
  EXPECT_EQ(k->tokens_per_day, 500'000u);
  EXPECT_TRUE(d.warnings.empty()) << d.warnings[0];
}

TEST(auth_file, no_section_and_an_empty_file_mean_no_authentication) {
  for (const char *text : {"", "{}\n", "api:\n", "api: {mode: none}\n", "api: {mode: \"\"}\nadmin: {mode: none}\n", "admin:\n"}) {
    const auto d = parsed(text);
    ASSERT_NE(d.keys, nullptr) << text << all(d);
    EXPECT_EQ(d.keys->mode(), auth_mode::none) << text;
    EXPECT_FALSE(d.admin_key_required);
  }
  EXPECT_EQ(parsed("api: {keys: [{key_hash: x}]}\n").warnings.size(), 1u);
}

TEST(auth_file, what_is_wrong_is_refused_with_its_line_and_without_a_hash) {
  const std::pair<std::string, const char *> cases[] = {
      {"- a\n", "auth.yaml:1: a list stands where a map (key: value) is needed\n"},
      {"api: {mode: keys}\n", "auth.yaml:1: api.mode: \"keys\" is no mode; use none, api-key or dynamic\n"},
      {"api: {mode: [a]}\n", "auth.yaml:1: api.mode: text is needed here\n"},
      {"admin: {mode: open}\n", "auth.yaml:1: admin.mode: \"open\" is no mode; use none or api-key\n"},
      {"api: {mode: api-key}\n", "auth.yaml:1: api: the mode api-key needs at least one entry under keys\n"},
      {"api: {mode: api-key, keys: []}\n", "auth.yaml:1: api: the mode api-key needs at least one entry under keys\n"},
      {"api: {mode: api-key, keys: {a: 1}}\n", "auth.yaml:1: api.keys: a map stands where a list is needed\n"},
      {"api:\n  mode: api-key\n  keys: [text]\n", "auth.yaml:3: api.keys[0]: a key must be a map with key_hash and metadata\n"},
      {"api:\n  mode: api-key\n  keys:\n    - {metadata: {name: n, owner: o}}\n",
       "auth.yaml:4: api.keys[0]: key_hash is required: the SHA-256 of the key, 64 hexadecimal digits\n"},
      {"api:\n  mode: api-key\n  keys:\n    - {key_hash: " + raw + ", key_preview: p, metadata: {name: n, owner: o}}\n",
       "auth.yaml:4: api.keys[0].key_hash: not a SHA-256; write the 64 hexadecimal digits that `printf %s KEY | sha256sum` prints (key p)\n"},
      {"api:\n  mode: api-key\n  keys:\n    - {key_hash: " + hash.substr(2) + ", metadata: {name: n, owner: o}}\n",
       "auth.yaml:4: api.keys[0].key_hash: not a SHA-256; write the 64 hexadecimal digits that `printf %s KEY | sha256sum` prints\n"},
      {key("", "owner: acme"), "auth.yaml:6: api.keys[0].metadata: name is required and may not be empty (key sk-...kPNE)\n"},
      {key("", "name: n, owner: ' '"), "auth.yaml:6: api.keys[0].metadata: owner is required and may not be empty (key sk-...kPNE)\n"},
      {key("", "name: n, owner: \"a\\u0001b\""), "auth.yaml:6: api.keys[0].metadata.owner: holds a control character (key sk-...kPNE)\n"},
      {key("", "name: n, owner: " + std::string(201, 'o')), "auth.yaml:6: api.keys[0].metadata.owner: longer than 200 bytes (key sk-...kPNE)\n"},
      {key("", "name: n, owner: o, expires_at: 2027-01-01"),
       "auth.yaml:6: api.keys[0].metadata.expires_at: \"2027-01-01\" is no date; write it as DD-MM-YYYY (key sk-...kPNE)\n"},
      {key("      models: [a, ''] \n"),
       "auth.yaml:7: api.keys[0].models: an empty text is no model; without a restriction leave the list out (key sk-...kPNE)\n"},
      {key("      enabled: yes\n"), "auth.yaml:7: api.keys[0].enabled: \"yes\" is neither true nor false; write one of the two\n"},
      {key("      max_parallel_requests: -1\n"),
       "auth.yaml:7: api.keys[0].max_parallel_requests: -1 is negative; it must be >= 0, and 0 means unlimited (key sk-...kPNE)\n"},
      {key("      max_parallel_requests_per_model: 4294967296\n"),
       "auth.yaml:7: api.keys[0].max_parallel_requests_per_model: out of range; 0 means unlimited (key sk-...kPNE)\n"},
      {key("      when_parallel_full: queue\n"),
       "auth.yaml:7: api.keys[0].when_parallel_full: \"queue\" is no choice; use reject or wait (key sk-...kPNE)\n"},
      {key("      max_occupancy_share: 1.5\n"),
       "auth.yaml:7: api.keys[0].max_occupancy_share: 1.5 is no share; it must be between 0 (unset) and 1 (key sk-...kPNE)\n"},
      {key("      quota: {requests_per_minute: -1}\n"), "auth.yaml:7: api.keys[0].quota.requests_per_minute: -1 is negative; it must be >= 0, "
                                                        "and 0 means unlimited (key sk-...kPNE)\n"},
      {key("      quota: {tokens_per_day: many}\n"), "auth.yaml:7: api.keys[0].quota.tokens_per_day: \"many\" is not a whole number; write one like 12\n"},
      {key("      quota: {tokens_per_day: 5, per_model: {m: {requests_per_minute_per_replica: 0, tokens_per_day: 0}}}\n"),
       "auth.yaml:7: api.keys[0].quota: per_model and the flat limits exclude each other; a quota has one shape (key sk-...kPNE)\n"},
      {key("      quota: {per_model: {}}\n"),
       "auth.yaml:7: api.keys[0].quota.per_model: an empty map would allow no model; list some or leave it out (key sk-...kPNE)\n"},
      {key("      quota: {per_model: {m: {tokens_per_day: 0}}}\n"),
       "auth.yaml:7: api.keys[0].quota.per_model.m: requests_per_minute_per_replica is required; 0 means unlimited (key sk-...kPNE)\n"},
      {key("      quota: {per_model: {m: null}}\n"), "auth.yaml:7: api.keys[0].quota.per_model.m: a map with both limits is needed (key sk-...kPNE)\n"},
      {key("    - key_hash: " + hash + "\n      metadata: {name: n2, owner: o2}\n"),
       "auth.yaml:7: api.keys[1].key_hash: the same hash stands at auth.yaml:4: api.keys[0]; remove one\n"},
      {key("      models: [a]\n      models: [b]\n"), "auth.yaml:8: the key \"models\" stands here and already on line 7; remove one\n"},
      {"api:\n\tmode: none\n", "auth.yaml:2: a tab is used for indentation; use spaces\n"}};
  for (const auto &[text, want] : cases) {
    const auto d = parsed(text);
    EXPECT_EQ(all(d), want) << text;
    EXPECT_EQ(d.keys, nullptr) << text;
    EXPECT_EQ(all(d).find(raw.substr(12)), std::string::npos);
  }
}

TEST(auth_file, all_problems_are_told_at_once) {
  const auto d = parsed("api:\n  mode: api-key\n  keys:\n    - {key_hash: a}\n    - {key_hash: b}\nadmin: {mode: x}\n");
  EXPECT_EQ(d.problems.size(), 3u) << all(d);
}

TEST(auth_file, a_hash_counts_in_any_case_and_with_a_bom_or_spaces_around_it) {
  std::string upper = hash;
  for (char &c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const std::string &text : {"\"" + upper + "\"", "\"\xef\xbb\xbf" + hash + "\"", "' " + hash + " \xef\xbb\xbf'"}) {
    const auto d = parsed("api:\n  mode: api-key\n  keys: [{key_hash: " + text + ", metadata: {name: n, owner: o}}]\n");
    ASSERT_NE(d.keys, nullptr) << text << all(d);
    EXPECT_NE(d.keys->find(sha256(raw)), nullptr) << text;
  }
}

TEST(auth_file, a_typo_is_told_and_refused_when_strict) {
  const std::string text = key("      quotas: {requests_per_minute: 1}\n");
  const auto d = parsed(text);
  ASSERT_NE(d.keys, nullptr);
  EXPECT_EQ(d.warnings, std::vector<std::string>{"auth.yaml:7: api.keys[0].quotas: unknown key; did you mean \"quota\"?"});
  EXPECT_EQ(parsed(text, true).keys, nullptr);
}

// Naive variants: strict of unknown keys alone; a ring that was made before its last warning.
TEST(auth_file, whatever_is_suspect_is_one_warning_and_refused_when_strict) {
  const std::string two = "    - key_hash: " + other + "\n      metadata: {name: n, owner: acme}\n";
  const std::pair<std::string, const char *> cases[] = {
      {"apy: {}\n", "unknown key"},
      {key("      quota: {requests_per_hour: 1}\n"), "unknown key"},
      {"api: {keys: [{key_hash: x}]}\n", "everybody may use the API"},
      {"api: {mode: \"\", keys: [{key_hash: x}]}\n", "everybody may use the API"},
      {key().replace(13, 7, "none"), "everybody may use the API"},
      {key().replace(13, 7, "dynamic"), "they open nothing"},
      {"api:\n  mode: api-key\n  keys: [{key_hash: " + hash + ", key_preview: " + raw + ", metadata: {name: n, owner: o}}]\n", "key_preview is the whole key"},
      {key("      quota: {requests_per_minute: 5}\n" + two), "differ in requests_per_minute or tokens_per_day"}};
  for (const auto &[text, words] : cases) {
    const auto loose = parsed(text), strict = parsed(text, true);
    ASSERT_NE(loose.keys, nullptr) << text << all(loose);
    ASSERT_EQ(loose.warnings.size(), 1u) << text;
    EXPECT_NE(loose.warnings[0].find(words), std::string::npos) << loose.warnings[0];
    EXPECT_EQ(strict.keys, nullptr) << text;
    EXPECT_EQ(all(strict), loose.warnings[0] + "\n") << text;
    EXPECT_TRUE(strict.warnings.empty()) << text;
    EXPECT_EQ(all(strict).find(raw), std::string::npos);
  }
  const auto gone = parsed(key("", "name: n, owner: o, expires_at: 01-01-2000"), true);
  ASSERT_NE(gone.keys, nullptr) << all(gone);
  EXPECT_EQ(gone.warnings.size(), 1u) << "that it does so is why it stands there";
}

TEST(auth_file, every_limit_counts_and_none_is_warned_of) {
  for (const char *more : {"      quota: {tokens_per_day: 1, input_tokens_per_minute: 1}\n",
                           "      quota: {per_model: {m: {requests_per_minute_per_replica: 1, tokens_per_day: 0}}}\n",
                           "      quota: {requests_per_minute: 0, per_model: null}\n      max_occupancy_share: 0\n"}) {
    const auto d = parsed(key(more), true);
    ASSERT_NE(d.keys, nullptr) << more << all(d);
    EXPECT_TRUE(d.warnings.empty()) << more;
  }
}

TEST(auth_file, both_shapes_of_a_quota_are_read) {
  const auto flat =
      parsed(key("      quota: {requests_per_minute: 96, tokens_per_day: 5000000, input_tokens_per_minute: 519540, output_tokens_per_minute: 47424}\n"));
  ASSERT_NE(flat.keys, nullptr) << all(flat);
  const client_key &f = flat.keys->keys()[0];
  EXPECT_EQ(std::vector<uint64_t>({f.requests_per_minute, f.tokens_per_day, f.input_tokens_per_minute, f.output_tokens_per_minute}),
            std::vector<uint64_t>({96, 5'000'000, 519'540, 47'424}));
  EXPECT_TRUE(f.per_model.empty());
  const auto shaped = parsed(key("      quota: {per_model: {z: {requests_per_minute_per_replica: 10, tokens_per_day: 0}, "
                                 "a: {requests_per_minute_per_replica: 0, tokens_per_day: 7}}}\n"));
  ASSERT_NE(shaped.keys, nullptr) << all(shaped);
  const client_key &m = shaped.keys->keys()[0];
  ASSERT_EQ(m.per_model.size(), 2u);
  EXPECT_EQ(m.per_model[0].model, "a");
  EXPECT_EQ(m.per_model[0].requests_per_minute_per_replica, 0u);
  EXPECT_EQ(m.per_model[0].tokens_per_day, 7u);
  EXPECT_EQ(m.per_model[1].model, "z");
  EXPECT_EQ(m.per_model[1].requests_per_minute_per_replica, 10u);
}

TEST(auth_file, limits_of_admission_and_the_priority_are_read) {
  const auto d = parsed(key("      quota: {input_tokens_per_minute: 519540, output_tokens_per_minute: 47424}\n"
                            "      max_occupancy_share: 0.64\n      priority: -3\n"), true);
  ASSERT_NE(d.keys, nullptr) << all(d);
  EXPECT_TRUE(d.warnings.empty());
  const client_key &k = d.keys->keys()[0];
  EXPECT_EQ(k.input_tokens_per_minute, 519540u);
  EXPECT_EQ(k.output_tokens_per_minute, 47424u);
  EXPECT_EQ(k.max_occupancy_share, 0.64);
  EXPECT_EQ(k.priority, -3);
  const auto plain = parsed(key(""));
  EXPECT_EQ(plain.keys->keys()[0].input_tokens_per_minute + plain.keys->keys()[0].output_tokens_per_minute, 0u);
  EXPECT_EQ(plain.keys->keys()[0].max_occupancy_share, 0);
  for (const char *share : {"0", "0.40", "0.64", "1"}) EXPECT_NE(parsed(key(std::string("      max_occupancy_share: ") + share + "\n")).keys, nullptr) << share;
  for (const char *wrong : {"      max_occupancy_share: 1.5\n", "      max_occupancy_share: -0.1\n", "      priority: 1001\n", "      priority: high\n",
                            "      quota: {input_tokens_per_minute: -1}\n", "      quota: {output_tokens_per_minute: 1, per_model: {m: "
                            "{requests_per_minute_per_replica: 0, tokens_per_day: 0}}}\n"})
    EXPECT_EQ(parsed(key(wrong)).keys, nullptr) << wrong;
}

TEST(auth_file, the_models_of_a_quota_beat_the_list) {
  const auto d = parsed(key("      models: [a, b]\n      quota: {per_model: {z: {requests_per_minute_per_replica: 0, tokens_per_day: 0}, "
                            "y: {requests_per_minute_per_replica: 0, tokens_per_day: 0}}}\n"));
  ASSERT_NE(d.keys, nullptr) << all(d);
  const client_key &k = d.keys->keys()[0];
  EXPECT_EQ(k.models, (std::vector<std::string>{"y", "z"}));
  EXPECT_TRUE(k.per_model_quota);
  EXPECT_TRUE(d.warnings.empty());
}

TEST(auth_file, how_many_requests_at_once_and_what_then_are_read) {
  const auto d = parsed(key("      max_parallel_requests: 8\n      max_parallel_requests_per_model: 2\n      when_parallel_full: wait\n"), true);
  ASSERT_NE(d.keys, nullptr) << all(d);
  const client_key &k = d.keys->keys()[0];
  EXPECT_EQ(k.max_parallel_requests, 8u);
  EXPECT_EQ(k.max_parallel_requests_per_model, 2u);
  EXPECT_TRUE(k.parallel_waits);
  const auto plain = parsed(key("      when_parallel_full: reject\n"));
  ASSERT_NE(plain.keys, nullptr) << all(plain);
  EXPECT_EQ(plain.keys->keys()[0].max_parallel_requests, 0u);
  EXPECT_FALSE(plain.keys->keys()[0].parallel_waits);
}

TEST(auth_file, dynamic_starts_without_keys_and_needs_an_admin_key) {
  const auto d = parsed("api: {mode: dynamic}\n");
  ASSERT_NE(d.keys, nullptr) << all(d);
  EXPECT_EQ(d.keys->mode(), auth_mode::dynamic);
  EXPECT_TRUE(d.keys->keys().empty());
  EXPECT_TRUE(d.admin_key_required);
  EXPECT_TRUE(parsed("api: {mode: dynamic}\nadmin: {mode: none}\n").admin_key_required);
  const auto listed = parsed(key().replace(13, 7, "dynamic"));
  ASSERT_NE(listed.keys, nullptr) << all(listed);
  EXPECT_TRUE(listed.keys->keys().empty());
  ASSERT_EQ(listed.warnings.size(), 1u);
  EXPECT_NE(listed.warnings[0].find("they open nothing"), std::string::npos);
}

// An empty file and one that says none are told apart: the second is meant.
TEST(auth_file, says_whether_it_named_the_mode) {
  for (const char *text : {"", "api:\n", "api: {mode: \"\"}\n", "admin: {mode: api-key}\n"}) EXPECT_FALSE(parsed(text).mode_given) << text;
  for (const std::string &text : {std::string("api: {mode: none}\n"), key()}) EXPECT_TRUE(parsed(text).mode_given) << text;
}

TEST(auth_file, keys_of_one_owner_with_different_shared_limits_are_told_once) {
  const auto with = [](const std::string &owner, const std::string &quota, const std::string &more = {}) {
    return key("      quota: {" + quota + "}\n    - key_hash: " + other + "\n      metadata: {name: n, owner: " + owner +
               "}\n      quota: {requests_per_minute: 5}\n" + more);
  };
  const auto told = [](const std::string &text) {
    const auto d = parsed(text);
    EXPECT_NE(d.keys, nullptr) << all(d);
    return std::count_if(d.warnings.begin(), d.warnings.end(), [](const std::string &w) { return w.find("differ in") != std::string::npos; });
  };
  EXPECT_EQ(told(with("acme", "requests_per_minute: 6")), 1);
  EXPECT_EQ(told(with("acme", "requests_per_minute: 5, tokens_per_day: 1")), 1);
  EXPECT_EQ(told(with("acme", "requests_per_minute: 5")), 0);
  EXPECT_EQ(told(with("acme", "requests_per_minute: 5, input_tokens_per_minute: 7")), 0) << "that one is each key's own";
  EXPECT_EQ(told(with("beta", "requests_per_minute: 6")), 0);
  EXPECT_EQ(told(with("acme", "requests_per_minute: 6", "      enabled: false\n")), 0);
}

TEST(auth_file, a_preview_that_is_the_key_is_told_and_forgotten) {
  const auto d = parsed("api:\n  mode: api-key\n  keys: [{key_hash: " + hash + ", key_preview: " + raw + ", metadata: {name: n, owner: o}}]\n");
  ASSERT_NE(d.keys, nullptr) << all(d);
  EXPECT_EQ(d.keys->keys()[0].preview, "");
  ASSERT_EQ(d.warnings.size(), 1u);
  EXPECT_EQ(d.warnings[0].find(raw), std::string::npos);
}

TEST(auth_file, disabled_and_expired_keys_load) {
  const auto d = parsed(key("      enabled: false\n    - key_hash: " + other + "\n      metadata: {name: n, owner: o, expires_at: 01-01-2000}\n"));
  ASSERT_NE(d.keys, nullptr) << all(d);
  EXPECT_FALSE(d.keys->keys()[0].usable_at(0));
  EXPECT_FALSE(d.keys->keys()[1].usable_at(now));
  ASSERT_EQ(d.warnings.size(), 1u);
  EXPECT_NE(d.warnings[0].find("has expired"), std::string::npos);
}

TEST(auth_file, an_anchor_may_carry_what_keys_share) {
  const auto d = parsed("api:\n  mode: api-key\n  keys:\n    - &base {key_hash: " + hash + ", metadata: {name: n, owner: o}, models: [m]}\n"
                        "    - {<<: *base, key_hash: " + other + "}\n");
  ASSERT_NE(d.keys, nullptr) << all(d);
  EXPECT_EQ(d.keys->keys()[1].models, std::vector<std::string>{"m"});
}

TEST(auth_file, a_date_is_valid_through_its_whole_utc_day) {
  EXPECT_EQ(*parse_expiry("01-01-2027"), 1'798'848'000'000u);  // 2027-01-02T00:00:00Z
  EXPECT_EQ(*parse_expiry("29-02-2028"), *parse_expiry("28-02-2028") + 86'400'000);
  for (const char *text : {"", "2027-01-01", "1-1-2027", "32-01-2027", "29-02-2027", "00-01-2027", "01-13-2027", "01/01/2027", "01-01-20a7",
                           "+1-01-2027", "01-01-1960"})
    EXPECT_FALSE(parse_expiry(text).ok()) << text;
}

TEST(auth_file, a_file_that_cannot_be_read_is_a_problem) {
  const auto missing = read_auth_file("/nonexistent/auth.yaml", {});
  ASSERT_EQ(missing.problems.size(), 1u);
  EXPECT_EQ(missing.problems[0].text(), "/nonexistent/auth.yaml: cannot be opened: No such file or directory");
  EXPECT_FALSE(read_auth_file("/dev/zero", {}).problems.empty());
}

}  // namespace
}  // namespace hive::tenancy
