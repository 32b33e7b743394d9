// Which engine stands behind a URL, judged by the adapters that ship from pages of real engines.
#include "agent/detect.hpp"
#include "loaded_engine.hpp"

namespace hive::agent {
namespace {

using conformance::golden;

class detection_rule : public ::testing::Test {
 protected:
  conformance::loaded_engine vllm_{"engine_vllm"}, llamacpp_{"engine_llamacpp"};
  engine_codec vllm_codec_{vllm_.table(), vllm_.self()}, llamacpp_codec_{llamacpp_.table(), llamacpp_.self()};
  // Any adapter may stand for the general one: what it would find on a page does not count.
  std::vector<engine_candidate> all_ = {{"llamacpp", &llamacpp_codec_}, {"openai", &vllm_codec_}, {"vllm", &vllm_codec_}};
  page_answers answers_;

  void answer(uint32_t role, page_answer a) {
    const int page = vllm_codec_.page_of(role);
    answers_.at(vllm_codec_.page(page)) = std::move(a);
  }
  std::string judged(bool model_named = false) { return judge_engine(all_, answers_, model_named).engine; }
};

TEST_F(detection_rule, an_adapter_that_finds_its_series_is_the_one) {
  answer(HIVE_PAGE_MODELS, {200, R"({"data":[{"id":"m","owned_by":"somebody"}]})", "uvicorn", ""});
  answer(HIVE_PAGE_METRICS, {200, golden("vllm/metrics.txt"), "uvicorn", ""});
  EXPECT_EQ(judged(), "vllm");
  answer(HIVE_PAGE_METRICS, {200, golden("llamacpp/metrics.txt"), "", ""});
  EXPECT_EQ(judged(), "llamacpp");
}

TEST_F(detection_rule, without_metrics_the_models_page_or_the_server_header_names_the_engine) {
  answer(HIVE_PAGE_METRICS, {501, R"({"error":{"message":"This server does not support metrics endpoint."}})", "", ""});
  answer(HIVE_PAGE_MODELS, {200, golden("llamacpp/models.json"), "", ""});
  EXPECT_EQ(judged(), "llamacpp");
  answer(HIVE_PAGE_MODELS, {200, golden("vllm/models.json"), "uvicorn", ""});
  EXPECT_EQ(judged(), "vllm");
  // A llama-server that loads its model answers 503 to everything and is known by its header.
  const page_answer loading{503, R"({"error":{"message":"Loading model","type":"unavailable_error","code":503}})", "llama.cpp", ""};
  for (const uint32_t role : {HIVE_PAGE_HEALTH, HIVE_PAGE_MODELS, HIVE_PAGE_METRICS}) answer(role, loading);
  EXPECT_EQ(judged(), "llamacpp");
}

TEST_F(detection_rule, anything_else_that_lists_models_is_for_the_general_adapter) {
  answer(HIVE_PAGE_HEALTH, {404, "", "", ""});
  answer(HIVE_PAGE_MODELS, {200, R"({"object":"list","data":[{"id":"gpt","owned_by":"me"}]})", "x", ""});
  answer(HIVE_PAGE_METRICS, {200, "sglang:num_running_reqs 3\n", "", ""});
  EXPECT_EQ(judged(), "openai");
  all_.erase(all_.begin() + 1);
  const detection d = judge_engine(all_, answers_, false);
  EXPECT_EQ(d.engine, "");
  EXPECT_NE(d.reason.find("plugin engine_openai"), std::string::npos) << d.reason;
  EXPECT_NE(d.reason.find("llamacpp, vllm"), std::string::npos) << d.reason;
}

TEST_F(detection_rule, too_little_decides_nothing) {
  answer(HIVE_PAGE_HEALTH, {0, "", "", "connection refused"});
  answer(HIVE_PAGE_MODELS, {0, "", "", "connection refused"});
  EXPECT_EQ(judge_engine(all_, answers_, false).reason, "connection refused");
  for (const char *body : {"", "{", "[]", "null", R"({"data":{}})", R"({"data":[]})", R"({"data":[{"name":"m"}]})", R"({"data":[3]})"}) {
    answer(HIVE_PAGE_MODELS, {200, body, "", ""});
    answer(HIVE_PAGE_HEALTH, {200, "ok", "", ""});
    EXPECT_EQ(judged(), "") << body;
    EXPECT_EQ(judged(true), "openai") << "a model is named and the server is well: " << body;
  }
  answer(HIVE_PAGE_MODELS, {401, R"({"data":[{"id":"m"}]})", "", ""});
  answer(HIVE_PAGE_HEALTH, {404, "", "", ""});
  EXPECT_EQ(judged(true), "") << "neither page is well";
}

TEST_F(detection_rule, a_page_that_only_looks_like_metrics_names_nobody) {
  answer(HIVE_PAGE_MODELS, {200, R"({"data":[{"id":"m"}]})", "", ""});
  for (const char *page : {"<html>vllm:num_requests_running 3</html>", "# TYPE vllm:num_requests_running gauge\n", "vllm:num_requests_running"}) {
    answer(HIVE_PAGE_METRICS, {200, page, "", ""});
    EXPECT_EQ(judged(), "openai") << page;
  }
  answer(HIVE_PAGE_METRICS, {500, golden("vllm/metrics.txt"), "", ""});
  EXPECT_EQ(judged(), "openai") << "an error's body is no metrics page";
}

}  // namespace
}  // namespace hive::agent
