// How engine adapters judge answers: the golden errors of both engines and the rules they share.
#include "loaded_engine.hpp"

namespace hive::conformance {
namespace {

struct golden_row {
  const char *file;
  uint32_t status;
  int verdict;
  const char *message;  // its beginning; null = not looked at
};

void check(const loaded_engine &engine, const golden_row &r) {
  SCOPED_TRACE(r.file);
  EXPECT_EQ(engine.classify(r.status, golden(r.file)).verdict, r.verdict);
  if (r.message) {
    EXPECT_EQ(engine.last_message.substr(0, std::string(r.message).size()), r.message);
  }
}

TEST(vllm_answers, golden_errors) {
  const loaded_engine engine("engine_vllm");
  const golden_row rows[] = {
      {"vllm/error-404.json", 404, HIVE_ANSWER_CLIENT, "Not Found"},
      {"vllm/error-method.json", 405, HIVE_ANSWER_CLIENT, "Method Not Allowed"},
      {"vllm/error-bad-json.json", 400, HIVE_ANSWER_CLIENT, "1 validation error:\n  {'type': 'json_invalid'"},
      {"vllm/error-bad-temperature-type.json", 400, HIVE_ANSWER_CLIENT, "1 validation error"},
      {"vllm/error-empty-body.json", 400, HIVE_ANSWER_CLIENT, nullptr},
      {"vllm/error-empty-messages.json", 400, HIVE_ANSWER_CLIENT, nullptr},
      {"vllm/error-image-on-text-model.json", 400, HIVE_ANSWER_CLIENT, "tiny-llm is not a multimodal model"},
      {"vllm/error-max-tokens-zero.json", 400, HIVE_ANSWER_CLIENT, nullptr},
      {"vllm/error-too-long.json", 400, HIVE_ANSWER_CONTEXT, "This model's maximum context length is 2048 tokens."},
      {"vllm/error-unknown-model.json", 404, HIVE_ANSWER_UNKNOWN_MODEL, "The model `no-such-model` does not exist."},
      {"vllm/error-messages-unknown-model.json", 404, HIVE_ANSWER_UNKNOWN_MODEL, "The model `no-such-model` does not exist."},
      {"vllm/error-unknown-field.json", 200, HIVE_ANSWER_OK, ""},
      {"vllm/fastapi-422.json", 422, HIVE_ANSWER_CLIENT, "Field required"},
  };
  for (const auto &r : rows) check(engine, r);
}

TEST(llamacpp_answers, golden_errors) {
  const loaded_engine engine("engine_llamacpp");
  const golden_row rows[] = {
      {"llamacpp/error-404.json", 404, HIVE_ANSWER_CLIENT, "File Not Found"},
      {"llamacpp/error-bad-json.json", 500, HIVE_ANSWER_CLIENT, "[json.exception.parse_error.101]"},
      {"llamacpp/error-empty-body.json", 500, HIVE_ANSWER_CLIENT, nullptr},
      {"llamacpp/error-bad-temperature-type.json", 400, HIVE_ANSWER_CLIENT, nullptr},
      {"llamacpp/error-max-tokens-negative.json", 400, HIVE_ANSWER_CLIENT, nullptr},
      {"llamacpp/error-missing-messages.json", 400, HIVE_ANSWER_CLIENT, "'messages' is required"},
      {"llamacpp/error-image-on-text-model.json", 500, HIVE_ANSWER_CLIENT, "image input is not supported"},
      {"llamacpp/error-embeddings-on-llm.json", 501, HIVE_ANSWER_CLIENT, "This server does not support embeddings."},
      {"llamacpp/error-rerank-on-llm.json", 501, HIVE_ANSWER_CLIENT, nullptr},
      {"llamacpp/error-too-long.json", 400, HIVE_ANSWER_CONTEXT, "request (4028 tokens) exceeds"},
      {"llamacpp-embed/error-chat-on-embed.json", 500, HIVE_ANSWER_CLIENT, nullptr},
      {"llamacpp-embed/error-empty-input.json", 500, HIVE_ANSWER_CLIENT, "\"prompt\" must not be empty"},
      {"llamacpp-embed/error-too-long.json", 500, HIVE_ANSWER_CONTEXT, "input (4002 tokens) is too large"},
      {"llamacpp/error-unknown-model.json", 200, HIVE_ANSWER_OK, ""},
  };
  for (const auto &r : rows) check(engine, r);
}

TEST(llamacpp_answers, a_real_failure_stays_one) {
  const loaded_engine engine("engine_llamacpp");
  EXPECT_EQ(engine.classify(500, R"({"error":{"code":500,"message":"Compute error.","type":"server_error"}})").verdict, HIVE_ANSWER_FAILED);
}

class every_adapter : public testing::TestWithParam<const char *> {
 protected:
  loaded_engine engine{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(answers, every_adapter, testing::Values("engine_vllm", "engine_llamacpp", "engine_openai"),
                         [](const auto &p) { return std::string(p.param); });

TEST_P(every_adapter, keeps_the_shared_rules) {
  struct row { uint32_t status; const char *body; int verdict; const char *message; } const rows[] = {
      {200, R"({"choices":[]})", HIVE_ANSWER_OK, ""},
      {200, R"({"error":{"message":"boom","type":"x","code":500}})", HIVE_ANSWER_FAILED, "boom"},
      {200, R"({"error":{"message":"bad","type":"x","code":400}})", HIVE_ANSWER_CLIENT, "bad"},
      {200, R"({"error":null,"choices":[]})", HIVE_ANSWER_OK, ""},
      {200, R"({"error":"","choices":[]})", HIVE_ANSWER_OK, ""},
      {200, R"({"choices":[{"message":{"content":"error"}}],"x":{"error":{"message":"not of the answer"}}})", HIVE_ANSWER_OK, ""},
      {503, R"({"error":{"message":"Loading model","type":"unavailable_error","code":503}})", HIVE_ANSWER_STARTING, "Loading model"},
      {503, "", HIVE_ANSWER_OVERLOADED, "the engine answered 503 without a message"},
      {204, "", HIVE_ANSWER_FAILED, "the engine answered 204, where only 200 is an answer"},
      {201, R"({"choices":[]})", HIVE_ANSWER_FAILED, "the engine answered 201, where only 200 is an answer"},
      {302, "<a href=/elsewhere>Found</a>", HIVE_ANSWER_FAILED, "the engine answered 302, a redirect, and redirects are not followed"},
      {200, R"({"error":{}})", HIVE_ANSWER_FAILED, "the engine answered 200 without a message"},
      {529, R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})", HIVE_ANSWER_OVERLOADED, "Overloaded"},
      {503, R"({"object":"error","message":"The request queue is full.","type":"SERVICE_UNAVAILABLE","param":null,"code":503})", HIVE_ANSWER_OVERLOADED,
       "The request queue is full."},
      {503, R"({"error":{"message":"server busy, please try again.  maximum pending requests exceeded","type":"api_error"}})", HIVE_ANSWER_OVERLOADED, nullptr},
      {404, R"({"error":{"message":"model \"m\" not found, try pulling it first","type":"api_error"}})", HIVE_ANSWER_UNKNOWN_MODEL, nullptr},
      {400, R"({"error":{"message":"Invalid model: Engine for model name `m` not found.","type":null,"code":400}})", HIVE_ANSWER_UNKNOWN_MODEL, nullptr},
      {429, R"({"error":{"message":"too many images","type":"invalid_request_error"}})", HIVE_ANSWER_CLIENT, nullptr},
      {429, R"({"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}})", HIVE_ANSWER_OVERLOADED, nullptr},
      {429, R"({"detail":"slow down"})", HIVE_ANSWER_OVERLOADED, "slow down"},
      {429, R"({"error":{"message":"At most 1 image(s) may be provided","type":"BadRequestError","code":429}})", HIVE_ANSWER_CLIENT, nullptr},
      {400, R"({"object":"error","message":"flat","type":"BadRequestError","param":null,"code":400})", HIVE_ANSWER_CLIENT, "flat"},
      {500, R"({"error":"a string"})", HIVE_ANSWER_FAILED, "a string"},
      {400, R"({"error":{"message":"x","type":"context_length_exceeded"}})", HIVE_ANSWER_CONTEXT, nullptr},
      {400, R"({"error":{"message":"x","type":"invalid_request_error","code":"context_length_exceeded"}})", HIVE_ANSWER_CONTEXT, nullptr},
      {422, R"({"error":"Context WINDOW exceeded"})", HIVE_ANSWER_CONTEXT, nullptr},
      {422, R"({"error":"context of the joke"})", HIVE_ANSWER_CLIENT, nullptr},
      {500, R"({"error":"context length"})", HIVE_ANSWER_FAILED, nullptr},
      {500, R"({"error":{"message":"m","type":"invalid_parameter"}})", HIVE_ANSWER_CLIENT, nullptr},
      {404, R"({"error":{"message":"model 'x' not found"}})", HIVE_ANSWER_UNKNOWN_MODEL, nullptr},
      {413, "too large", HIVE_ANSWER_CLIENT, "too large"},
      {408, "", HIVE_ANSWER_FAILED, nullptr},
      {502, "<html>\n<b>Bad gateway</b>", HIVE_ANSWER_FAILED, "<html>\n<b>Bad gateway</b>"},
      {504, "", HIVE_ANSWER_FAILED, nullptr},
      {500, "[1,2]", HIVE_ANSWER_FAILED, "[1,2]"},
      {500, "{\"error\":", HIVE_ANSWER_FAILED, nullptr},
  };
  for (const auto &r : rows) {
    SCOPED_TRACE(std::to_string(r.status) + " " + r.body);
    EXPECT_EQ(engine.classify(r.status, r.body).verdict, r.verdict);
    if (r.message) {
    EXPECT_EQ(engine.last_message, r.message);
  }
  }
}

TEST_P(every_adapter, reads_retry_after_within_its_bounds) {
  struct row { const char *value, *date; uint64_t ms; } const rows[] = {
      {"7", "", 7000}, {"0", "", 1000}, {"3600", "", 60000}, {"1.5", "", 1500}, {" 9 ", "", 9000}, {"99999999999999999999", "", 60000},
      {"soon", "", 0}, {"", "", 0}, {"5 s", "", 0},
      {"Mon, 30 Nov 2026 00:30:23 GMT", "Mon, 30 Nov 2026 00:30:13 GMT", 10000},
      {"Tue, 01 Dec 2026 00:00:05 GMT", "Mon, 30 Nov 2026 23:59:55 GMT", 10000},
      {"Monday, 30-Nov-26 00:30:23 GMT", "Mon, 30 Nov 2026 00:30:13 GMT", 10000},
      {"Mon Nov 30 00:30:23 2026", "Mon, 30 Nov 2026 00:30:13 GMT", 10000},
      {"Mon, 30 Nov 2026 00:00:00 GMT", "Mon, 30 Nov 2026 00:30:13 GMT", 1000},
      {"Mon, 30 Foo 2026 00:30:23 GMT", "Mon, 30 Nov 2026 00:30:13 GMT", 0},
      {"Mon, 31 Feb 2026 00:30:23 GMT", "Mon, 30 Nov 2026 00:30:13 GMT", 0},
  };
  for (const auto &r : rows) {
    SCOPED_TRACE(r.value);
    const auto a = engine.classify(503, "busy", {{str("date"), str(r.date)}, {str("retry-after"), str(r.value)}});
    EXPECT_EQ(a.retry_after_ms, r.ms);
    EXPECT_EQ(a.verdict, HIVE_ANSWER_OVERLOADED);
  }
}

TEST_P(every_adapter, cuts_messages_at_a_character) {
  for (size_t lead = 505; lead <= 512; ++lead) {
    const std::string cut = std::string(lead, 'a') + "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac";
    for (const std::string &body : {cut, R"({"error":{"message":")" + cut + "\"}}"}) {
      engine.classify(500, body);
      const std::string &m = engine.last_message;
      EXPECT_LE(m.size(), 512u);
      EXPECT_GT(m.size(), 509u);
      EXPECT_EQ((m.size() - lead) % 3, 0u) << lead;
    }
  }
  engine.classify(500, "a\xff" "b");
  EXPECT_EQ(engine.last_message, "a?b");
}

}  // namespace
}  // namespace hive::conformance
