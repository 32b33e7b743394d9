#include "http/head.hpp"

#include <gtest/gtest.h>

#include <random>

namespace hive::http {
namespace {

int refusal_of(const std::string &head) {
  request_head_parser parser;
  const auto refusal = parser.parse(head);
  if (refusal) {
    EXPECT_FALSE(refusal->what.empty());
    return refusal->status;
  }
  return 0;
}

TEST(request_head, is_split_into_its_parts) {
  request_head_parser parser;
  ASSERT_FALSE(parser.parse("POST /v1/chat/completions?a=b&c HTTP/1.1\r\nHost: h\r\ncontent-LENGTH: 12\r\n"
                            "Expect: 100-Continue\r\nX-Odd:\t a b \r\nX-Empty:\r\n\r\n"));
  const request_head &h = parser.head();
  EXPECT_EQ(h.method, "POST");
  EXPECT_EQ(h.path, "/v1/chat/completions");
  EXPECT_EQ(h.query, "a=b&c");
  EXPECT_EQ(h.content_length, 12u);
  EXPECT_TRUE(h.keep_alive);
  EXPECT_TRUE(h.expect_continue);
  EXPECT_FALSE(h.chunked);
  ASSERT_EQ(h.fields.size(), 5u);
  EXPECT_EQ(find_field(h.fields, "x-odd")->value, "a b");
  EXPECT_EQ(find_field(h.fields, "X-EMPTY")->value, "");
  EXPECT_EQ(find_field(h.fields, "absent"), nullptr);
}

TEST(request_head, persistence_follows_version_and_connection) {
  const struct {
    const char *version, *connection;
    bool keep;
  } cases[] = {{"1.1", "", true},
               {"1.1", "Connection: close\r\n", false},
               {"1.1", "Connection: x, CLOSE\r\n", false},
               {"1.1", "Connection: closed\r\n", true},
               {"1.0", "", false},
               {"1.0", "Connection: Keep-Alive\r\n", true},
               {"1.0", "Connection: keep-alive, close\r\n", false}};
  for (const auto &c : cases) {
    request_head_parser parser;
    ASSERT_FALSE(parser.parse(std::string("GET / HTTP/") + c.version + "\r\nHost: h\r\n" + c.connection + "\r\n"));
    EXPECT_EQ(parser.head().keep_alive, c.keep) << c.version << ' ' << c.connection;
  }
}

TEST(request_head, refuses_smuggling_shapes) {
  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\n";
  const struct {
    std::string head;
    int status;
  } cases[] = {
      {post + "Transfer-Encoding: chunked\r\n\r\n", 0},
      {post + "transfer-encoding: Chunked\r\n\r\n", 0},
      {post + "Content-Length: 0\r\n\r\n", 0},
      {post + "Transfer-Encoding: chunked, identity\r\n\r\n", 400},
      {post + "Transfer-Encoding: identity\r\n\r\n", 400},
      {post + "Transfer-Encoding: gzip, chunked\r\n\r\n", 400},
      {post + "Transfer-Encoding: xchunked\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {post + "Transfer-Encoding: \"chunked\"\r\n\r\n", 400},
      {post + "Transfer-Encoding : chunked\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 400},
      {post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {post + "Content-Length: 3\r\nContent-Length: 3\r\n\r\n", 400},
      {post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\n", 400},
      {post + "Content-Length: 3, 3\r\n\r\n", 400},
      {post + "Content-Length: +3\r\n\r\n", 400},
      {post + "Content-Length: -3\r\n\r\n", 400},
      {post + "Content-Length: 0x3\r\n\r\n", 400},
      {post + "Content-Length: 3 3\r\n\r\n", 400},
      {post + "Content-Length:\r\n\r\n", 400},
      {post + "Content-Length: 99999999999999999999\r\n\r\n", 400},
      {post + "Content-Length: 9999999999999999999\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.0\r\n\r\n", 0},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n\tb\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400},
      {"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 0},
      {"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {std::string("GET / HTTP/1.1\r\nHost: a\r\nX: a") + '\0' + "b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400},
      {"GET / HTTP/1.1\nHost: a\n\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\n: empty\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
      {"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505},
      {"PRI * HTTP/2.0\r\n\r\n", 505},
      {"GET /\r\n\r\n", 400},
      {"\x16\x03\x01 hello\r\n\r\n", 400},
      {post + "Expect: 100-continue\r\nContent-Length: 1\r\n\r\n", 0},
      {post + "Expect: the-worst\r\n\r\n", 417},
  };
  for (const auto &c : cases) EXPECT_EQ(refusal_of(c.head), c.status) << c.head;
}

TEST(request_head, too_many_fields_are_refused) {
  std::string head = "GET / HTTP/1.1\r\nHost: h\r\n";
  for (size_t i = 1; i < max_fields; ++i) head += "A: b\r\n";
  EXPECT_EQ(refusal_of(head + "\r\n"), 0);
  EXPECT_EQ(refusal_of(head + "A: b\r\n\r\n"), 431);
}

TEST(request_head, model_names_may_hold_any_byte_in_the_path) {
  request_head_parser parser;
  ASSERT_FALSE(parser.parse("GET /v1/models/org/m%C3%B6del:7b+x\xc3\xb6 HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_EQ(parser.head().path, "/v1/models/org/m%C3%B6del:7b+x\xc3\xb6");
}

TEST(answer_head, keeps_end_to_end_fields_and_reads_the_framing) {
  answer_head_parser parser;
  ASSERT_FALSE(parser.parse("HTTP/1.1 200 OK\r\nServer: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nDate: d\r\n"
                            "Access-Control-Allow-Origin:\r\nKeep-Alive: timeout=5\r\n\r\n"));
  EXPECT_EQ(parser.head().status, 200);
  EXPECT_TRUE(parser.head().chunked);
  EXPECT_FALSE(parser.head().keep_alive);
  ASSERT_EQ(parser.head().fields.size(), 2u);
  EXPECT_EQ(parser.head().fields[1].name, "Access-Control-Allow-Origin");
  EXPECT_EQ(parser.head().date, "d");
  ASSERT_FALSE(parser.parse("HTTP/1.1 503 \r\nContent-Length: 7\r\n\r\n"));
  EXPECT_EQ(parser.head().content_length, 7u);
  EXPECT_EQ(parser.head().fields.size(), 0u);
  EXPECT_EQ(parser.head().date, "");
  for (const char *bad : {"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n",
                          "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
                          "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
                          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
                          "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", "HTTP/1.1 99 x\r\n\r\n", "HTTP/1.1 700 x\r\n\r\n",
                          "HTTP/1.1 abc\r\n\r\n", "hello\r\n\r\n"}) {
    EXPECT_TRUE(parser.parse(bad)) << bad;
  }
}

TEST(message, json_is_told_by_the_media_type_alone) {
  for (const char *json : {"application/json", "Application/JSON; charset=utf-8", " application/json ;x", "application/problem+json"})
    EXPECT_TRUE(is_json(json)) << json;
  for (const char *other : {"", "+json", "text/json", "application/json-lines", "application/x-ndjson", "text/plain; x=application/json"})
    EXPECT_FALSE(is_json(other)) << other;
}

TEST(answer_head, what_connection_names_stays_on_that_connection) {
  answer_head_parser parser;
  ASSERT_FALSE(parser.parse("HTTP/1.1 200 OK\r\nX-Kept: 1\r\nConnection: keep-alive, x-hop\r\nX-Hop: 2\r\nConnection: X-Other\r\n"
                            "x-other: 3\r\nX-Hop-Not: 4\r\n\r\n"));
  ASSERT_EQ(parser.head().fields.size(), 2u);
  EXPECT_EQ(parser.head().fields[0].name, "X-Kept");
  EXPECT_EQ(parser.head().fields[1].name, "X-Hop-Not");
}

TEST(request_head, the_end_is_found_at_any_split) {
  const std::string head = "GET / HTTP/1.1\r\nHost: h\r\n\r\nrest";
  for (size_t cut = 0; cut < head.size(); ++cut) {
    size_t from = 0;
    const size_t early = find_head_end(std::string_view(head).substr(0, cut), from);
    EXPECT_EQ(early, cut >= head.size() - 4 ? head.size() - 4 : 0);
    if (early == 0) {
      EXPECT_EQ(find_head_end(head, from), head.size() - 4);
    }
  }
}

TEST(request_head, mutated_heads_are_refused_or_parsed_without_harm) {
  const std::string good = "POST /v1/x?y HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nConnection: keep-alive\r\nX-A: b\r\n\r\n";
  std::mt19937 random(11);
  request_head_parser parser;
  for (int i = 0; i < 20'000; ++i) {
    std::string head = good;
    for (unsigned n = 1 + random() % 3; n > 0; --n) head[random() % (head.size() - 4)] = static_cast<char>(random());
    if (parser.parse(head)) continue;
    EXPECT_EQ(parser.head().path.substr(0, 1), "/");
  }
}

}  // namespace
}  // namespace hive::http
