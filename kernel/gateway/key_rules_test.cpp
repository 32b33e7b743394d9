#include "gateway/key_rules.hpp"

#include <gtest/gtest.h>

#include "gateway/estimate.hpp"
#include "gateway/trusted_proxies.hpp"

namespace hive::gateway {
namespace {

TEST(key_rules, a_model_outside_the_list_is_forbidden_and_outside_a_quota_over_its_limit) {
  tenancy::client_key key;
  EXPECT_FALSE(model_refusal(key, "m"));
  key.models = {"a", "m"};
  EXPECT_FALSE(model_refusal(key, "m"));
  EXPECT_EQ(model_refusal(key, "M")->status, 403);
  EXPECT_EQ(model_refusal(key, "x")->code, "model_forbidden");
  key.per_model_quota = true;
  EXPECT_EQ(model_refusal(key, "x")->status, 429);
  EXPECT_EQ(model_refusal(key, "x")->code, "rate_limit_exceeded");
  EXPECT_NE(model_refusal(key, "x")->message.find("'x'"), std::string::npos);
  EXPECT_GT(model_refusal(key, "x")->retry_after_s, 60u) << "what no SDK waits for";
}

TEST(key_rules, every_bad_key_is_refused_with_the_same_words) {
  for (const auto why : {tenancy::denial::no_key, tenancy::denial::unknown_key, tenancy::denial::disabled_key, tenancy::denial::expired_key}) {
    EXPECT_EQ(unauthorized(why).status, 401);
    EXPECT_EQ(unauthorized(why).message, "unauthorized");
  }
  EXPECT_EQ(unauthorized(tenancy::denial::two_credentials).status, 401);
  EXPECT_NE(unauthorized(tenancy::denial::two_credentials).message.find("two different"), std::string::npos);
}

std::string client_of(const std::vector<std::string> &trusted, std::string_view peer, std::vector<http::field> fields) {
  const auto proxies = trusted_proxies::parse(trusted);
  EXPECT_TRUE(proxies.ok());
  return proxies->client_of(peer, fields);
}

TEST(trusted_proxies, nobody_is_believed_who_is_not_listed) {
  EXPECT_EQ(client_of({}, "10.0.0.1", {{"X-Forwarded-For", "1.2.3.4"}}), "10.0.0.1");
  EXPECT_EQ(client_of({"10.0.0.0/8"}, "192.0.2.1", {{"X-Forwarded-For", "1.2.3.4"}, {"X-Real-IP", "1.2.3.4"}}), "192.0.2.1");
  EXPECT_EQ(client_of({"10.0.0.0/9"}, "10.128.0.1", {{"X-Forwarded-For", "1.2.3.4"}}), "10.128.0.1");
}

TEST(trusted_proxies, the_client_is_the_last_hop_that_no_trusted_proxy_is) {
  const std::vector<std::string> ours = {"10.0.0.0/8", "fd00::/8"};
  const struct { std::string_view header; const char *want; } cases[] = {
      {"1.2.3.4", "1.2.3.4"},
      {"6.6.6.6, 1.2.3.4", "1.2.3.4"},
      {"6.6.6.6, 1.2.3.4, 10.9.9.9 ,fd12::1", "1.2.3.4"},
      {"1.2.3.4:5555", "1.2.3.4"},
      {"[2001:db8::1]:80, 10.1.1.1", "2001:db8::1"},
      {"2001:db8::1", "2001:db8::1"},
      {"::ffff:1.2.3.4", "1.2.3.4"},
      {"10.1.1.1, 10.2.2.2", "10.1.1.1"},
      {"1.2.3.4, unknown", "10.0.0.1"},
      {"1.2.3.4, \"\nforged", "10.0.0.1"},
      {"", "10.0.0.1"}};
  for (const auto &c : cases) EXPECT_EQ(client_of(ours, "10.0.0.1", {{"x-forwarded-for", c.header}}), c.want) << c.header;
  EXPECT_EQ(client_of(ours, "fd00::7", {{"X-Forwarded-For", "6.6.6.6"}, {"X-Forwarded-For", "1.2.3.4"}}), "1.2.3.4");
  EXPECT_EQ(client_of(ours, "::ffff:10.0.0.1", {{"X-Real-IP", "1.2.3.4"}}), "1.2.3.4");
  EXPECT_EQ(client_of(ours, "10.0.0.1", {{"X-Real-IP", "<script>"}}), "10.0.0.1");
}

TEST(trusted_proxies, who_is_one_is_known) {
  const auto proxies = trusted_proxies::parse({"10.0.0.0/8", "fd00::/8"});
  ASSERT_TRUE(proxies.ok());
  for (const char *one : {"10.1.2.3", "fd00::1", "::ffff:10.1.2.3"}) EXPECT_TRUE(proxies->trusts(one)) << one;
  for (const char *none : {"11.0.0.1", "fe00::1", "", "10.0.0"}) EXPECT_FALSE(proxies->trusts(none)) << none;
  EXPECT_FALSE(trusted_proxies().trusts("10.0.0.1"));
}

TEST(trusted_proxies, a_range_that_is_none_is_refused) {
  for (const char *text : {"", "x", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "fd00::/129", "10.0.0/8", "10.0.0.1/8x"})
    EXPECT_FALSE(trusted_proxies::parse({text}).ok()) << text;
  EXPECT_EQ(client_of({"0.0.0.0/0"}, "9.9.9.9", {{"X-Forwarded-For", "fd00::1"}}), "fd00::1");
}

TEST(estimate, the_text_of_an_answer_is_counted_whatever_its_shape) {
  const std::pair<const char *, uint64_t> cases[] = {
      {R"({"choices":[{"message":{"role":"assistant","content":"12345678"}}]})", 8},
      {R"({"choices":[{"text":"1234"},{"text":"56"}]})", 6},
      {R"({"type":"message","content":[{"type":"text","text":"12345"},{"type":"tool_use","input":{}}]})", 5},
      {R"({"output":[{"type":"message","content":[{"type":"output_text","text":"123"}]}]})", 3},
      {R"({"choices":[{"message":{"content":null,"reasoning_content":"1"}}]})", 1},
      {R"({"choices":[{"message":{"content":"1","reasoning":"22","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{\"a\":1}"}}]}}]})", 10},
      {R"({"type":"message","content":[{"type":"thinking","thinking":"123","signature":"s"},{"type":"tool_use","input":{"q":"ab"}}]})", 13},
      {R"({"output":[{"type":"function_call","name":"f","arguments":"{}"}]})", 2},
      {R"({"data":[{"embedding":[0.1]}]})", 0},
      {"not json", 0},
      {"[]", 0}};
  for (const auto &[text, want] : cases) EXPECT_EQ(answer_text_bytes(text), want) << text;
}

// The simple counts until something was learned of the model, the learned ratio from then on; admission goes by the ratio at once.
TEST(estimate, what_was_learned_replaces_the_simple_counts) {
  request_scan scan;
  scan.text_bytes = 8;
  scan.text_entries = 2;
  scan.text_quarters = 2;
  scan.messages = 1;
  const token_estimate cold = estimate_of({}, scan);
  EXPECT_EQ(cold.prompt, 4u);
  EXPECT_EQ(cold.counted_prompt, 10u);
  EXPECT_EQ(cold.output(0), 0u);
  EXPECT_EQ(cold.output(8), 6u);
  const token_estimate learned = estimate_of({0.75, true}, scan);
  EXPECT_EQ(learned.prompt, 6u);
  EXPECT_EQ(learned.counted_prompt, 6u);
  EXPECT_EQ(learned.output(0), 0u);
  EXPECT_EQ(learned.output(100), 75u);
}

}  // namespace
}  // namespace hive::gateway
