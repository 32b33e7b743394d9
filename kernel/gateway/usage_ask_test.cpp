#include "gateway/usage_ask.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace hive::gateway {
namespace {

request_scan scan_of(const std::string &body) {
  std::string padded = body;
  padded.reserve(body.size() + http::body_padding);
  request_scanner scanner;
  request_scan out;
  const auto error = scanner.scan(padded, out);
  EXPECT_FALSE(error) << error->message;
  return out;
}

TEST(usage_ask, the_question_is_added_and_no_other_byte_changes) {
  const struct { const char *body, *asked; } cases[] = {
      {R"({"model":"m","stream":true})", R"({"stream_options":{"include_usage":true},"model":"m","stream":true})"},
      {"\xEF\xBB\xBF {\n \"model\" : \"m\",\"stream\":true}\n",
       "\xEF\xBB\xBF {\"stream_options\":{\"include_usage\":true},\n \"model\" : \"m\",\"stream\":true}\n"},
      {R"({"model":"m","stream_options":{},"stream":true})", R"({"model":"m","stream_options":{"include_usage":true},"stream":true})"},
      {R"({"model":"m","stream_options":{ },"stream":true})", R"({"model":"m","stream_options":{"include_usage":true },"stream":true})"},
      {R"({"model":"m","stream_options":{"a":{"include_usage":false}},"stream":true})",
       R"({"model":"m","stream_options":{"include_usage":true,"a":{"include_usage":false}},"stream":true})"},
  };
  for (const auto &c : cases) {
    const auto asked = with_usage_asked(c.body, scan_of(c.body), nullptr);
    ASSERT_TRUE(asked) << c.body;
    EXPECT_EQ(*asked, c.asked);
    EXPECT_TRUE(scan_of(*asked).include_usage) << *asked;
    EXPECT_GE(asked->capacity(), asked->size() + http::body_padding);
  }
}

TEST(usage_ask, what_the_client_said_itself_is_left_alone) {
  for (const char *body : {R"({"model":"m"})", R"({"model":"m","stream":false})", R"({"model":"m","stream":"true"})",
                           R"({"model":"m","stream":true,"stream_options":{"include_usage":true}})",
                           R"({"model":"m","stream":true,"stream_options":{"include_usage":false}})",
                           R"({"model":"m","stream":true,"stream_options":{"include_usage":null}})",
                           R"({"model":"m","stream":true,"stream_options":null})", R"({"model":"m","stream":true,"stream_options":[]})"})
    EXPECT_FALSE(with_usage_asked(body, scan_of(body), nullptr)) << body;
}

// Naive variant: the copy is a string like any other, and the count went with the body it was made of.
TEST(usage_ask, the_body_with_the_question_counts_as_long_as_anybody_holds_it) {
  byte_budget budget(0);
  byte_share share(budget);
  const std::string body = R"({"model":"m","stream":true,"user":")" + std::string(256 * 1024, 'u') + "\"}";
  http::body_ptr asked = with_usage_asked(body, scan_of(body), &share);
  ASSERT_TRUE(asked);
  EXPECT_EQ(budget.held(), asked->size());
  http::body_ptr elsewhere = asked;
  asked.reset();
  EXPECT_EQ(budget.held(), elsewhere->size());
  elsewhere.reset();
  EXPECT_EQ(budget.held(), 0u);
}

// A stream and what the client is to see of it.
struct stream_case {
  std::string sent, seen;
};

std::vector<stream_case> streams() {
  const std::string text = "data: {\"choices\":[{\"delta\":{\"content\":\"say \\\"usage\\\":{}\"}}]}\n\n";
  const std::string nothing = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}],\"usage\":null}\n\n";
  const std::string along = "data: {\"choices\":[{\"delta\":{}}],\"usage\":{\"prompt_tokens\":1}}\n\n";
  const std::string usage = "data: {\"id\":\"1\",\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n";
  const std::string bare = "data:{\"usage\" : {\"prompt_tokens\":0}}\n\n";
  const std::string done = "data: [DONE]\n\n";
  const auto with = [](std::string s, const std::string &end) {
    std::string out;
    for (const char c : s) c == '\n' ? out += end : out += c;
    return out;
  };
  std::vector<stream_case> out = {
      {text + nothing + along + usage + done, text + nothing + along + done},
      {bare + text + bare + done, text + done},
      {usage, ""},
      {text + usage.substr(0, usage.size() - 2), text},          // no final newline
      {text + usage.substr(0, usage.size() - 1), text},
      {": ping\n\n" + usage + "\n\nevent: x\n" + done, ": ping\n\n\n\nevent: x\n" + done},
      {"\xEF\xBB\xBF" + usage + done, done},
      {"data: {\"usage\":{\"prompt_tokens\":1},\"error\":{\"message\":\"x\"}}\n\n",
       "data: {\"usage\":{\"prompt_tokens\":1},\"error\":{\"message\":\"x\"}}\n\n"},
      {"data: \"usage\"\ndata: {\"usage\":{}}\n\n", "data: \"usage\"\ndata: {\"usage\":{}}\n\n"},
      {"data: {\"usage\":{}", "data: {\"usage\":{}"},
      {"", ""},
  };
  for (size_t i = 0, n = out.size(); i < n; ++i)
    for (const char *end : {"\r\n", "\r"}) out.push_back({with(out[i].sent, end), with(out[i].seen, end)});
  return out;
}

std::string filtered(std::string_view sent, const std::vector<size_t> &cuts, size_t &kept) {
  usage_filter filter;
  std::string seen;
  size_t from = 0;
  kept = 0;
  for (const size_t cut : cuts) {
    const std::string piece(sent.substr(from, cut - from));  // own storage, so that a view kept too long shows
    seen += filter.pass(piece, kept);
    from = cut;
  }
  const std::string piece(sent.substr(from));
  seen += filter.pass(piece, kept);
  seen += filter.rest(kept);
  return seen;
}

TEST(usage_filter, only_the_usage_event_goes_at_every_split) {
  for (const stream_case &c : streams()) {
    size_t kept = 0;
    ASSERT_EQ(filtered(c.sent, {}, kept), c.seen) << c.sent;
    EXPECT_EQ(kept, c.sent.size() - c.seen.size());
    for (size_t a = 0; a <= c.sent.size(); ++a) {
      ASSERT_EQ(filtered(c.sent, {a}, kept), c.seen) << c.sent << " cut at " << a;
      ASSERT_EQ(kept, c.sent.size() - c.seen.size()) << c.sent << " cut at " << a;
    }
    std::vector<size_t> all;
    for (size_t a = 1; a < c.sent.size(); ++a) all.push_back(a);
    ASSERT_EQ(filtered(c.sent, all, kept), c.seen) << c.sent << " byte by byte";
  }
}

TEST(usage_filter, whole_events_pass_without_a_copy_and_a_huge_one_is_not_held) {
  usage_filter filter;
  size_t kept = 0;
  const std::string events = "data: {\"choices\":[]}\n\ndata: x\n\n";
  EXPECT_EQ(filter.pass(events, kept).data(), events.data());
  const std::string piece(1000, 'x');
  std::string sent = "data: \"usage\"", seen(filter.pass(sent, kept));
  EXPECT_TRUE(seen.empty());
  for (int i = 0; i < 200; ++i) {
    sent += piece;
    seen += filter.pass(piece, kept);
    ASSERT_LE(sent.size() - seen.size(), usage_filter::max_event + piece.size());
  }
  EXPECT_EQ(seen, sent);
  EXPECT_FALSE(filter.between_events());
  EXPECT_EQ(filter.pass("\n\ndata: 1\n", kept), "\n\n");
  EXPECT_TRUE(filter.between_events());
  EXPECT_EQ(filter.pass("\ndata: {\"usage\":{}}\n\n", kept), "data: 1\n\n");
  EXPECT_EQ(kept, 20u);
  EXPECT_EQ(filter.pass("data: 1\r\n\r", kept), "data: 1\r\n\r");
  EXPECT_FALSE(filter.between_events()) << "its LF may follow";
  EXPECT_EQ(filter.pass("\n", kept), "\n");
  EXPECT_TRUE(filter.between_events());
}

TEST(usage_filter, what_it_passes_never_depends_on_the_cuts) {
  std::mt19937 random(11);
  const std::string alphabet[] = {"\n", "\r", "\r\n", "data: {\"usage\":{}}", "data: {\"choices\":[],\"usage\":{}}", "x", ":", "data: "};
  for (int i = 0; i < 3000; ++i) {
    std::string sent;
    for (unsigned n = random() % 20; n > 0; --n) sent += alphabet[random() % std::size(alphabet)];
    size_t kept = 0, kept_again = 0;
    const std::string whole = filtered(sent, {}, kept);
    std::vector<size_t> cuts;
    for (size_t at = random() % 7; at < sent.size(); at += 1 + random() % 9) cuts.push_back(at);
    ASSERT_EQ(filtered(sent, cuts, kept_again), whole) << testing::PrintToString(sent);
    ASSERT_EQ(kept + whole.size(), sent.size());
    ASSERT_EQ(kept_again, kept);
  }
}

}  // namespace
}  // namespace hive::gateway
