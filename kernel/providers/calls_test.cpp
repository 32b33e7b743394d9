// Calls over the wire against a scripted provider: what is sent, what comes back, how it fails, and that a slow client slows it.
#include "providers/calls.hpp"

#include <gmock/gmock.h>

#include "base/test_wait.hpp"
#include "http/client_bed.hpp"

namespace hive::providers {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using http::test::loop_thread;
using http::test::raw_socket;
using http::test::scripted_origin;

struct told_metrics final : call_metrics {
  void on_provider_call(std::string_view engine, int status, uint64_t) override { seen.push_back(std::string(engine) + " " + std::to_string(status)); }
  std::vector<std::string> seen;
};

struct answer final : link::stream_events {
  explicit answer(loop_thread &t) : thread(t) {}
  void on_head(const link::stream_head &h) override {
    status = h.status;
    streaming = h.streaming;
    for (const http::field &f : h.fields) fields += std::string(f.name) + "=" + std::string(f.value) + ";";
  }
  void on_data(std::string_view bytes) override {
    data += bytes;
    last = bytes.size();
    thread.note("data");
    if (leave) leave();
  }
  void on_end(const link::usage &u) override {
    used = u;
    ++ends;
    thread.note("over");
  }
  void on_failed(const link::stream_failure &f) override {
    failure = f;
    ++ends;
    thread.note("over");
  }
  loop_thread &thread;
  std::function<void()> leave;
  int status = 0, ends = 0;
  bool streaming = false;
  std::string fields, data;
  size_t last = 0;   // bytes of the last piece
  link::usage used;
  link::stream_failure failure;
};

class calls : public ::testing::Test {
 protected:
  ~calls() override {
    thread_.on_loop([&] {
      stream_.reset();
      desk_.reset();
    });
  }
  void open(uint16_t port, const call_limits &limits = {}) {
    provider_options o;
    o.openai = {"sk-openai", "http://127.0.0.1:" + std::to_string(port)};
    o.anthropic = {"sk-ant", "http://127.0.0.1:" + std::to_string(port)};
    const auto set = provider_set::make(o);
    ASSERT_TRUE(set) << set.why().text();
    thread_.on_loop([&] { desk_ = std::make_unique<provider_calls>(thread_.get(), *set, metrics_, limits); });
  }
  status start(answer &a, api asked, const char *engine, const std::string &body, std::vector<http::field> fields = {}) {
    status why;
    const std::string name = "\"model\":";
    thread_.on_loop([&] {
      call_order order;
      order.asked = asked;
      order.engine = engine;
      order.model = "the-model";
      auto held = std::make_shared<std::string>(body);
      held->reserve(body.size() + http::body_padding);
      order.body = held;
      order.model_offset = body.find(name) + name.size();
      order.model_length = body.find(',', order.model_offset) - order.model_offset;
      order.request_id = "r1";
      order.client_fields = fields;
      stream_ = desk_->open(order, a, why);
    });
    return why;
  }
  void run(answer &a, api asked, const char *engine, const std::string &body, std::vector<http::field> fields = {}) {
    const status why = start(a, asked, engine, body, std::move(fields));
    ASSERT_TRUE(why.ok()) << why.text();
    ASSERT_TRUE(thread_.wait_for("over", ++overs_));
    thread_.on_loop([&] { EXPECT_EQ(a.ends, 1); });
  }

  loop_thread thread_;
  told_metrics metrics_;
  std::unique_ptr<provider_calls> desk_;
  std::unique_ptr<link::router_stream> stream_;
  size_t overs_ = 0;
};

std::string with_length(const std::string &body, const std::string &head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n") {
  return head + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

const std::string chat_body = R"({ "model":"orig", "temperature": 0, "x_extension": {"kept": [1.50]}, "messages":[{"role":"user","content":"hi"}]})";
const std::string messages_body = R"({"model":"orig","max_tokens":9,"messages":[{"role":"user","content":"hi"}]})";

TEST_F(calls, the_same_api_gets_the_clients_bytes_with_another_model_and_none_of_its_headers) {
  std::string chat, messages;
  scripted_origin o([&](raw_socket &s, int) {
    chat = s.until("]}");
    chat += s.until("]}");
    s.send(with_length(R"( {"id":"c","choices":[{"index":0}],"usage":{"prompt_tokens":1}})"));
    s.until_end();
  });
  open(o.port);
  answer a(thread_), b(thread_);
  run(a, api::chat, "openai", chat_body, {{"authorization", "Bearer of-the-client"}, {"cookie", "c"}, {"openai-organization", "theirs"}});
  EXPECT_THAT(chat, HasSubstr("POST /v1/chat/completions HTTP/1.1\r\n"));
  EXPECT_THAT(chat, HasSubstr("authorization: Bearer sk-openai\r\n"));
  EXPECT_THAT(chat, Not(HasSubstr("of-the-client")));
  EXPECT_THAT(chat, Not(HasSubstr("organization")));
  EXPECT_THAT(chat, Not(HasSubstr("cookie")));
  EXPECT_THAT(chat, EndsWith(R"({ "model":"the-model", "temperature": 0, "x_extension": {"kept": [1.50]}, "messages":[{"role":"user","content":"hi"}]})"))
      << "zero values and unknown fields stay";
  EXPECT_EQ(a.data, R"( {"processed_by":"provider:openai","id":"c","choices":[{"index":0}],"usage":{"prompt_tokens":1}})");
  EXPECT_EQ(a.fields, "Content-Type=application/json;");
  EXPECT_FALSE(a.streaming);

  scripted_origin p([&](raw_socket &s, int) {
    messages = s.until("]}");
    s.send(with_length(R"({"content":[]})"));
    s.until_end();
  });
  open(p.port);
  run(b, api::messages, "anthropic", messages_body, {{"anthropic-beta", "x-2026"}, {"anthropic-version", "2024-01-01"}, {"x-api-key", "of-the-client"}});
  EXPECT_THAT(messages, HasSubstr("POST /v1/messages HTTP/1.1\r\n"));
  EXPECT_THAT(messages, HasSubstr("x-api-key: sk-ant\r\n"));
  EXPECT_THAT(messages, HasSubstr("anthropic-version: 2024-01-01\r\n"));
  EXPECT_THAT(messages, HasSubstr("anthropic-beta: x-2026\r\n"));
  EXPECT_THAT(messages, Not(HasSubstr("of-the-client")));
  EXPECT_THAT(metrics_.seen, ElementsAre("openai 200", "anthropic 200"));
}

TEST_F(calls, the_other_api_is_spoken_both_ways) {
  std::string sent;
  scripted_origin o([&](raw_socket &s, int) {
    sent = s.until("\"temperature\":0}");
    s.send(with_length(R"({"id":"m","model":"claude","content":[{"type":"text","text":"yes"}],"stop_reason":"max_tokens",)"
                       R"("usage":{"input_tokens":11,"output_tokens":4}})"));
    s.until_end();
  });
  open(o.port);
  answer a(thread_);
  run(a, api::chat, "anthropic", chat_body, {{"anthropic-version", "of-the-client"}});
  EXPECT_THAT(sent, HasSubstr("POST /v1/messages "));
  EXPECT_THAT(sent, HasSubstr("anthropic-version: 2023-06-01\r\n"));
  EXPECT_THAT(sent, HasSubstr("\"max_tokens\":4096"));
  EXPECT_THAT(a.data, HasSubstr("\"finish_reason\":\"length\""));
  EXPECT_THAT(a.data, HasSubstr("\"processed_by\":\"provider:anthropic\""));
  EXPECT_TRUE(a.used.known);
  EXPECT_EQ(a.used.prompt_tokens, 11u);
  EXPECT_EQ(a.used.output_tokens, 4u);
}

TEST_F(calls, nothing_is_sent_of_what_cannot_be_told) {
  scripted_origin o([](raw_socket &, int) {});
  open(o.port);
  answer a(thread_);
  const status why = start(a, api::chat, "anthropic", R"({"model":"m","messages":[{"role":"system","content":"only"}]})");
  EXPECT_THAT(why.text(), HasSubstr("non-system message"));
  EXPECT_THAT(start(a, api::chat, "other", chat_body).text(), HasSubstr("unknown provider"));
  EXPECT_EQ(o.connections, 0);
}

TEST_F(calls, a_200_that_holds_no_answer_is_a_failure) {
  for (const char *body : {"", "{}", "[1]", R"({"choices":[]})", "<html>"}) {
    scripted_origin o([&](raw_socket &s, int) {
      s.until("]}");
      s.send(with_length(body));
      s.until_end();
    });
    open(o.port);
    answer a(thread_);
    run(a, api::chat, "openai", chat_body);
    EXPECT_EQ(a.status, 0) << body << ": an empty 200 must not reach the client";
    EXPECT_THAT(a.failure.message, HasSubstr("provider openai gave no answer that can be used")) << body;
  }
}

TEST_F(calls, refusals_tell_the_client_its_own_mistakes_only) {
  const struct {
    const char *head;
    int status;        // passed on
    link::cause why;
    uint64_t retry_after_ms;
  } cases[] = {{"HTTP/1.1 500 X\r\n", 0, link::cause::agent_failed, 0},
               {"HTTP/1.1 401 X\r\n", 0, link::cause::agent_failed, 0},
               {"HTTP/1.1 204 X\r\n", 0, link::cause::agent_failed, 0},
               {"HTTP/1.1 307 X\r\nLocation: http://elsewhere/\r\n", 0, link::cause::agent_failed, 0},
               {"HTTP/1.1 429 X\r\nRetry-After: 7\r\n", 0, link::cause::overloaded, 7000},
               {"HTTP/1.1 400 X\r\n", 400, link::cause::none, 0}};
  for (const auto &c : cases) {
    scripted_origin o([&](raw_socket &s, int) {
      s.until("]}");
      s.send(std::string(c.head) == "HTTP/1.1 204 X\r\n" ? std::string(c.head) + "\r\n" : with_length(R"({"error":{"message":"of org-SECRET"}})", c.head));
      s.until_end();
    });
    open(o.port);
    answer a(thread_);
    run(a, api::chat, "openai", chat_body);
    EXPECT_EQ(a.status, c.status) << c.head;
    EXPECT_EQ(a.failure.why, c.why) << c.head;
    EXPECT_EQ(a.failure.retry_after_ms, c.retry_after_ms);
    EXPECT_THAT(a.failure.message + a.fields, HasSubstr(std::string("HTTP ") + std::string(c.head).substr(9, 3)));
    EXPECT_THAT(a.failure.message + a.fields, Not(HasSubstr("SECRET"))) << "a provider's own words may tell of the account";
    EXPECT_EQ(a.data, "");
    EXPECT_EQ(a.fields.find(":class=client") != std::string::npos, c.status != 0);
  }
}

const std::string stream_head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
std::string chunked(const std::string &bytes) {
  char size[20];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  return size + bytes + "\r\n";
}

TEST_F(calls, a_stream_of_the_same_api_passes_byte_for_byte_and_a_cut_one_fails) {
  const std::string events = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
  scripted_origin o([&](raw_socket &s, int number) {
    s.until("]}");
    s.send(stream_head + chunked(events.substr(0, 9)));
    s.send(chunked(events.substr(9)));
    if (number == 1) s.send("0\r\n\r\n");
    if (number == 1) s.until_end();
  });
  open(o.port);
  answer whole(thread_), cut(thread_);
  run(whole, api::chat, "openai", chat_body);
  EXPECT_EQ(whole.data, events);
  EXPECT_TRUE(whole.streaming);
  EXPECT_EQ(whole.failure.why, link::cause::none);
  thread_.on_loop([&] { stream_.reset(); });
  open(o.port);
  run(cut, api::chat, "openai", chat_body);
  EXPECT_EQ(cut.data, events);
  EXPECT_EQ(cut.failure.why, link::cause::engine_cut);
}

// Naive variant: framing that is sound is an answer.
TEST_F(calls, a_stream_without_an_event_is_no_answer) {
  const std::pair<const char *, bool> cases[] = {
      {"", false},
      {": thinking\n\n", false},
      {"data: [DONE]\n\n", false},
      {"data: nothing\n\n", false},
      {"data: {\"foo\":1}\n\ndata: [DONE]\n\n", false},
      {"data: {\"choices\":[]}\n\ndata: [DONE]\n\n", false},
      {"data: {\"choices\":[{}]}\n\ndata: [DONE]", true}};
  for (const auto &[events, good] : cases) {
    scripted_origin o([&events = events](raw_socket &s, int) {
      s.until("]}");
      s.send(stream_head + (*events ? chunked(events) : "") + "0\r\n\r\n");
      s.until_end();
    });
    open(o.port);
    answer a(thread_);
    run(a, api::chat, "openai", chat_body);
    EXPECT_EQ(a.failure.why, good ? link::cause::none : link::cause::protocol) << events;
    thread_.on_loop([&] { stream_.reset(); });
  }
}

// Naive variants: the end of the framing is the end of the answer; an error is passed on as it came.
TEST_F(calls, a_stream_of_the_same_api_that_ends_early_fails_and_an_error_in_it_hides_the_key) {
  std::string events = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
  scripted_origin o([&](raw_socket &s, int) {
    s.until("]}");
    s.send(stream_head + chunked(events) + "0\r\n\r\n");
    s.until_end();
  });
  open(o.port);
  answer early(thread_);
  run(early, api::chat, "openai", chat_body);
  EXPECT_EQ(early.data, events);
  EXPECT_EQ(early.failure.why, link::cause::engine_cut);
  EXPECT_EQ(early.failure.message, "provider openai broke off its answer");
  thread_.on_loop([&] { stream_.reset(); });

  events += "data: {\"error\":{\"message\":\"of sk-openai\"}}\n\n";
  scripted_origin p([&](raw_socket &s, int) {
    s.until("]}");
    s.send(stream_head + chunked(events) + "0\r\n\r\n");
    s.until_end();
  });
  open(p.port);
  answer told(thread_);
  run(told, api::chat, "openai", chat_body);
  EXPECT_THAT(told.data, EndsWith("data: {\"error\":{\"message\":\"of [key]\"}}\n\n"));
  EXPECT_EQ(told.failure.why, link::cause::none) << "it has told its error itself";
}

TEST_F(calls, a_translated_stream_that_ends_early_fails_even_if_its_framing_is_sound) {
  scripted_origin o([&](raw_socket &s, int) {
    s.until("\"temperature\":0}");
    s.send(stream_head + chunked("data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1}}}\n\n") + "0\r\n\r\n");
    s.until_end();
  });
  open(o.port);
  answer a(thread_);
  run(a, api::chat, "anthropic", chat_body);
  EXPECT_THAT(a.data, HasSubstr("chat.completion.chunk"));
  EXPECT_EQ(a.failure.why, link::cause::engine_cut);
  EXPECT_THAT(a.failure.message, HasSubstr("provider anthropic broke off its answer"));
}

TEST_F(calls, a_client_that_takes_nothing_stops_the_provider) {
  const std::string event = "data: " + std::string(16'000, 'x') + "\n\n";
  constexpr size_t pieces = 1000;
  scripted_origin o([&](raw_socket &s, int) {
    s.until("]}");
    s.send(stream_head);
    for (size_t i = 0; i < pieces; ++i) s.send(chunked(event), [&] { thread_.note("full"); });
    s.send("0\r\n\r\n");
    s.until_end();
  });
  call_limits limits;
  limits.window_bytes = 64 * 1024;
  open(o.port, limits);
  answer a(thread_);
  ASSERT_TRUE(start(a, api::chat, "openai", chat_body).ok());
  ASSERT_TRUE(thread_.wait_for("full"));
  size_t told = 0;
  thread_.on_loop([&] { told = a.data.size(); });
  EXPECT_LE(told, limits.window_bytes + 64 * 1024) << "one read over the window at most";
  thread_.on_loop([&] {
    a.leave = [&] { stream_->consumed(a.last); };
    stream_->consumed(a.data.size());
  });
  ASSERT_TRUE(thread_.wait_for("over"));
  EXPECT_EQ(a.data.size(), pieces * event.size());
}

TEST_F(calls, leaving_closes_the_connection_also_from_inside_an_event) {
  scripted_origin o([&](raw_socket &s, int) {
    s.until("]}");
    s.send(stream_head + chunked("data: {}\n\n"));
    s.until_end();
    thread_.note("closed");
  });
  open(o.port);
  answer inside(thread_), outside(thread_);
  inside.leave = [&] { stream_.reset(); };
  ASSERT_TRUE(start(inside, api::chat, "openai", chat_body).ok());
  ASSERT_TRUE(thread_.wait_for("closed", 1));
  ASSERT_TRUE(start(outside, api::chat, "openai", chat_body).ok());
  ASSERT_TRUE(thread_.wait_for("data", 2));
  thread_.on_loop([&] { stream_->cancel(link::cause::client_gone); });
  ASSERT_TRUE(thread_.wait_for("closed", 2));
  EXPECT_EQ(inside.ends + outside.ends, 0);
}

TEST_F(calls, a_provider_that_is_down_or_silent_fails_in_time) {
  const http::test::port_of_loopback nobody(http::test::port_that::refuses);
  open(nobody.at.port());
  answer down(thread_), silent(thread_);
  run(down, api::chat, "openai", chat_body);
  EXPECT_EQ(down.failure.why, link::cause::engine_unreachable);
  EXPECT_THAT(down.failure.message, Not(HasSubstr("127.0.0.1"))) << "where it is is nobody's business";
  scripted_origin o([](raw_socket &s, int) { s.until_end(); });
  call_limits limits;
  limits.time_ns = 500 * ns_per_ms;  // it must have connected by then
  open(o.port, limits);
  run(silent, api::chat, "openai", chat_body);
  EXPECT_EQ(silent.failure.why, link::cause::engine_timeout);
  EXPECT_THAT(metrics_.seen, ElementsAre("openai 0", "openai 0"));
}

TEST_F(calls, words_for_the_log_are_without_the_providers_key) {
  open(1);
  thread_.on_loop([&] {
    EXPECT_EQ(desk_->for_log("openai", "words\nabout sk-openai and sk-ant"), "words about [key] and sk-ant");
    EXPECT_EQ(desk_->for_log("anthropic", "about sk-ant"), "about [key]");
    EXPECT_EQ(desk_->for_log("nobody", "words"), "words");
  });
}

TEST_F(calls, bodies_and_answers_are_counted_against_the_memory_budget) {
  scripted_origin o([&](raw_socket &s, int) {
    s.until("]}");
    thread_.note("asked");
    s.until_end();
  });
  open(o.port);
  byte_budget budget(0);
  byte_share share(budget);
  answer a(thread_);
  thread_.on_loop([&] {
    call_order order;
    order.engine = "openai";
    order.model = "m";
    order.body = std::make_shared<std::string>(R"({"model":"x","pad":")" + std::string(1 << 20, 'x') + R"(","messages":[]})");
    order.model_offset = 9;
    order.model_length = 3;
    order.memory = &share;
    status why;
    stream_ = desk_->open(order, a, why);
    EXPECT_GT(budget.held(), uint64_t{1} << 20);
  });
  ASSERT_TRUE(thread_.wait_for("asked"));
  thread_.on_loop([&] { stream_.reset(); });
  EXPECT_TRUE(within_limit([&] { return budget.held() == 0; })) << budget.held() << ": the loop may have yet to hear that the body was written";
}

}  // namespace
}  // namespace hive::providers
