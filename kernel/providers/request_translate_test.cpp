// Requests of one API in the form of the other (docs/providers.md), each case written out.
#include <gmock/gmock.h>

#include <boost/json.hpp>

#include "providers/translate.hpp"

namespace hive::providers {
namespace {

using ::testing::HasSubstr;
namespace json = boost::json;

struct pair_of_requests {
  const char *what, *given, *made;
};

void expect_same(const result<std::string> &made, const pair_of_requests &c) {
  ASSERT_TRUE(made) << c.what << ": " << made.why().text();
  EXPECT_EQ(json::parse(*made), json::parse(c.made)) << c.what << ": " << *made;
}

TEST(messages_request, table) {
  const pair_of_requests cases[] = {
      {"the model is the policy's, system is lifted, 4096 tokens unless told",
       R"({"model":"orig","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]})",
       R"({"model":"claude","max_tokens":4096,"system":"be brief","messages":[{"role":"user","content":"hi"}]})"},
      {"systems are joined by newline, wherever they stand; 0 is no limit",
       R"({"model":"o","max_tokens":0,"messages":[{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
           {"role":"user","content":"x"},{"role":"system","content":"c"}]})",
       R"({"model":"claude","max_tokens":4096,"system":"a\nb\nc","messages":[{"role":"user","content":"x"}]})"},
      {"the newer limit wins; sampling and stops", R"({"model":"o","max_tokens":5,"max_completion_tokens":7,"temperature":0,"top_p":0.5,
           "stop":["END"," "],"stream":true,"seed":1,"logit_bias":{"1":2},"messages":[{"role":"user","content":"x"}]})",
       R"({"model":"claude","max_tokens":7,"temperature":0,"top_p":0.5,"stop_sequences":["END"],"stream":true,"messages":[{"role":"user","content":"x"}]})"},
      {"OpenAI's temperatures end at 2", R"({"model":"o","temperature":1.5,"stop":"E","messages":[{"role":"user","content":"x"}]})",
       R"({"model":"claude","max_tokens":4096,"temperature":1,"stop_sequences":["E"],"messages":[{"role":"user","content":"x"}]})"},
      {"images in the request and at a url", R"({"model":"o","messages":[{"role":"user","content":[{"type":"text","text":"look"},
           {"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}},{"type":"image_url","image_url":"https://x/y.jpg"}]}]})",
       R"({"model":"claude","max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"look"},
           {"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}},
           {"type":"image","source":{"type":"url","url":"https://x/y.jpg"}}]}]})"},
      {"tools, their calls, and all results of a turn in one message with what the user says next",
       R"({"model":"o","tools":[{"type":"function","function":{"name":"f","description":"d",
             "parameters":{"type":"object","properties":{"n":{"type":"number"}}}}},
           {"type":"function","function":{"name":"g"}}],"tool_choice":"required","parallel_tool_calls":false,
           "messages":[{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[
             {"id":"1","type":"function","function":{"name":"f","arguments":"{\"n\":1.5}"}},
             {"id":"2","type":"function","function":{"name":"g","arguments":""}}]},
             {"role":"tool","tool_call_id":"1","content":"one"},{"role":"tool","tool_call_id":"2","content":[{"type":"text","text":"two"}]},
             {"role":"user","content":"and?"}]})",
       R"({"model":"claude","max_tokens":4096,"tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{"n":{"type":"number"}}}},
           {"name":"g","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"any","disable_parallel_tool_use":true},
           "messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"n":1.5}},
             {"type":"tool_use","id":"2","name":"g","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"one"},
             {"type":"tool_result","tool_use_id":"2","content":"two"},{"type":"text","text":"and?"}]}]})"},
      {"a chosen tool, and a schema for the answer", R"({"model":"o","tools":[{"type":"function","function":{"name":"f"}}],
           "tool_choice":{"type":"function","function":{"name":"f"}},
           "response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},
           "messages":[{"role":"user","content":"x"}]})",
       R"({"model":"claude","max_tokens":4096,"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"tool","name":"f"},
           "output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}},"messages":[{"role":"user","content":"x"}]})"},
      {"empty texts are no blocks there",
       R"({"model":"o","messages":[{"role":"user","content":"x"},{"role":"assistant","content":""},{"role":"user","content":"y"}]})",
       R"({"model":"claude","max_tokens":4096,"messages":[{"role":"user","content":"x"},{"role":"user","content":"y"}]})"},
      {"broken arguments are kept",
       R"({"model":"o","messages":[{"role":"user","content":"x"},
           {"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"n\":"}}]}]})",
       R"({"model":"claude","max_tokens":4096,"messages":[{"role":"user","content":"x"},
           {"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"arguments":"{\"n\":"}}]}]})"},
  };
  for (const auto &c : cases) expect_same(messages_request(c.given, "claude"), c);
}

TEST(messages_request, refusals_say_what_and_where) {
  const struct {
    const char *given, *what, *where;
  } cases[] = {
      {R"({"messages":[{"role":"system","content":"only"}]})", "non-system message", "messages"},
      {R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"input_audio","input_audio":{}}]}]})",
       "input_audio", "messages[0].content[1]"},
      {R"({"n":2,"messages":[{"role":"user","content":"x"}]})", "n > 1", "n"},
      {R"({"modalities":["text","audio"],"messages":[{"role":"user","content":"x"}]})", "modality", "modalities"},
      {R"({"tools":[{"type":"web_search"}],"messages":[{"role":"user","content":"x"}]})", "tool", "tools[0]"},
      {R"({"response_format":{"type":"json_object"},"messages":[{"role":"user","content":"x"}]})", "response_format", "response_format"},
      {R"({"messages":[{"role":"function","content":"x"}]})", "role \"function\"", "messages[0]"},
      {R"({"messages":["x"]})", "no object", "messages[0]"},
      {"[]", "no JSON object", ""},
  };
  for (const auto &c : cases) {
    const auto made = messages_request(c.given, "claude");
    ASSERT_FALSE(made) << c.given;
    EXPECT_THAT(made.why().message(), HasSubstr(c.what));
    EXPECT_EQ(made.why().path(), c.where) << c.given;
  }
}

TEST(chat_request, table) {
  const pair_of_requests cases[] = {
      {"top-level system, which the old adapter lost", R"({"model":"o","max_tokens":9,"system":"be brief","messages":[{"role":"user","content":"hi"}]})",
       R"({"model":"gpt","max_completion_tokens":9,"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]})"},
      {"blocks, images, documents, and sampling",
       R"({"model":"o","max_tokens":9,"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}],
           "temperature":0,"top_k":3,"stop_sequences":["E"],"messages":[{"role":"user","content":[{"type":"text","text":"look"},
           {"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}},
           {"type":"document","title":"t.pdf","source":{"type":"base64","media_type":"application/pdf","data":"RA=="}}]}]})",
       R"({"model":"gpt","max_completion_tokens":9,"temperature":0,"stop":["E"],
           "messages":[{"role":"system","content":"a\nb"},{"role":"user","content":[{"type":"text","text":"look"},
           {"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}},
           {"type":"file","file":{"filename":"t.pdf","file_data":"data:application/pdf;base64,RA=="}}]}]})"},
      {"tool calls and results; thinking is its model's own",
       R"({"model":"o","max_tokens":9,"stream":true,"tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}],
           "tool_choice":{"type":"any","disable_parallel_tool_use":true},"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[
             {"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"well"},{"type":"tool_use","id":"1","name":"f","input":{"n":1}}]},
             {"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"one"},
               {"type":"image","source":{"type":"url","url":"https://x"}}]},
             {"type":"text","text":"and?"}]}]})",
       R"({"model":"gpt","max_completion_tokens":9,"stream":true,"stream_options":{"include_usage":true},
           "tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}],
           "tool_choice":"required","parallel_tool_calls":false,"messages":[{"role":"user","content":"go"},{"role":"assistant","content":"well","tool_calls":[
             {"id":"1","type":"function","function":{"name":"f","arguments":"{\"n\":1}"}}]},{"role":"tool","tool_call_id":"1","content":"one"},
             {"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x"}},{"type":"text","text":"and?"}]}]})"},
      {"a schema for the answer",
       R"({"model":"o","max_tokens":9,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}},
           "messages":[{"role":"user","content":"x"}]})",
       R"({"model":"gpt","max_completion_tokens":9,
           "response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"},"strict":true}},
           "messages":[{"role":"user","content":"x"}]})"},
  };
  for (const auto &c : cases) expect_same(chat_request(c.given, "gpt"), c);
}

TEST(chat_request, refusals_say_what_and_where) {
  const struct {
    const char *given, *where;
  } cases[] = {
      {R"({"messages":[],"system":"only"})", "messages"},
      {R"({"messages":[{"role":"user","content":[{"type":"search_result"}]}]})", "messages[0].content[0]"},
      {R"({"tools":[{"type":"web_search_20250305","name":"web_search"}],"messages":[{"role":"user","content":"x"}]})", "tools[0]"},
      {R"({"container":"c","messages":[{"role":"user","content":"x"}]})", "container"},
      {R"({"messages":[{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}]})", "messages[0].content[0]"},
  };
  for (const auto &c : cases) {
    const auto made = chat_request(c.given, "gpt");
    ASSERT_FALSE(made) << c.given;
    EXPECT_EQ(made.why().path(), c.where) << c.given;
  }
}

}  // namespace
}  // namespace hive::providers
