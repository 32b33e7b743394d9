// Streams event by event, with what the official APIs send written out, and the same however the reads are cut.
#include <gmock/gmock.h>

#include <boost/json.hpp>

#include "providers/event_reader.hpp"
#include "providers/translate.hpp"

namespace hive::providers {
namespace {

using ::testing::HasSubstr;
namespace json = boost::json;

struct outcome {
  std::string text;
  status end;
  bool over = false;
  token_counts usage;
};

answer_context stream_context(bool usage) {
  answer_context c;
  c.model = "asked-for";
  c.created_s = 7;
  c.include_usage = usage;
  return c;
}

outcome run(std::unique_ptr<stream_translator> t, std::string_view wire, size_t piece = std::string_view::npos) {
  outcome out;
  event_reader reader;
  const auto take = [&](std::string_view data) { return t->event(data, out.text); };
  while (!wire.empty() && out.end) {
    out.end = reader.feed(wire.substr(0, piece), take);
    wire.remove_prefix(std::min(piece, wire.size()));
  }
  if (out.end) out.end = reader.end(take);
  out.over = t->over();
  out.usage = t->usage();
  return out;
}

// "NAME DATA" of every event, with the JSON in one form.
std::vector<std::string> events_of(const std::string &text) {
  std::vector<std::string> out;
  std::string name;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("event: ")) name = line.substr(7) + " ";
    if (!line.starts_with("data: ")) continue;
    const std::string data = line.substr(6);
    out.push_back(name + (data == "[DONE]" ? data : json::serialize(json::parse(data))));
    name.clear();
  }
  return out;
}

constexpr const char *claude = R"(event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"claude-x",)"
R"("stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel\u00e9"}}

: a comment
event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"1}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t2","name":"g","input":{}}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":15}}

event: message_stop
data: {"type":"message_stop"}

)";

std::string chunk(const std::string &delta, const std::string &finish = "null") {
  return json::serialize(json::parse(R"({"id":"msg_1","object":"chat.completion.chunk","created":7,"model":"claude-x","choices":[{"index":0,"delta":)" + delta +
                                     R"(,"logprobs":null,"finish_reason":)" + finish + "}]}"));
}

TEST(stream_to_chat, golden) {
  const outcome whole = run(stream_to_chat(stream_context(true)), claude);
  ASSERT_TRUE(whole.end.ok()) << whole.end.text();
  EXPECT_TRUE(whole.over);
  EXPECT_EQ(whole.usage.prompt(), 25u);
  EXPECT_EQ(whole.usage.output, 15u);
  const std::vector<std::string> expected = {
      chunk(R"({"role":"assistant","content":""})"), chunk(R"({"content":"Hel\u00e9"})"), chunk(R"({"content":"lo"})"),
      chunk(R"({"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"f","arguments":""}}]})"),
      chunk(R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]})"), chunk(R"({"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]})"),
      chunk(R"({"tool_calls":[{"index":1,"id":"t2","type":"function","function":{"name":"g","arguments":""}}]})"),
      chunk(R"({"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]})"), chunk("{}", "\"tool_calls\""),
      json::serialize(json::parse(R"({"id":"msg_1","object":"chat.completion.chunk","created":7,"model":"claude-x","choices":[],
            "usage":{"prompt_tokens":25,"completion_tokens":15,"total_tokens":40}})")),
      "[DONE]"};
  EXPECT_EQ(events_of(whole.text), expected);
  for (const size_t piece : {1, 2, 7, 100}) EXPECT_EQ(run(stream_to_chat(stream_context(true)), claude, piece).text, whole.text) << piece;
  const outcome quiet = run(stream_to_chat(stream_context(false)), claude);
  EXPECT_THAT(quiet.text, ::testing::Not(HasSubstr("\"usage\""))) << "nobody asked for it";
  EXPECT_EQ(quiet.usage.output, 15u);
}

TEST(stream_to_chat, errors_and_cuts_are_no_end) {
  const std::string begun = std::string(claude).substr(0, std::string_view(claude).find("event: content_block_stop"));
  const outcome cut = run(stream_to_chat(stream_context(true)), begun);
  EXPECT_TRUE(cut.end.ok());
  EXPECT_FALSE(cut.over);
  EXPECT_THAT(cut.text, ::testing::Not(HasSubstr("[DONE]")));
  const outcome error = run(stream_to_chat(stream_context(true)),
                            begun + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n");
  EXPECT_THAT(error.end.text(), HasSubstr("overloaded_error busy"));
  EXPECT_FALSE(error.over);
  for (const char *wire : {"data: {\"type\":\"content_block_start\"}\n\n", "data: nonsense\n\n", "data: 1\n\n"})
    EXPECT_FALSE(run(stream_to_chat(stream_context(true)), wire).end.ok()) << wire;
}

constexpr const char *gpt = R"(data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"gpt-x",)"
R"("choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}

data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"gpt-x",)"
R"("choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"gpt-x",)"
R"("choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"gpt-x",)"
R"("choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"t2","type":"function","function":{"name":"g","arguments":""}}]},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":4,"total_tokens":15}}

data: [DONE]

)";

TEST(stream_to_messages, golden) {
  const outcome whole = run(stream_to_messages(stream_context(false)), gpt);
  ASSERT_TRUE(whole.end.ok()) << whole.end.text();
  EXPECT_TRUE(whole.over);
  EXPECT_EQ(whole.usage.prompt(), 11u);
  const auto event = [](const char *text) {
    const json::value v = json::parse(text);
    return std::string(v.at("type").as_string().c_str()) + " " + json::serialize(v);
  };
  const std::vector<std::string> expected = {
      event(R"({"type":"message_start","message":{"id":"c1","type":"message","role":"assistant","model":"gpt-x","content":[],
            "stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0}}})"),
      event(R"({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}})"),
      event(R"({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}})"),
      event(R"({"type":"content_block_stop","index":0})"),
      event(R"({"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{}}})"),
      event(R"({"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}})"),
      event(R"({"type":"content_block_stop","index":1})"),
      event(R"({"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t2","name":"g","input":{}}})"),
      event(R"({"type":"content_block_stop","index":2})"),
      event(R"({"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":11,"output_tokens":4}})"),
      event(R"({"type":"message_stop"})")};
  EXPECT_EQ(events_of(whole.text), expected);
  for (const size_t piece : {1, 2, 7, 100}) EXPECT_EQ(run(stream_to_messages(stream_context(false)), gpt, piece).text, whole.text) << piece;
}

TEST(stream_to_messages, errors_cuts_and_mixed_calls_are_no_end) {
  const std::string begun = std::string(gpt).substr(0, std::string_view(gpt).find("data: [DONE]"));
  const outcome cut = run(stream_to_messages(stream_context(false)), begun);
  EXPECT_FALSE(cut.over);
  EXPECT_THAT(cut.text, ::testing::Not(HasSubstr("message_stop")));
  const outcome error = run(stream_to_messages(stream_context(false)),
                            begun + "data: {\"error\":{\"message\":\"out of tokens\",\"type\":\"server_error\"}}\n\n");
  EXPECT_THAT(error.end.text(), HasSubstr("out of tokens"));
  const outcome mixed = run(stream_to_messages(stream_context(false)),
                            begun + R"(data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"x"}}]}}]})" + "\n\n");
  EXPECT_THAT(mixed.end.text(), HasSubstr("mixed"));
  EXPECT_FALSE(run(stream_to_messages(stream_context(false)), "data: [DONE]\n\n").end.ok()) << "no answer at all";
  EXPECT_FALSE(run(stream_to_messages(stream_context(false)), "data: {\"foo\":1}\n\ndata: [DONE]\n\n").end.ok()) << "nor is JSON without choices";
}

TEST(event_reader, lines_as_the_standard_has_them) {
  const struct {
    const char *wire;
    std::vector<std::string> data;
  } cases[] = {{"data: a\n\ndata: b\n\n", {"a", "b"}},
               {"\xEF\xBB\xBF" "data:a\r\n\r\ndata:  b\r\n\r\n", {"a", " b"}},
               {"data: a\rdata: b\r\rdata\r\r", {"a\nb", ""}},
               {"event: x\nid: 1\n: c\nretry: 3\n\ndata: a\n\n", {"a"}},
               {"datax: no\n\ndata: the last without its end", {"the last without its end"}}};
  for (const auto &c : cases)
    for (const size_t piece : {size_t{1}, size_t{3}, size_t{1000}}) {
      event_reader reader;
      std::vector<std::string> seen;
      const auto take = [&](std::string_view data) {
        seen.emplace_back(data);
        return status();
      };
      std::string_view rest = c.wire;
      while (!rest.empty()) {
        ASSERT_TRUE(reader.feed(rest.substr(0, piece), take).ok());
        rest.remove_prefix(std::min(piece, rest.size()));
      }
      ASSERT_TRUE(reader.end(take).ok());
      EXPECT_EQ(seen, c.data) << c.wire << " in pieces of " << piece;
    }
  event_reader endless;
  const std::string line(event_reader::max_event + 1, 'x');
  EXPECT_FALSE(endless.feed(line, [](std::string_view) { return status(); }).ok());
}

}  // namespace
}  // namespace hive::providers
