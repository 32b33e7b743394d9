// Admission and the learned estimate as requests meet them: what is judged of a body, what is held while it runs, what comes back
// whichever way it ends, and whose counts are learned (docs/admission.md).
#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "gateway/edge_bed.hpp"
#include "http/client_bed.hpp"
#include "tenancy/admission_control.hpp"

namespace hive::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using holding = std::pair<uint64_t, uint64_t>;   // tokens, requests

constexpr const char *chat_path = "/v1/chat/completions";

std::string text_part(size_t bytes) { return R"({"type":"text","text":")" + std::string(bytes, 'x') + "\"}"; }
const std::string image_part = R"({"type":"image_url","image_url":{"url":"data:,x"}})";

struct admitting_edge : ::testing::Test {
  admitting_edge() {
    bed.context.admission = &control;
    bed.context.tokens = &tokens;
    bed.open_gateway(testing::edge_bed::key());
  }
  void govern(const std::string &limits) {
    const auto d = routing::parse_policy(limits + "\nrouting_policy: {strategy: least-loaded, max_tries: 1}", bed.source);
    ASSERT_TRUE(d) << d.why().text();
    const status s = bed.router.set_policies(d->document);
    ASSERT_TRUE(s.ok()) << s.text();
  }
  // The model's only agent has an engine, or none.
  void engine_is_there(bool on) {
    bed.fleet.set_standing(*bed.router.look_up("m").way->where->pool, bed.id.peer_id, on ? 0u : fleet::standing_engine_down);
  }
  static std::string body_of(const std::string &fields) { return R"({"model":"m",)" + fields + "}"; }
  static std::string said(const std::string &text) { return R"("messages":[{"role":"user","content":")" + text + "\"}]"; }
  static std::string said_in_parts(const std::string &parts) { return R"({"role":"user","content":[)" + parts + "]}"; }
  static std::string wire(const std::string &path, const std::string &body) {
    return "POST " + path + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + testing::client_secret +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  std::string ask(const std::string &path, const std::string &fields) { return bed.ask(wire(path, body_of(fields))); }
  // For what needs time: the worker runs until the request's record is there.
  std::string ask_and_wait(const std::string &path, const std::string &fields) {
    const size_t before = bed.records.all.size();
    const int fd = bed.send(wire(path, body_of(fields)));
    const uint64_t limit = now_ns() + 10 * ns_per_s;
    while (bed.records.all.size() == before && now_ns() < limit) bed.home.io().run_one_for(std::chrono::milliseconds(5));
    bed.settle();
    std::string got = bed.received(fd);
    bed.leave(fd);
    return got;
  }
  holding held() const {
    holding all(0, 0);
    for (const auto &row : control.room().rows()) all = {all.first + row.tokens, all.second + row.requests};
    return all;
  }

  manual_clock clock;
  tenancy::admission_control control{{.fraction = 1, .park_ns = 0}, clock};
  tenancy::token_estimator tokens;
  testing::edge_bed bed;
};

// Naive variants: the texts of one message count, or those beside no image; what is refused is sent; a limit that is declared counts
// as input, or is put into the body.
TEST_F(admitting_edge, the_caps_of_one_request_are_held_against_all_its_text_and_images) {
  const std::string two_images = said_in_parts(image_part + "," + image_part);
  const auto messages = [](const std::string &list) { return "\"messages\":[" + list + "]"; };
  const struct {
    int images_max;
    std::string path, fields;
    bool passes;
  } cases[] = {
      {2, chat_path, said(std::string(33, 'x')), false},                                                 // 11 tokens
      {2, chat_path, said(std::string(32, 'x')), true},                                                  // 10
      {2, chat_path, messages(said_in_parts(image_part + "," + image_part + "," + image_part)), false},
      {3, chat_path, messages(said_in_parts(image_part + "," + image_part + "," + image_part)), true},
      {3, chat_path, messages(two_images + "," + two_images), false},
      {2, chat_path, messages(two_images), true},
      {2, chat_path, messages(said_in_parts(text_part(33) + "," + image_part)), false},
      {2, chat_path, messages(said_in_parts(text_part(32) + "," + image_part)), true},
      {2, "/v1/messages", R"("max_tokens":5,"system":")" + std::string(400, 'y') + "\"," + said("hi"), false},
      {2, chat_path, R"("max_tokens":200000,)" + said("hi"), true},
  };
  for (const auto &c : cases) {
    govern("max_input_tokens: 10\nimages_max: " + std::to_string(c.images_max));
    bed.forget();
    const int opens = bed.behind.opens;
    const std::string answer = ask(c.path, c.fields);
    ASSERT_EQ(bed.records.all.size(), 1u) << c.fields;
    EXPECT_EQ(bed.records.all[0].status, c.passes ? 200 : 400) << c.fields;
    EXPECT_EQ(bed.records.all[0].refused_by, c.passes ? "" : "b1") << c.fields;
    EXPECT_EQ(bed.behind.opens - opens, c.passes ? 1 : 0) << c.fields;
    if (c.passes) {
      EXPECT_EQ(bed.behind.last_body, body_of(c.fields)) << "as the client wrote it";
    } else {
      EXPECT_THAT(answer, HasSubstr(R"("code":"input_too_long")")) << c.fields;
    }
  }
}

// Naive variant: four answers hold the room of one.
TEST_F(admitting_edge, what_is_declared_holds_room_for_each_choice_of_each_prompt) {
  govern("admit_budget_tokens: 1000");
  const std::pair<std::string, uint64_t> cases[] = {{R"("prompt":[1,2,3],"max_tokens":300)", 303},
                                                    {R"("prompt":["abcdefgh","ijklmnop"],"max_tokens":300)", 605},
                                                    {R"("prompt":"abcdefgh","max_tokens":300,"n":3)", 903},
                                                    {R"("prompt":"abcdefgh","max_tokens":300,"n":2,"best_of":4)", 0},
                                                    {R"("prompt":["a","b"],"max_tokens":300,"n":2)", 0}};
  bed.behind.hangs = true;
  for (const auto &[fields, tokens_held] : cases) {
    bed.forget();
    const int fd = bed.send(wire("/v1/completions", body_of(fields)));
    EXPECT_EQ(held(), holding(tokens_held, tokens_held == 0 ? 0 : 1)) << fields;
    bed.leave(fd);
    ASSERT_EQ(bed.records.all.size(), 1u) << fields;
    EXPECT_EQ(bed.records.all[0].refused_by, tokens_held == 0 ? "b2" : "") << fields;
    EXPECT_EQ(held(), holding(0, 0)) << fields;
  }
}

TEST_F(admitting_edge, a_count_of_tokens_is_judged_by_no_cap_or_budget_and_costs_nothing_of_the_day) {
  tenancy::client_key key = testing::edge_bed::key();
  key.tokens_per_day = 10;
  bed.open_gateway(key);
  govern("max_input_tokens: 10\nadmit_budget_tokens: 5");
  const std::string prompt = said(std::string(400, 'x'));
  EXPECT_THAT(ask(chat_path, prompt), StartsWith("HTTP/1.1 400 ")) << "the caps are there";
  bed.behind.hangs = true;
  const int fd = bed.send(wire("/v1/messages/count_tokens", body_of(prompt)));
  EXPECT_EQ(bed.stages.forwarding, 1) << "an engine has it";
  EXPECT_EQ(held(), holding(0, 0));
  bed.leave(fd);
  bed.behind.hangs = false;
  EXPECT_THAT(ask("/v1/messages/count_tokens", prompt), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(bed.quotas.days().used("edge"), 0u);
}

// Naive variants: only a whole answer gives back what was held; a limit below zero takes from what the prompt holds.
TEST_F(admitting_edge, a_request_holds_its_estimate_and_what_it_declares_and_gives_it_back_however_it_ends) {
  govern("admit_budget_tokens: 110");  // of which any of them takes more than half
  bed.behind.hangs = true;
  const std::pair<std::string, uint64_t> running[] = {{said("hi") + R"(,"max_tokens":100)", 104},
                                                      {said("hi") + R"(,"stream":true)", 4},
                                                      {said("hi") + R"(,"stream":true,"max_tokens":-5)", 4}};
  for (const auto &[fields, tokens_held] : running) {
    const int fd = bed.send(wire(chat_path, body_of(fields)));
    EXPECT_EQ(held(), holding(tokens_held, 1)) << fields;
    bed.leave(fd);
    EXPECT_EQ(held(), holding(0, 0)) << fields << ": its client left";
  }
  bed.behind.hangs = false;
  const struct {
    const char *words;
    bool stream;
    int status;
    ended how;
  } endings[] = {{"hello", false, 200, ended::completed},           {"hello", true, 200, ended::completed},
                 {"engine-fails", false, 502, ended::engine_error}, {"engine-refuses", false, 400, ended::rejected_by_engine},
                 {"engine-cuts", true, 200, ended::engine_error},   {"engine-hangs", false, 504, ended::deadline},
                 {"hello", false, 200, ended::completed}};
  for (const auto &e : endings) {
    bed.options.request_timeout_ns = e.how == ended::deadline ? 100 * ns_per_ms : 60 * ns_per_s;
    bed.forget();
    ask_and_wait(chat_path, said(e.words) + R"(,"max_tokens":100,"stream":)" + (e.stream ? "true" : "false"));
    ASSERT_EQ(bed.records.all.size(), 1u) << e.words;
    EXPECT_EQ(bed.records.all[0].status, e.status) << e.words << ": there is no room for it beside what another has not given back";
    EXPECT_EQ(to_string(bed.records.all[0].how), to_string(e.how)) << e.words;
    EXPECT_EQ(held(), holding(0, 0)) << e.words;
  }
}

// Naive variant: without agents there is no budget, or none that anything would fit.
TEST_F(admitting_edge, what_does_not_fit_is_refused_before_it_waits_for_anybody_with_or_without_agents) {
  govern("admit_budget_tokens: 50");
  for (const bool there : {true, false}) {
    engine_is_there(there);
    bed.forget();
    const int opens = bed.behind.opens;
    const std::string answer = ask(chat_path, said("hi") + R"(,"max_tokens":100)");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 429 "));
    EXPECT_THAT(answer, HasSubstr("\r\nRetry-After: 1\r\n"));
    ASSERT_EQ(bed.records.all.size(), 1u);
    EXPECT_EQ(bed.records.all[0].refused_by, "b2");
    EXPECT_EQ(bed.behind.opens, opens);
    EXPECT_EQ(held(), holding(0, 0));
  }
  EXPECT_THAT(ask(chat_path, said("hi") + R"(,"max_tokens":46)"), StartsWith("HTTP/1.1 503 ")) << "it would fit, and nobody is there";
}

// Naive variant: the day is charged first, and what admission refuses is not given back.
TEST_F(admitting_edge, what_a_minutes_tokens_refuse_costs_nothing_of_the_day) {
  tenancy::client_key key = testing::edge_bed::key();
  key.input_tokens_per_minute = 10;
  key.tokens_per_day = 100;
  bed.open_gateway(key);
  govern("mode: serverless");
  bed.forget();
  EXPECT_THAT(ask(chat_path, said(std::string(44, 'x'))), StartsWith("HTTP/1.1 429 ")) << "14 tokens";
  ASSERT_EQ(bed.records.all.size(), 1u);
  EXPECT_EQ(bed.records.all[0].refused_by, "b4_itpm");
  EXPECT_EQ(bed.quotas.days().used("edge"), 0u);
  EXPECT_THAT(ask(chat_path, said("hi")), StartsWith("HTTP/1.1 200 "));
  EXPECT_GT(bed.quotas.days().used("edge"), 0u);
}

// Naive variants: a client's word makes a bucket; where there is nobody to count requests for, the day's tokens are not counted either.
TEST_F(admitting_edge, a_quota_of_models_asks_no_bucket_for_others_or_without_agents_and_the_day_counts_all_the_same) {
  tenancy::client_key key = testing::edge_bed::key();
  key.per_model_quota = true;
  key.models = {"m"};
  key.per_model = {{"m", 1, 10}};
  bed.open_gateway(key);
  const std::string other = R"({"model":"n",)" + said("hi") + "}";
  const std::string refused = bed.ask(wire(chat_path, other));
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 429 "));
  EXPECT_THAT(refused, HasSubstr(R"("code":"rate_limit_exceeded")"));
  engine_is_there(false);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(ask(chat_path, said("hi")), StartsWith("HTTP/1.1 503 ")) << "one a minute and agent, and no agent";
  const std::string long_one = ask(chat_path, said(std::string(36, 'x')));
  EXPECT_THAT(long_one, StartsWith("HTTP/1.1 429 ")) << "12 tokens";
  EXPECT_THAT(long_one, HasSubstr(R"("code":"token_limit_exceeded")"));
  EXPECT_EQ(bed.quotas.requests().size(), 0u);
}

TEST_F(admitting_edge, an_engines_own_counts_are_taken_as_they_are) {
  bed.behind.told = link::usage{42, 7, std::nullopt, true};
  for (const char *stream : {"false", "true"}) {
    bed.forget();
    ask(chat_path, said(std::string(1000, 'x')) + R"(,"stream":)" + stream);
    ASSERT_EQ(bed.records.all.size(), 1u);
    EXPECT_EQ(bed.records.all[0].usage.prompt_tokens, 42u) << stream;
    EXPECT_EQ(bed.records.all[0].usage.output_tokens, 7u) << stream;
    EXPECT_FALSE(bed.records.all[0].estimated) << stream;
  }
}

struct no_metrics final : providers::call_metrics {
  void on_provider_call(std::string_view, int, uint64_t) override {}
};

// Each is left out for one reason alone; naive variants: learn_tokens without that reason.
TEST_F(admitting_edge, only_what_an_engine_counted_itself_of_text_alone_is_learned) {
  const std::string text(1000, 'x');
  const auto as_it_is = [](testing::edge_engine &) {};
  const struct {
    const char *what;
    std::string path, fields;
    std::function<void(testing::edge_engine &)> engine;
    uint64_t prompt;
    bool estimated;
  } cases[] = {
      {"an image", chat_path, "\"messages\":[" + said_in_parts(text_part(1000) + "," + image_part) + "]", as_it_is, 400, false},
      {"token ids", "/v1/completions", R"("prompt":[")" + text + R"(",7])", as_it_is, 400, false},
      {"characters", chat_path, said(text), [](testing::edge_engine &e) { e.in_characters = true; }, 100, false},
      {"no counts", chat_path, said(text), [](testing::edge_engine &e) { e.told.reset(); }, 254, true},
      {"counts that cannot be", chat_path, said(text) + R"(,"max_tokens":1)", [](testing::edge_engine &e) { e.told->output_tokens = 50; }, 400, true},
      {"a count of tokens", "/v1/messages/count_tokens", said(text), as_it_is, 400, false},
  };
  const auto learned = [&] { return tokens.ratio("m").learned || tokens.ratio("m").tokens_per_byte != tenancy::token_ratio().tokens_per_byte; };
  const auto told_again = [&] {
    bed.forget();
    bed.behind.told = link::usage{400, 1, std::nullopt, true};
    bed.behind.in_characters = false;
  };
  for (const auto &c : cases) {
    told_again();
    c.engine(bed.behind);
    EXPECT_THAT(ask(c.path, c.fields), StartsWith("HTTP/1.1 200 ")) << c.what;
    ASSERT_EQ(bed.records.all.size(), 1u) << c.what;
    EXPECT_EQ(bed.records.all[0].usage.prompt_tokens, c.prompt) << c.what;
    EXPECT_EQ(bed.records.all[0].estimated, c.estimated) << c.what;
    EXPECT_FALSE(learned()) << c.what;
  }

  told_again();
  http::test::scripted_origin cloud([](http::test::raw_socket &s, int) {
    s.until("]}");
    const std::string body = R"({"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"x"}}],)"
                             R"("usage":{"prompt_tokens":400,"completion_tokens":1}})";
    s.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    s.until_end();
  });
  providers::provider_options there;
  there.openai = {"sk-openai", "http://127.0.0.1:" + std::to_string(cloud.port)};
  const auto set = providers::provider_set::make(there);
  ASSERT_TRUE(set) << set.why().text();
  no_metrics metrics;
  {
    providers::provider_calls calls(bed.home, *set, metrics);
    bed.context.providers = &calls;
    bed.open_gateway(testing::edge_bed::key());
    govern("fallback_provider: {engine: openai, model: gpt-4o}");
    engine_is_there(false);
    EXPECT_THAT(ask_and_wait(chat_path, said(text)), StartsWith("HTTP/1.1 200 "));
    ASSERT_EQ(bed.records.all.size(), 1u);
    EXPECT_EQ(bed.records.all[0].usage.prompt_tokens, 400u);
    EXPECT_EQ(cloud.connections, 1);
    EXPECT_FALSE(learned()) << "a provider's answer";
    bed.context.providers = nullptr;
    bed.open_gateway(testing::edge_bed::key());
  }

  told_again();
  engine_is_there(true);
  EXPECT_THAT(ask(chat_path, said(text)), StartsWith("HTTP/1.1 200 "));
  EXPECT_DOUBLE_EQ(tokens.ratio("m").tokens_per_byte, 0.2 * 0.4 + 0.8 * 0.3125);
}

}  // namespace
}  // namespace hive::gateway
