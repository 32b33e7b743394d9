#include "http/sse_scanner.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace hive::http {
namespace {

stream_facts scan(std::string_view wire, const std::vector<size_t> &cuts = {}) {
  sse_scanner s;
  size_t from = 0;
  for (const size_t cut : cuts) {
    // A copy of its exact size, so that ASan sees a read beyond.
    const std::vector<char> piece(wire.begin() + static_cast<long>(from), wire.begin() + static_cast<long>(cut));
    s.feed({piece.data(), piece.size()});
    from = cut;
  }
  s.feed(wire.substr(from));
  s.end();
  return s.facts();
}

std::string chat(const std::string &delta) { return "data: {\"choices\":[{\"index\":0,\"delta\":" + delta + "}]}\n\n"; }

TEST(sse_scanner, knows_content_from_everything_else) {
  const struct {
    std::string wire;
    bool content;
  } cases[] = {
      {chat(R"({"role":"assistant","content":""})"), false},
      {chat(R"({"role":"assistant","content":null})"), false},
      {chat(R"({"content":"x"})"), true},
      {chat(R"({"reasoning":"x"})"), true},
      {chat(R"({"reasoning_content":"x"})"), true},
      {chat(R"({"refusal":"x"})"), true},
      {chat(R"({"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]})"), true},
      {chat(R"({"tool_calls":[]})"), false},
      {"data:{\"choices\":[{\"text\":\"x\"}]}\n\n", true},
      {"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n", false},
      {": content\n\n", false},
      {"event: ping\ndata: {\"type\":\"ping\"}\n\n", false},
      {"data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n", false},
      {"data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"tool_use\",\"input\":{}}}\n\n", true},
      {"data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n", true},
      {"data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"x\"}}\n\n", true},
      {"data: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n", true},
      {"data: {\"error\":{\"message\":\"content\"}}\n\n", false},
      {"data: [DONE]\n\n", false},
      {"data: not json \"content\":\"x\"\n\n", false},
      {"xdata: {\"choices\":[{\"text\":\"x\"}]}\n\n", false},
  };
  for (const auto &c : cases) EXPECT_EQ(scan(c.wire).content, c.content) << c.wire;
}

TEST(sse_scanner, errors_are_seen_in_every_dialect) {
  for (const char *wire : {"data: {\"error\":{\"message\":\"m\"}}\n\n", "data: {\"error\":\"m\"}\n\n", "event: error\ndata: {\"x\":\"m\"}\n\n",
                           "event: error\ndata: m\n\n", "error: m\n\n", "data: {\"type\":\"error\",\"error\":{\"type\":\"m\"}}\n\n",
                           "data: {\"object\":\"error\",\"message\":\"m\"}\n\n"}) {
    const stream_facts f = scan(wire);
    EXPECT_TRUE(f.error) << wire;
    EXPECT_NE(f.error_text.find('m'), std::string::npos) << wire;
  }
  EXPECT_FALSE(scan("data: {\"error\":null,\"choices\":[]}\n\n").error);
  EXPECT_FALSE(scan(chat(R"({"content":"{\"error\": \"no\"} [DONE]"})")).error);
  EXPECT_FALSE(scan(chat(R"({"content":"data: [DONE]"})")).done);
}

TEST(sse_scanner, usage_merges_over_events_and_dialects) {
  const stream_facts open_ai =
      scan("data: {\"choices\":[],\"usage\":null}\n\ndata: {\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}\n\n"
           "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":9,\"total_tokens\":14}}\n\n");
  EXPECT_TRUE(open_ai.usage.present);
  EXPECT_EQ(open_ai.usage.prompt, 5u);
  EXPECT_EQ(open_ai.usage.completion, 9u);
  const stream_facts anthropic =
      scan("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1,"
           "\"cache_read_input_tokens\":29,\"cache_creation_input_tokens\":2,\"output_tokens\":0}}}\n\n"
           "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":7}}\n\n"
           "data: {\"type\":\"message_stop\"}\n\n");
  EXPECT_EQ(anthropic.usage.prompt, 32u);
  EXPECT_EQ(anthropic.usage.completion, 7u);
  EXPECT_TRUE(anthropic.finished);
  EXPECT_TRUE(anthropic.done);
  EXPECT_TRUE(scan("data: {\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":0}}\n\n").usage.present) << "zeros are real";
  EXPECT_FALSE(scan("data: {\"usage\":{}}\n\n").usage.present);
}

// Naive variants: tokens are counted where the engine tells them; an empty delta is one.
TEST(sse_scanner, a_meter_takes_the_engines_counts_and_the_text_of_each_delta) {
  const stream_facts open_ai = scan(chat(R"({"content":"Hello"})") + chat(R"({"content":""})") + chat(R"({"content":" world"})") +
                                    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":42,\"completion_tokens\":7,\"total_tokens\":49}}\n\ndata: [DONE]\n\n");
  EXPECT_EQ(open_ai.usage.prompt, 42u);
  EXPECT_EQ(open_ai.usage.completion, 7u);
  const auto delta = [](const std::string &text) {
    return "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"" + text + "\"}}\n\n";
  };
  const stream_facts anthropic =
      scan("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":42,\"output_tokens\":1}}}\n\n" +
           delta("Hello") + delta("") + delta(" world") +
           "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\n"
           "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
  EXPECT_EQ(anthropic.usage.prompt, 42u);
  EXPECT_EQ(anthropic.usage.completion, 9u);
  for (const stream_facts *f : {&open_ai, &anthropic}) {
    EXPECT_TRUE(f->usage.present);
    EXPECT_EQ(f->delta_bytes, std::string_view("Hello world").size());
    EXPECT_EQ(f->delta_pieces, 2u) << "one for each that holds text";
    EXPECT_TRUE(f->done);
  }
}

TEST(sse_scanner, an_event_in_two_writes_counts_once_when_it_is_whole) {
  const std::string event = chat(R"({"content":"Hello world"})");
  sse_scanner s;
  s.feed(std::string_view(event).substr(0, 30));
  EXPECT_EQ(s.facts().delta_bytes, 0u);
  s.feed(std::string_view(event).substr(30));
  EXPECT_EQ(s.facts().delta_bytes, 11u);
  EXPECT_EQ(s.facts().delta_pieces, 1u);
  EXPECT_EQ(s.facts().events, 1u);
}

void expect_same(const stream_facts &a, const stream_facts &b) {
  EXPECT_EQ(a.content, b.content);
  EXPECT_EQ(a.error, b.error);
  EXPECT_EQ(a.done, b.done);
  EXPECT_EQ(a.finished, b.finished);
  EXPECT_EQ(a.unread, b.unread);
  EXPECT_EQ(a.usage.prompt, b.usage.prompt);
  EXPECT_EQ(a.usage.completion, b.usage.completion);
  EXPECT_EQ(a.delta_bytes, b.delta_bytes);
  EXPECT_EQ(a.delta_pieces, b.delta_pieces);
  EXPECT_EQ(a.events, b.events);
  EXPECT_EQ(a.error_text, b.error_text);
}

TEST(sse_scanner, any_split_and_any_line_end_give_the_same_facts) {
  const std::string lf = ": hi\nid: 1\nretry: 5\n" + chat(R"({"content":"gr\u00fc\u00df \ud83d\ude00 ü"})") +
                         "event: x\ndata:{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" +
                         "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":9}}\n\ndata: [DONE]";
  const stream_facts expected = scan(lf);
  EXPECT_TRUE(expected.content && expected.finished && expected.done);
  EXPECT_EQ(expected.delta_pieces, 1u);
  EXPECT_EQ(expected.events, 4u);
  for (const char *ending : {"\n", "\r", "\r\n"}) {
    std::string wire = "\xEF\xBB\xBF";
    for (const char c : lf) {
      if (c == '\n') wire += ending;
      else wire += c;
    }
    for (size_t cut = 0; cut <= wire.size(); ++cut) expect_same(scan(wire, {cut}), expected);
    std::vector<size_t> each;
    for (size_t i = 1; i < wire.size(); ++i) each.push_back(i);
    expect_same(scan(wire, each), expected);
  }
}

TEST(sse_scanner, lines_beyond_the_bound_are_marked_and_cost_no_memory) {
  sse_scanner s;
  const std::string piece(1024, 'x');
  s.feed("data: \"");
  for (int i = 0; i < 8 * 1024; ++i) s.feed(piece);
  s.feed("\"\n\n" + chat(R"({"content":"after"})"));
  EXPECT_TRUE(s.facts().unread);
  EXPECT_TRUE(s.facts().content);
  EXPECT_EQ(s.facts().delta_bytes, 5u);
}

TEST(sse_scanner, random_bytes_give_the_same_facts_however_cut) {
  std::mt19937 random(5);
  const std::vector<std::string> parts = {"data: ", "data:", "\r", "\n", "\r\n", "\n\n", "{\"choices\":[{\"text\":\"x\"}]}", "[DONE]",
                                          "event: error", "{\"error\":1}", "\xEF\xBB\xBF", ":", " ", "{", "error: y", "\xff"};
  for (int round = 0; round < 5000; ++round) {
    std::string wire;
    for (unsigned n = random() % 20; n > 0; --n) wire += parts[random() % parts.size()];
    std::vector<size_t> cuts;
    for (size_t i = 1; i < wire.size(); ++i) {
      if (random() % 4 == 0) cuts.push_back(i);
    }
    expect_same(scan(wire), scan(wire, cuts));
  }
}

}  // namespace
}  // namespace hive::http
