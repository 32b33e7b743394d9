#include "gateway/error.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace hive::gateway {
namespace {

TEST(error, every_code_has_its_status) {
  const std::pair<const char *, int> cases[] = {
      {"request_invalid", 400},     {"context_length_exceeded", 400}, {"invalid_parameter", 400}, {"unauthorized", 401},
      {"model_forbidden", 403},     {"model_not_found", 404},         {"rate_limit_exceeded", 429}, {"token_limit_exceeded", 429},
      {"concurrency_limit_exceeded", 429},
      {"no_agents_available", 503}, {"no_capacity", 503},             {"agent_disconnected", 503}, {"backend_unavailable", 503},
      {"queue_full", 503},          {"backend_error", 502},           {"request_timeout", 504},   {"nonsense", 500}};
  for (const auto &[code, status] : cases) {
    EXPECT_EQ(make_error(code, "").status, status) << code;
    EXPECT_EQ(make_error(code, "").retry_after_s, status == 429 ? 1u : 0u) << code << ": whoever meets a limit is told when to come again";
    EXPECT_EQ(make_error(code, "", "router", 7).retry_after_s, 7u) << code;
  }
}

TEST(error, the_envelope_is_json_in_both_dialects_whatever_the_message_holds) {
  const api_error error = make_error("backend_error", "bad \xff \"quote\"\n", "backend");
  const auto openai = boost::json::parse(error_body(error, dialect::openai, "id-1"));
  EXPECT_EQ(openai.at("error").at("code").as_string(), "backend_error");
  EXPECT_EQ(openai.at("error").at("message").as_string(), "bad \xef\xbf\xbd \"quote\"\n");
  EXPECT_EQ(openai.at("error").at("source").as_string(), "backend");
  const auto anthropic = boost::json::parse(error_body(make_error("no_capacity", "x"), dialect::anthropic, ""));
  EXPECT_EQ(anthropic.at("type").as_string(), "error");
  EXPECT_EQ(anthropic.at("error").at("type").as_string(), "overloaded_error");
}

TEST(error, a_stream_ends_with_an_event_of_its_routes_dialect) {
  const api_error error = make_error("agent_disconnected", "gone\nfor good");
  const struct { dialect speaks; const char *start; const char *message_at; } cases[] = {
      {dialect::openai, "data: {\"error\":", "/error/message"},
      {dialect::anthropic, "event: error\ndata: {\"type\":\"error\",\"error\":", "/error/message"},
      {dialect::responses, "event: error\ndata: {\"type\":\"error\",\"code\":\"agent_disconnected\",", "/message"}};
  for (const auto &c : cases) {
    const std::string event = error_event(error, c.speaks, "id-1");
    EXPECT_EQ(event.rfind(c.start, 0), 0u) << event;
    EXPECT_TRUE(event.ends_with("}\n\n"));
    const auto data = boost::json::parse(std::string_view(event).substr(event.find("data: ") + 6));
    EXPECT_EQ(data.at_pointer(c.message_at).as_string(), "gone\nfor good");
    EXPECT_EQ(data.at_pointer("/error/type").as_string(), "overloaded_error");
  }
}

TEST(error, of_two_waits_for_the_same_reason_the_longer_one_counts) {
  api_error busy = make_error("no_capacity", "busy", "router", 1);
  keep_longer_wait(busy, "no_agents_available", 30);
  EXPECT_EQ(busy.retry_after_s, 1u) << "another reason says nothing of this one";
  keep_longer_wait(busy, "no_capacity", 7);
  EXPECT_EQ(busy.retry_after_s, 7u);
  keep_longer_wait(busy, "no_capacity", 2);
  EXPECT_EQ(busy.retry_after_s, 7u);
}

}  // namespace
}  // namespace hive::gateway
