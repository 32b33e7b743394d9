#include "agent/content_watch.hpp"

#include <gtest/gtest.h>

#include <string>

namespace hive::agent {
namespace {

// Naive variants: every byte is a sign of life; or a word that was not looked at is none.
TEST(content_watch, an_engine_that_only_pings_is_idle_and_one_that_speaks_now_and_then_is_not) {
  const std::string word = R"(data: {"choices":[{"delta":{"content":"x"}}]})" "\n\n";
  const std::string role = R"(data: {"choices":[{"delta":{"role":"assistant","content":""}}]})" "\n\n";
  content_watch w(100, 0);
  EXPECT_EQ(w.due_ns(), 125u);
  w.feed(word, 10);
  EXPECT_EQ(w.due_ns(), 125u) << "not looked at yet: the quarter is for it";
  for (const std::string &nothing : {role, std::string(": ping\n\n"), std::string("event: ping\ndata: {\"type\": \"ping\"}\n\n"),
                                     std::string(": pi"), std::string("ng\r\n\r\n"), std::string("data: {\"choices\":[]}\n\n")}) {
    w.feed(nothing, 60);
    EXPECT_EQ(w.due_ns(), 125u) << nothing;
  }
  w.feed(word, 120);
  EXPECT_EQ(w.due_ns(), 245u);
  w.feed(word, 240);
  EXPECT_EQ(w.due_ns(), 365u) << "the first read that is looked at may be the only one";
  w.forgive(300);
  EXPECT_EQ(w.due_ns(), 425u);
}

TEST(content_watch, looks_from_the_next_line_on_and_takes_what_it_cannot_read_for_content) {
  const std::string word = R"(data: {"choices":[{"delta":{"content":"x"}}]})";
  for (const std::string &end : {std::string("\n\n"), std::string("\r\n\r\n"), std::string("\r\r")}) {
    content_watch w(100, 0);
    w.feed(word.substr(0, 30), 10);
    w.feed(word.substr(30) + end, 30);
    EXPECT_EQ(w.due_ns(), 125u) << "half an event tells nothing";
    w.feed(word + end, 40);
    EXPECT_EQ(w.due_ns(), 165u);
  }
  content_watch long_line(100, 0), no_events(100, 0);
  long_line.feed("data: {\"choices\":", 10);
  long_line.feed("xxxxxxxx", 50);
  EXPECT_EQ(long_line.due_ns(), 175u);
  no_events.feed("these are no events\n", 50);
  EXPECT_EQ(no_events.due_ns(), 175u);
}

}  // namespace
}  // namespace hive::agent
