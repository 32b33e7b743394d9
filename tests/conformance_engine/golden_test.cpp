// Pages of real engines, each against the exact values it holds, and the names of every version whose sources were read.
#include "loaded_engine.hpp"

#include <set>
#include <sstream>

namespace hive::conformance {
namespace {

using numbers = std::map<std::string, double>;

struct golden_page {
  const char *file;
  numbers gauges, counters;
  std::map<std::string, std::pair<double, double>> histograms;  // sum, total
};

numbers llamacpp_gauges(double predicted, double prompt) {
  return {{"predicted_tokens_per_second", predicted}, {"prompt_tokens_per_second", prompt}, {"running_requests", 0}, {"waiting_requests", 0}};
}
numbers llamacpp_counters(double prompt, double cached, double generated) {
  return {{"uncached_prompt_tokens", prompt}, {"prefix_cache_hits", cached}, {"generation_tokens", generated}};
}
numbers vllm_counters(double prompt, double generated, double queries, double stop, double length) {
  return {{"preemptions", 0}, {"prompt_tokens", prompt}, {"generation_tokens", generated}, {"prefix_cache_queries", queries}, {"prefix_cache_hits", 0},
          {"request_success{finished_reason=stop}", stop}, {"request_success{finished_reason=length}", length},
          {"request_success{finished_reason=abort}", 0}, {"request_success{finished_reason=error}", 0},
          {"request_success{finished_reason=repetition}", 0}};
}
const numbers vllm_idle = {{"kv_cache_utilization", 0}, {"running_requests", 0}, {"waiting_requests", 0}};

const golden_page llamacpp_pages[] = {
    {"llamacpp/metrics-before.txt", llamacpp_gauges(6989.64, 22366.5), llamacpp_counters(31, 0, 30), {}},
    {"llamacpp/metrics.txt", llamacpp_gauges(3736.9, 10707.6), llamacpp_counters(192, 1105, 409), {}},
    {"llamacpp-embed/metrics.txt", llamacpp_gauges(0, 4846.19), llamacpp_counters(23, 0, 0), {}},
    {"llamacpp-rerank/metrics.txt", llamacpp_gauges(0, 10189.2), llamacpp_counters(63, 0, 0), {}},
};
const golden_page vllm_pages[] = {
    {"vllm/metrics-before.txt", vllm_idle, vllm_counters(0, 0, 0, 0, 0),
     {{"ttft_seconds", {0, 0}}, {"itl_seconds", {0, 0}}, {"request_prompt_tokens", {0, 0}}, {"request_generation_tokens", {0, 0}}}},
    {"vllm/metrics.txt", vllm_idle, vllm_counters(752, 158, 752, 1, 17),
     {{"ttft_seconds", {69.74207663536072, 18}}, {"itl_seconds", {1.3616406400005872, 140}}, {"request_prompt_tokens", {752, 18}},
      {"request_generation_tokens", {158, 18}}}},
    {"vllm-embed/metrics.txt", vllm_idle, vllm_counters(86, 0, 0, 20, 0),
     {{"ttft_seconds", {3.4807825088500977, 20}}, {"itl_seconds", {0, 0}}, {"request_prompt_tokens", {86, 20}},
      {"request_generation_tokens", {0, 20}}}},
    {"vllm-rerank/metrics.txt", vllm_idle, vllm_counters(91, 0, 0, 13, 0),
     {{"ttft_seconds", {0.30254244804382324, 13}}, {"itl_seconds", {0, 0}}, {"request_prompt_tokens", {91, 13}},
      {"request_generation_tokens", {0, 13}}}},
};

void read_as(const loaded_engine &engine, const golden_page &want) {
  SCOPED_TRACE(want.file);
  page_facts f;
  ASSERT_EQ(engine.read(HIVE_PAGE_METRICS, 200, golden(want.file), f), HIVE_OK);
  EXPECT_EQ(f.gauges, want.gauges);
  EXPECT_EQ(f.counters, want.counters);
  std::map<std::string, std::pair<double, double>> got;
  for (const auto &[name, h] : f.histograms) got[name] = {h.sum, h.total};
  EXPECT_EQ(got, want.histograms);
  EXPECT_TRUE(f.sound);
}

TEST(golden_pages, of_llamacpp_give_their_numbers) {
  const loaded_engine own("engine_llamacpp"), any("engine_openai");
  for (const golden_page &p : llamacpp_pages) read_as(own, p), read_as(any, p);
}

TEST(golden_pages, of_vllm_give_their_numbers) {
  const loaded_engine own("engine_vllm"), any("engine_openai");
  for (const golden_page &p : vllm_pages) read_as(own, p), read_as(any, p);
}

TEST(golden_pages, of_infinity_hold_no_signal_but_its_list_of_models_does) {
  const loaded_engine engine("engine_openai");
  read_as(engine, {"infinity/metrics.txt", {}, {}, {}});
  page_facts models, load, health;
  ASSERT_EQ(engine.read(HIVE_PAGE_MODELS, 200, golden("infinity/models.json"), models), HIVE_OK);
  EXPECT_EQ(models.models.size(), 2u);
  EXPECT_EQ(models.models.at("tiny-embed").at("usage_unit"), "characters") << "its usage must not be taken for tokens";
  ASSERT_EQ(engine.read(HIVE_PAGE_LOAD, 200, golden("infinity/models.json"), load), HIVE_OK);
  EXPECT_EQ(load.gauges, (numbers{{"waiting_requests", 0}}));
  ASSERT_EQ(engine.read(HIVE_PAGE_HEALTH, 200, golden("infinity/health.json"), health), HIVE_OK);
  EXPECT_EQ(health.states.at(0).first, HIVE_ENGINE_READY);
}

TEST(golden_pages, the_load_of_a_list_of_models_is_the_sum_of_its_queues) {
  const loaded_engine engine("engine_openai");
  const struct { const char *body; numbers want; hive_status status; } rows[] = {
      {R"({"data":[{"id":"a","stats":{"queue_absolute":3}},{"id":"b","stats":{"queue_absolute":4}}]})", {{"waiting_requests", 7}}, HIVE_OK},
      {R"({"data":[{"id":"a","stats":{"queue_absolute":-3}},{"id":"b","stats":{}},{"id":"c","stats":{"queue_absolute":"4"}},9]})", {}, HIVE_OK},
      {R"({"data":[{"id":"a"}]})", {}, HIVE_OK},
      {"<html>", {}, HIVE_E_CORRUPT},
  };
  for (const auto &r : rows) {
    page_facts f;
    EXPECT_EQ(engine.read(HIVE_PAGE_LOAD, 200, r.body, f), r.status) << r.body;
    EXPECT_EQ(f.gauges, r.want) << r.body;
  }
}

// Every refusal captured from an engine was caused by the request: none may be held against the agent.
TEST(golden_errors, are_the_clients) {
  const std::map<std::string, int> special = {
      {"vllm/error-too-long.json", HIVE_ANSWER_CONTEXT},
      {"vllm/error-too-long-stream.json", HIVE_ANSWER_CONTEXT},
      {"vllm-embed/error-too-long.json", HIVE_ANSWER_CONTEXT},
      {"llamacpp/error-too-long.json", HIVE_ANSWER_CONTEXT},
      {"llamacpp/error-too-long-stream.json", HIVE_ANSWER_CONTEXT},
      {"llamacpp-embed/error-too-long.json", HIVE_ANSWER_CONTEXT},
      {"llamacpp-rerank/error-too-long.json", HIVE_ANSWER_CONTEXT},
      {"vllm/error-unknown-model.json", HIVE_ANSWER_UNKNOWN_MODEL},
      {"vllm/error-messages-unknown-model.json", HIVE_ANSWER_UNKNOWN_MODEL},
      {"vllm-embed/error-unknown-model.json", HIVE_ANSWER_UNKNOWN_MODEL},
      {"infinity/error-unknown-model.json", HIVE_ANSWER_UNKNOWN_MODEL},
  };
  const std::map<std::string, std::string> adapters = {{"vllm", "engine_vllm"}, {"llamacpp", "engine_llamacpp"}, {"infinity", "engine_openai"}};
  std::map<std::string, std::unique_ptr<loaded_engine>> engines;
  for (const auto &[family, library] : adapters) engines[family] = std::make_unique<loaded_engine>(library);
  std::istringstream rows(golden("statuses.txt"));
  std::string file;
  uint32_t status = 0;
  size_t seen = 0;
  for (; rows >> file >> status; ++seen) {
    SCOPED_TRACE(file);
    const auto &engine = *engines.at(file.substr(0, file.find_first_of("-/")));
    const auto want = special.find(file);
    EXPECT_EQ(engine.classify(status, golden(file)).verdict, want == special.end() ? int{HIVE_ANSWER_CLIENT} : want->second);
    EXPECT_FALSE(engine.last_message.empty());
    EXPECT_FALSE(engine.last_message.starts_with("{")) << engine.last_message;
  }
  EXPECT_EQ(seen, 74u);
}

TEST(golden_errors, a_generic_adapter_agrees_wherever_the_status_is_honest) {
  const loaded_engine any("engine_openai");
  std::istringstream rows(golden("statuses.txt"));
  std::string file;
  for (uint32_t status = 0; rows >> file >> status;) {
    if (status == 500) continue;
    EXPECT_NE(any.classify(status, golden(file)).verdict, int{HIVE_ANSWER_FAILED}) << file;
  }
}

// One column a version: the series its package declares, with their types.
struct version_of_engine {
  std::string version, page;
};
std::vector<version_of_engine> versions_of(const std::string &table) {
  std::istringstream lines(golden(table));
  std::vector<version_of_engine> out;
  std::string line;
  while (std::getline(lines, line)) {
    if (!line.starts_with("|")) {
      if (!out.empty()) break;  // the first table of the page is the one
      continue;
    }
    std::vector<std::string> cells;
    std::istringstream row(line.substr(1));
    for (std::string cell; std::getline(row, cell, '|');) cells.push_back(cell);
    if (cells.at(0) == "series") {
      for (size_t i = 1; i < cells.size(); ++i) out.push_back({cells[i], ""});
    } else if (cells[0].starts_with("`")) {
      const std::string name = cells[0].substr(1, cells[0].size() - 2);
      for (size_t i = 1; i < cells.size() && i <= out.size(); ++i) {
        std::string &page = out[i - 1].page;
        if (cells[i] == "histogram")
          page += name + "_bucket{le=\"1.0\"} 3\n" + name + "_bucket{le=\"+Inf\"} 4\n" + name + "_count 4\n" + name + "_sum 2\n";
        else if (!cells[i].empty())
          page += name + "{model_name=\"m\"} 0.5\n" + name.substr(0, name.rfind("_total")) + "_created{model_name=\"m\"} 1.7e9\n";
      }
    }
  }
  return out;
}

// What the seven engine fields of a policy are made of: three gauges and two histograms (avg and p90 each).
void has_all_seven(const loaded_engine &engine, const version_of_engine &v) {
  SCOPED_TRACE(v.version);
  page_facts f;
  ASSERT_EQ(engine.read(HIVE_PAGE_METRICS, 200, v.page, f), HIVE_OK);
  for (const char *gauge : {"kv_cache_utilization", "running_requests", "waiting_requests"}) {
    ASSERT_TRUE(f.gauges.contains(gauge)) << gauge;
    EXPECT_EQ(f.gauges.at(gauge), 0.5) << gauge;
  }
  for (const char *name : {"ttft_seconds", "itl_seconds", "request_prompt_tokens", "request_generation_tokens"}) {
    ASSERT_TRUE(f.histograms.contains(name)) << name;
    EXPECT_EQ(f.histograms.at(name).total, 4) << name;
    EXPECT_EQ(f.histograms.at(name).cumulative, std::vector<double>{3}) << name;
  }
  for (const char *counter : {"prompt_tokens", "generation_tokens"}) EXPECT_EQ(f.counters.at(counter), 0.5) << counter;
}

TEST(series_names, of_every_version_of_vllm_give_all_seven_signals) {
  const auto versions = versions_of("series/vllm.md");
  ASSERT_EQ(versions.size(), 7u);
  const loaded_engine own("engine_vllm"), any("engine_openai");
  for (const auto &v : versions) has_all_seven(own, v), has_all_seven(any, v);
}

TEST(series_names, of_every_version_of_sglang_give_all_seven_signals) {
  const auto versions = versions_of("series/sglang.md");
  ASSERT_EQ(versions.size(), 2u);
  const loaded_engine engine("engine_openai");
  for (const auto &v : versions) has_all_seven(engine, v);
}

TEST(series_names, of_sglang_are_summed_over_their_label_sets) {
  const loaded_engine engine("engine_openai");
  page_facts f;
  ASSERT_EQ(engine.read(HIVE_PAGE_METRICS, 200,
                        "sglang:num_running_reqs{dp_rank=\"0\"} 3\nsglang:num_running_reqs{dp_rank=\"1\"} 4\n"
                        "sglang:token_usage{dp_rank=\"0\"} 0.5\nsglang:token_usage{dp_rank=\"1\"} 0.25\n"
                        "sglang:prompt_tokens_total{is_streaming=\"True\"} 10\nsglang:prompt_tokens_total{is_streaming=\"False\"} 5\n"
                        "sglang:cached_tokens_total{cache_source=\"device\"} 6\nsglang:num_retracted_reqs 2\n"
                        "sglang:time_to_first_token_seconds_bucket{is_streaming=\"True\",le=\"0.1\"} 1\n"
                        "sglang:time_to_first_token_seconds_bucket{is_streaming=\"False\",le=\"0.1\"} 2\n"
                        "sglang:time_to_first_token_seconds_sum{is_streaming=\"True\"} 1\nsglang:time_to_first_token_seconds_sum{is_streaming=\"False\"} 2\n"
                        "sglang:time_to_first_token_seconds_count{is_streaming=\"True\"} 3\n"
                        "sglang:time_to_first_token_seconds_count{is_streaming=\"False\"} 4\n",
                        f), HIVE_OK);
  EXPECT_EQ(f.gauges, (numbers{{"running_requests", 7}, {"kv_cache_utilization", 0.375}}));
  EXPECT_EQ(f.counters, (numbers{{"prompt_tokens", 15}, {"prefix_cache_queries", 15}, {"prefix_cache_hits", 6}}));
  EXPECT_EQ(f.histograms.at("ttft_seconds").cumulative, std::vector<double>{3});
  EXPECT_EQ(f.histograms.at("ttft_seconds").total, 7);
}

}  // namespace
}  // namespace hive::conformance
