// Whole answers of one API in the form of the other (docs/providers.md).
#include <gmock/gmock.h>

#include <boost/json.hpp>

#include "providers/translate.hpp"

namespace hive::providers {
namespace {

using ::testing::HasSubstr;
namespace json = boost::json;

answer_context context(bool tools = false) {
  answer_context c;
  c.model = "asked-for";
  c.processed_by = "provider:anthropic";
  c.created_s = 1700000000;
  c.tools = tools;
  return c;
}

TEST(chat_answer, text_and_usage) {
  const auto made = chat_answer(R"({"id":"msg_1","type":"message","role":"assistant","model":"claude-x",
      "content":[{"type":"text","text":"hel"},{"type":"text","text":"lo"}],
      "stop_reason":"end_turn","usage":{"input_tokens":11,"output_tokens":4}})", context());
  ASSERT_TRUE(made) << made.why().text();
  EXPECT_EQ(json::parse(made->text), json::parse(R"({"id":"msg_1","object":"chat.completion","created":1700000000,"model":"claude-x",
      "choices":[{"index":0,"message":{"role":"assistant","content":"hello","refusal":null},"logprobs":null,"finish_reason":"stop"}],
      "usage":{"prompt_tokens":11,"completion_tokens":4,"total_tokens":15},"processed_by":"provider:anthropic"})"));
  EXPECT_EQ(made->usage.prompt(), 11u);
  EXPECT_EQ(made->usage.output, 4u);
}

TEST(chat_answer, caches_are_part_of_the_prompt) {
  const auto made = chat_answer(R"({"content":[{"type":"text","text":"x"}],
      "usage":{"input_tokens":1,"cache_read_input_tokens":20,"cache_creation_input_tokens":300,"output_tokens":4}})", context());
  ASSERT_TRUE(made);
  const json::value usage = json::parse(made->text).at("usage");
  EXPECT_EQ(usage.at("prompt_tokens"), 321);
  EXPECT_EQ(usage.at("total_tokens"), 325);
  EXPECT_EQ(usage.at("prompt_tokens_details").at("cached_tokens"), 20);
  EXPECT_EQ(json::parse(made->text).at("model"), "asked-for");
}

TEST(chat_answer, tool_calls_are_an_answer_to_who_offered_tools) {
  const char *text = R"({"content":[{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}],"stop_reason":"tool_use"})";
  const auto made = chat_answer(text, context(true));
  ASSERT_TRUE(made) << made.why().text();
  const json::value choice = json::parse(made->text).at("choices").at(0);
  EXPECT_EQ(choice.at("finish_reason"), "tool_calls");
  EXPECT_TRUE(choice.at("message").at("content").is_null());
  EXPECT_EQ(choice.at("message").at("tool_calls"), json::parse(R"([{"id":"t1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}])"));
  const auto unasked = chat_answer(text, context(false));
  ASSERT_FALSE(unasked);
  EXPECT_THAT(unasked.why().message(), HasSubstr("no text content"));
}

TEST(chat_answer, what_is_no_answer_is_refused) {
  for (const char *text : {"", "{}", "[]", R"({"content":"x"})", R"({"content":[]})", R"({"content":[{"type":"thinking","thinking":"x"}]})"})
    EXPECT_FALSE(chat_answer(text, context(true))) << text;
}

TEST(reasons, both_ways) {
  const std::pair<const char *, const char *> to_chat[] = {{"max_tokens", "length"}, {"tool_use", "tool_calls"}, {"end_turn", "stop"}, {"stop", "stop"},
      {"stop_sequence", "stop"}, {"", "stop"}, {"refusal", "content_filter"}, {"model_context_window_exceeded", "length"}};
  for (const auto &[from, to] : to_chat) EXPECT_EQ(finish_reason_of(from), to) << from;
  const std::pair<const char *, const char *> to_messages[] = {{"stop", "end_turn"}, {"length", "max_tokens"}, {"tool_calls", "tool_use"},
      {"content_filter", "refusal"}, {"", "end_turn"}};
  for (const auto &[from, to] : to_messages) EXPECT_EQ(stop_reason_of(from), to) << from;
}

TEST(messages_answer, text_tools_and_usage) {
  const auto made = messages_answer(R"({"id":"chatcmpl-1","object":"chat.completion","model":"gpt-x",
      "choices":[{"index":0,"message":{"role":"assistant","content":"hi",
      "tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":[1]}"}},
        {"id":"2","type":"function","function":{"name":"g","arguments":""}}]},"finish_reason":"stop"}],
      "usage":{"prompt_tokens":11,"completion_tokens":4,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":8}}})", context());
  ASSERT_TRUE(made) << made.why().text();
  EXPECT_EQ(json::parse(made->text), json::parse(R"({"id":"chatcmpl-1","type":"message","role":"assistant","model":"gpt-x",
      "content":[{"type":"text","text":"hi"},
      {"type":"tool_use","id":"1","name":"f","input":{"a":[1]}},{"type":"tool_use","id":"2","name":"g","input":{}}],
      "stop_reason":"tool_use","stop_sequence":null,
      "usage":{"input_tokens":3,"output_tokens":4,"cache_read_input_tokens":8},"processed_by":"provider:anthropic"})")) << made->text;
  EXPECT_EQ(made->usage.prompt(), 11u);
}

TEST(messages_answer, what_is_no_answer_is_refused) {
  const auto empty = messages_answer(R"({"choices":[]})", context());
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.why().message(), HasSubstr("no choices"));
  for (const char *text : {"", "{}", R"({"choices":[{}]})", R"({"choices":["x"]})"}) EXPECT_FALSE(messages_answer(text, context())) << text;
}

}  // namespace
}  // namespace hive::providers
