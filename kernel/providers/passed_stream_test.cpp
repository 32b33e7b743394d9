// Streams of the client's own API on their way through: bytes as they came however they are cut, what is an answer, what is whole.
#include "providers/passed_stream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace hive::providers {
namespace {

struct passed_outcome {
  std::string out;
  bool answered = false, ended = false;
};

passed_outcome pass_through(api spoken, const std::string &bytes, size_t step = std::string::npos, size_t most = 256 * 1024) {
  passed_stream stream(spoken, "sk-secret", most);
  passed_outcome p;
  for (size_t at = 0; at < bytes.size(); at += std::min(step, bytes.size() - at)) stream.feed(std::string_view(bytes).substr(at, step), p.out);
  stream.end(p.out);
  p.answered = stream.answered();
  p.ended = stream.ended();
  return p;
}

const std::string content_chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";

// Naive variant: a cut between CR and LF ends the event, or the LF is lost.
TEST(passed_stream, every_byte_passes_as_it_came_however_it_is_cut) {
  for (const char *line : {"\n", "\r\n", "\r"}) {
    const std::string bytes = std::string("\xEF\xBB\xBF: hello") + line + line + "event: x" + line + "data: {\"choices\":[{}]," + line +
                              "data: \"error\":null}" + line + line + line +
                              "data: nothing sk-less" + line + line + "data: [DONE]" + line + line;
    for (const size_t step : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, std::string::npos}) {
      const passed_outcome p = pass_through(api::chat, bytes, step);
      EXPECT_EQ(p.out, bytes) << step;
      EXPECT_TRUE(p.answered) << step;
      EXPECT_TRUE(p.ended) << step;
    }
  }
}

TEST(passed_stream, an_event_passes_when_it_is_complete_and_comments_do_not_wait) {
  passed_stream stream(api::chat, "sk-secret", 1024);
  std::string out;
  stream.feed(": ping\n\ndata: {\"choi", out);
  EXPECT_EQ(out, ": ping\n\n");
  stream.feed("ces\":[{}]}\n\n", out);
  EXPECT_EQ(out, ": ping\n\ndata: {\"choices\":[{}]}\n\n");
}

// Naive variant: whatever begins with a brace is an answer.
TEST(passed_stream, an_answer_has_an_event_of_its_api) {
  const struct {
    api spoken;
    const char *events;
    bool answered;
  } cases[] = {{api::chat, "", false},
               {api::chat, "data: [DONE]\n\n", false},
               {api::chat, "data: {\"foo\":1}\n\n", false},
               {api::chat, "data: {\"choices\":\n\n", false},
               {api::chat, "data: {\"choices\":[]}\n\n", false},
               {api::chat, "data: {\"type\":\"message_start\"}\n\n", false},
               {api::completions, "data: {\"choices\":[{\"text\":\"a\"}]}", true},
               {api::messages, "data: {\"choices\":[{}]}\n\n", false},
               {api::messages, "event: ping\ndata: {\"type\":\"ping\"}\n\n", false},
               {api::messages, "event: message_start\ndata: {\"type\":\"message_start\"}\n\n", true},
               {api::responses, "data: {\"type\":\"other\"}\n\n", false},
               {api::responses, "data: {\"type\":\"response.created\"}\n\n", true}};
  for (const auto &c : cases) EXPECT_EQ(pass_through(c.spoken, c.events).answered, c.answered) << c.events;
}

// Naive variant: the end of the body is the end of the answer.
TEST(passed_stream, a_whole_answer_has_the_end_of_its_api_or_an_error) {
  const std::string start = "data: {\"type\":\"message_start\"}\n\n", created = "data: {\"type\":\"response.created\"}\n\n";
  const struct {
    api spoken;
    std::string events;
    bool ended;
  } cases[] = {{api::chat, content_chunk, false},
               {api::chat, content_chunk + "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n", false},
               {api::chat, content_chunk + "data: [DONE]", true},
               {api::chat, content_chunk + "data: {\"error\":{\"message\":\"x\"}}\n\n", true},
               {api::messages, start, false},
               {api::messages, start + "data: {\"type\":\"text\",\"text\":\"message_stop\"}\n\n", false},
               {api::messages, start + "data: [DONE]\n\n", false},
               {api::messages, start + "data: {\"type\":\"message_stop\"}\n\n", true},
               {api::messages, start + "data: {\"type\":\"error\"}\n\n", true},
               {api::responses, created, false},
               {api::responses, created + "data: {\"type\":\"response.incomplete\"}\n\n", true},
               {api::responses, created + "data: {\"type\":\"response.failed\"}\n\n", true}};
  for (const auto &c : cases) EXPECT_EQ(pass_through(c.spoken, c.events).ended, c.ended) << c.events;
}

// Naive variants: an error passes as it came; every text with the key in it is changed.
TEST(passed_stream, the_key_is_hidden_in_errors_and_stays_in_content) {
  for (const char *each : {"data: {\"error\":{\"message\":\"of sk-secret\"}}\n\n", "event: error\ndata: {\"message\":\"of sk-secret\"}\n\n",
                                  "data: {\"type\":\"error\",\"x\":\"sk-secret\"}\n\n", "data: no JSON of sk-secret\n\n"}) {
    const std::string event = each;
    for (const size_t step : {size_t{1}, std::string::npos}) {
      std::string told = event;
      told.replace(told.find("sk-secret"), 9, "[key]");
      EXPECT_EQ(pass_through(api::chat, content_chunk + event, step).out, content_chunk + told);
      EXPECT_EQ(pass_through(api::chat, event, step).out, told);
    }
  }
  const std::string good = "data: {\"choices\":[{\"delta\":{\"content\":\"event: error of sk-secret\"}}]}\n\n";
  EXPECT_EQ(pass_through(api::chat, good).out, good);
}

TEST(passed_stream, an_event_that_is_too_long_passes_unread_and_the_next_is_read_again) {
  const std::string large = "data: {\"choices\":[{\"delta\":{\"content\":\"" + std::string(5000, 'x') + "\"}}]}\n\n";
  for (const size_t step : {size_t{100}, std::string::npos}) {
    const passed_outcome last = pass_through(api::chat, large, step, 1000);
    EXPECT_EQ(last.out, large);
    EXPECT_TRUE(last.answered);
    EXPECT_TRUE(last.ended) << "it may have been the end";
    const passed_outcome cut = pass_through(api::chat, large + content_chunk, step, 1000);
    EXPECT_EQ(cut.out, large + content_chunk);
    EXPECT_FALSE(cut.ended);
  }
}

}  // namespace
}  // namespace hive::providers
