#include "providers/provider_set.hpp"

#include <gmock/gmock.h>

#include "providers/refusal.hpp"

namespace hive::providers {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

provider_options with_keys() {
  provider_options o;
  o.openai.key = "sk-openai";
  o.anthropic.key = "sk-ant";
  return o;
}

TEST(provider_set, knows_two_by_exact_lower_case_names_and_says_what_is_missing) {
  provider_options o = with_keys();
  o.anthropic.key.clear();
  const auto set = provider_set::make(o);
  ASSERT_TRUE(set) << set.why().text();
  EXPECT_TRUE((*set)->judge("openai").ok());
  EXPECT_THAT((*set)->judge("anthropic").text(), HasSubstr("HIVENET_ROUTER_ANTHROPIC_API_KEY"));
  for (const char *unknown : {"OpenAI", "", "gemini"}) EXPECT_THAT((*set)->judge(unknown).text(), HasSubstr("unknown provider"));
  EXPECT_EQ((*set)->find("anthropic"), nullptr);
  EXPECT_EQ((*set)->find("openai")->at.host, "api.openai.com");
  EXPECT_TRUE((*set)->find("openai")->at.tls);
  EXPECT_EQ((*set)->find("openai")->label(), "provider:openai");
}

TEST(provider_set, base_urls_may_end_with_the_version_and_be_plain_when_said_so) {
  provider_options o = with_keys();
  o.openai.url = "http://127.0.0.1:9/base/v1/";
  const auto set = provider_set::make(o);
  ASSERT_TRUE(set);
  EXPECT_EQ((*set)->find("openai")->at.base, "/base");
  EXPECT_FALSE((*set)->find("openai")->at.tls);
  o.openai.url = "ftp://x";
  EXPECT_THAT(provider_set::make(o).why().text(), HasSubstr("openai-base-url"));
  o = with_keys();
  o.ca_file = "/nowhere/ca.pem";
  EXPECT_THAT(provider_set::make(o).why().text(), HasSubstr("provider-ca-file"));
  o.openai.key = o.anthropic.key = "";
  const auto none = provider_set::make(o);
  ASSERT_TRUE(none) << "whoever calls nobody needs no authorities";
  EXPECT_TRUE((*none)->empty());
}

TEST(api, only_generating_routes_have_providers) {
  const struct {
    const char *path;
    size_t engines;
  } cases[] = {{"/v1/chat/completions", 2}, {"/v1/messages", 2}, {"/v1/completions", 1}, {"/v1/responses", 1}, {"/v1/messages/count_tokens", 0},
               {"/v1/embeddings", 0}, {"/v1/rerank", 0}, {"/v1/audio/transcriptions", 0}};
  for (const auto &c : cases) EXPECT_EQ(engines_for(c.path).size(), c.engines) << c.path;
  EXPECT_EQ(spoken_by(vendor::openai, api::messages), api::chat);
  EXPECT_EQ(spoken_by(vendor::openai, api::responses), api::responses);
  EXPECT_EQ(spoken_by(vendor::anthropic, api::chat), api::messages);
}

TEST(refusal, only_what_the_client_can_mend_is_the_clients) {
  const struct {
    int status;
    const char *body;
    bool client, context;
  } cases[] = {{400, R"({"error":{"type":"invalid_request_error"}})", true, false},
               {400, R"({"error":{"code":"context_length_exceeded"}})", true, true},
               {400, R"({"type":"error","error":{"message":"Prompt is too long: 9 > 8"}})", true, true},
               {413, "", true, false},
               {422, "the context window is full", true, true},
               {401, "context length", false, false},
               {403, "", false, false},
               {404, "", false, false},
               {429, "", false, false},
               {500, "context length", false, false}};
  for (const auto &c : cases) {
    const refusal r = judge_refusal("openai", c.status, c.body, "");
    EXPECT_EQ(r.client, c.client) << c.status;
    EXPECT_EQ(r.context, c.context) << c.status << c.body;
    EXPECT_THAT(r.message, HasSubstr("HTTP " + std::to_string(c.status)));
    EXPECT_EQ(r.message.find("prompt is too long") != std::string::npos, c.context);
  }
  EXPECT_EQ(judge_refusal("openai", 429, "", "7").retry_after_s, 7u);
  EXPECT_EQ(judge_refusal("openai", 429, "", "86400").retry_after_s, 60u);
  EXPECT_EQ(judge_refusal("openai", 429, "", "Wed, 21 Oct").retry_after_s, 0u);
  EXPECT_THAT(judge_refusal("openai", 400, "organization org-SECRET", "").message, Not(HasSubstr("SECRET")));
}

// Passed on as 400, a client would be told to mend a request that nothing is wrong with, and nobody would look at the account.
TEST(refusal, a_400_about_the_routers_account_is_not_the_clients) {
  const struct {
    const char *body;
    bool client;
  } cases[] = {
      {R"({"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}})", false},
      {R"({"type":"error","error":{"type":"invalid_request_error","message":"This organization has been disabled."}})", false},
      {R"({"type":"error","error":{"type":"permission_error","message":"no"}})", false},
      {R"({"error":{"message":"Billing hard limit has been reached","type":"invalid_request_error","code":"billing_hard_limit_reached"}})", false},
      {R"({"error":{"message":"Your organization must be verified to stream this model.","type":"invalid_request_error","code":"unsupported_value"}})", false},
      {R"({"error":{"message":"x","type":"insufficient_quota"}})", false},
      {R"({"error":{"message":"Invalid value: 'x' for 'temperature'","type":"invalid_request_error"},"echo":"your credit balance, billing"})", true},
      {R"({"error":{"message":"messages: at least one message is required","type":"invalid_request_error","code":null}})", true},
      {R"({"error":"your account"})", true},
      {"your credit balance is too low", true},
      {"", true}};
  for (const auto &c : cases)
    for (const int status : {400, 422}) {
      const refusal r = judge_refusal("openai", status, c.body, "");
      EXPECT_EQ(r.client, c.client) << c.body;
      EXPECT_FALSE(r.context) << c.body;
      EXPECT_EQ(r.message.find("account") != std::string::npos, !c.client) << r.message;
    }
}

TEST(refusal, the_log_never_holds_a_key_nor_two_lines) {
  const std::string text = for_log("Incorrect key sk-abc, sk-abc\r\nnext\x1b", "sk-abc");
  EXPECT_EQ(text, "Incorrect key [key], [key]  next ");
  EXPECT_EQ(for_log("key key", "key"), "[key] [key]");
  EXPECT_EQ(for_log(std::string(5000, 'x'), "k").size(), 512u);
  EXPECT_THAT(for_log(std::string(510, 'x') + "sk-abc", "sk-abc"), Not(HasSubstr("sk")));
}

}  // namespace
}  // namespace hive::providers
