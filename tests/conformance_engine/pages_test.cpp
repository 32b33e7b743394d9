// What engine adapters must make of pages: the golden ones, old and renamed ones, broken ones.
#include "loaded_engine.hpp"

#include <clocale>
#include <cstdlib>
#include <random>
#include <set>

#include "base/test_folder.hpp"

namespace hive::conformance {
namespace {

class every_engine : public testing::TestWithParam<const char *> {
 protected:
  std::string id() const { return std::string(GetParam()).substr(7); }
  std::string folder() const { return generic() ? "vllm" : id(); }
  bool generic() const { return id() == "openai"; }  // knows no engine: pages may be missing
  loaded_engine engine{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(, every_engine, testing::Values("engine_vllm", "engine_llamacpp", "engine_openai"),
                         [](const auto &p) { return std::string(p.param); });

TEST_P(every_engine, describes_itself_the_same_every_time) {
  const auto &d = engine.describe();
  EXPECT_EQ(&d, &engine.describe());
  EXPECT_EQ(text(engine.component().id), id());
  for (const uint32_t role : {HIVE_PAGE_HEALTH, HIVE_PAGE_MODELS, HIVE_PAGE_METRICS}) {
    const hive_page &p = *d.pages[engine.page(role)];
    EXPECT_EQ(text(p.method), "GET");
    EXPECT_EQ(text(p.path).front(), '/');
    EXPECT_GE(p.timeout_ms, 1000u);
  }
  EXPECT_LT(d.idle_limit_ms, 5000u);
  EXPECT_GT(d.idle_limit_ms, 0u);
  std::set<std::string> names;
  for (uint32_t i = 0; i < d.signal_count; ++i) {
    EXPECT_TRUE(names.insert(text(d.signals[i]->name)).second);
    EXPECT_GT(d.signals[i]->unit.len, 0u);
    EXPECT_GT(d.signals[i]->help.len, 0u);
  }
  for (const char *needed : {"kv_cache_utilization", "running_requests", "waiting_requests", "ttft_seconds", "itl_seconds"})
    EXPECT_TRUE(names.contains(needed)) << needed;
}

TEST_P(every_engine, reports_only_signals_it_has_described) {
  page_facts f;
  ASSERT_EQ(engine.read(HIVE_PAGE_METRICS, 200, golden(folder() + "/metrics.txt"), f), HIVE_OK);
  std::set<std::string> names;
  for (uint32_t i = 0; i < engine.describe().signal_count; ++i) names.insert(text(engine.describe().signals[i]->name));
  for (const auto &[n, v] : f.gauges) EXPECT_TRUE(names.contains(n)) << n;
  for (const auto &[n, v] : f.counters) EXPECT_TRUE(names.contains(n.substr(0, n.find('{')))) << n;
  for (const auto &[n, v] : f.histograms) EXPECT_TRUE(names.contains(n)) << n;
  EXPECT_TRUE(f.sound);
}

TEST_P(every_engine, judges_health_by_status_and_words) {
  struct row { uint32_t status; const char *body; int state; } const rows[] = {
      {200, "", HIVE_ENGINE_READY},
      {200, R"({"status":"ok"})", HIVE_ENGINE_READY},
      {503, R"({"error":{"message":"Loading model","type":"unavailable_error","code":503}})", HIVE_ENGINE_STARTING},
      {503, "", HIVE_ENGINE_DOWN},
      {500, "oops", HIVE_ENGINE_DOWN},
      {404, R"({"detail":"Not Found"})", HIVE_ENGINE_DOWN},
  };
  for (const auto &r : rows) {
    page_facts f;
    EXPECT_EQ(engine.read(HIVE_PAGE_HEALTH, r.status, r.body, f), HIVE_OK);
    if (generic() && r.status == 404) {
      EXPECT_TRUE(f.states.empty()) << "no health page says nothing: the list of models decides";
      continue;
    }
    ASSERT_EQ(f.states.size(), 1u);
    EXPECT_EQ(f.states[0].first, r.state) << r.status << r.body;
    EXPECT_EQ(f.states[0].second.empty(), r.status == 200);
  }
}

TEST_P(every_engine, lists_every_model_with_its_context_length) {
  page_facts f;
  ASSERT_EQ(engine.read(HIVE_PAGE_MODELS, 200, golden(folder() + "/models.json"), f), HIVE_OK);
  EXPECT_EQ(f.models.at("tiny-llm").at("max_model_len"), "2048");
  EXPECT_EQ(f.models.count("tiny-alias"), folder() == "vllm" ? 1u : 0u);
}

TEST_P(every_engine, lists_adapters_and_skips_entries_without_an_id) {
  page_facts f;
  ASSERT_EQ(engine.read(HIVE_PAGE_MODELS, 200, R"({"data":[{"id":"base"},{"id":"lora","parent":"base"},{"name":"x"},{"id":""},7]})", f), HIVE_OK);
  ASSERT_EQ(f.models.size(), 2u);
  EXPECT_TRUE(f.models.at("base").empty());
  EXPECT_EQ(f.models.at("lora").at("parent"), "base");
}

TEST_P(every_engine, takes_no_half_model_list) {
  const std::string page = golden(folder() + "/models.json");
  for (const std::string &bad : {page.substr(0, page.size() / 2), std::string("<html>"), std::string(), std::string(R"({"data":{}})")}) {
    page_facts f;
    EXPECT_EQ(engine.read(HIVE_PAGE_MODELS, 200, bad, f), HIVE_E_CORRUPT);
    EXPECT_TRUE(f.models.empty());
  }
}

TEST_P(every_engine, takes_a_missing_metrics_page_for_no_metrics) {
  for (const uint32_t status : {404u, 405u, 501u}) {
    page_facts f;
    EXPECT_EQ(engine.read(HIVE_PAGE_METRICS, status, R"({"error":{"code":501,"message":"x"}})", f), HIVE_OK);
    EXPECT_TRUE(f.gauges.empty() && f.counters.empty() && f.histograms.empty());
  }
  page_facts f;
  const hive_status no_metrics = generic() ? HIVE_OK : HIVE_E_CORRUPT;
  EXPECT_EQ(engine.read(HIVE_PAGE_METRICS, 200, "<!doctype html>\n<html><body class=\"a\">Sign in</body></html>\n", f), no_metrics);
  EXPECT_EQ(engine.read(HIVE_PAGE_METRICS, 200, "", f), no_metrics);
  EXPECT_EQ(engine.read(HIVE_PAGE_METRICS, 401, "", f), generic() ? HIVE_OK : HIVE_E_UNAVAILABLE);
  EXPECT_TRUE(f.gauges.empty() && f.counters.empty() && f.histograms.empty());
}

TEST_P(every_engine, is_safe_at_every_truncation) {
  const std::string page = golden(folder() + "/metrics.txt");
  for (size_t n = 0; n < page.size(); n += n < 3000 ? 7 : 431) {
    page_facts f;
    engine.read(HIVE_PAGE_METRICS, 200, std::string_view(page).substr(0, n), f);
    EXPECT_TRUE(f.sound) << n;
  }
}

TEST_P(every_engine, is_safe_under_random_damage) {
  std::mt19937 random(20261130);
  const std::string pages[] = {golden(folder() + "/metrics.txt"), golden(folder() + "/models.json")};
  for (int round = 0; round < 300; ++round) {
    std::string page = pages[round % 4 == 0 ? 1 : 0];
    if (page.size() > 20000) page = page.substr(random() % (page.size() - 20000), 20000);
    for (int i = 0; i < 40; ++i) page[random() % page.size()] = static_cast<char>("\0\"\\{}=,\n 9e+-N\xff"[random() % 16]);
    page_facts f;
    engine.read(round % 4 == 0 ? HIVE_PAGE_MODELS : HIVE_PAGE_METRICS, 200, page, f);
    EXPECT_TRUE(f.sound) << round;
    engine.classify(500, std::string_view(page).substr(0, 2000));
    EXPECT_LE(engine.last_message.size(), 512u);
  }
}

// 30 MB of other series around the wanted ones: linear, and nothing of it is kept.
TEST_P(every_engine, reads_a_huge_page_in_one_pass) {
  const std::string wanted = golden(folder() + "/metrics.txt");
  std::string page;
  while (page.size() < (size_t{15} << 20)) page += "http_request_duration_seconds_bucket{handler=\"/v1/a\",le=\"0.25\",method=\"POST\"} 12345\n";
  page += wanted + page;
  ASSERT_GT(page.size(), size_t{30} << 20);
  page_facts small, huge;
  ASSERT_EQ(engine.read(HIVE_PAGE_METRICS, 200, wanted, small), HIVE_OK);
  ASSERT_EQ(engine.read(HIVE_PAGE_METRICS, 200, page, huge), HIVE_OK);
  EXPECT_EQ(huge.gauges, small.gauges);
  EXPECT_EQ(huge.counters, small.counters);
}

TEST(vllm_pages, golden_histogram_gives_its_buckets) {
  loaded_engine engine("engine_vllm");
  page_facts f;
  ASSERT_EQ(engine.read(HIVE_PAGE_METRICS, 200, golden("vllm/metrics.txt"), f), HIVE_OK);
  const histogram &ttft = f.histograms.at("ttft_seconds");
  ASSERT_EQ(ttft.bounds.size(), 22u);
  EXPECT_EQ(ttft.bounds[3], 0.02);
  EXPECT_EQ(ttft.cumulative[3], 7);
  EXPECT_EQ(ttft.cumulative.back(), 18);
  EXPECT_EQ(f.histograms.at("itl_seconds").bounds.front(), 0.01);
}

TEST(llamacpp_pages, reads_the_series_of_older_and_patched_builds) {
  loaded_engine engine("engine_llamacpp");
  page_facts f;
  ASSERT_EQ(engine.read(HIVE_PAGE_METRICS, 200,
                        "llamacpp:kv_cache_usage_ratio 0.25\nllamacpp:time_per_output_token_seconds_bucket{le=\"0.1\"} 3\n"
                        "llamacpp:time_per_output_token_seconds_sum 0.5\nllamacpp:time_per_output_token_seconds_count 4\n", f), HIVE_OK);
  EXPECT_EQ(f.gauges.at("kv_cache_utilization"), 0.25);
  EXPECT_EQ(f.histograms.at("itl_seconds").cumulative, std::vector<double>{3});
}

struct vllm_line {
  const char *name;
  const char *page;
  std::map<std::string, double> gauges, counters;
};

TEST(vllm_pages, reads_odd_pages_right) {
  const vllm_line rows[] = {
      {"several ranks: counts summed, ratios averaged",
       "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\"} 4\n"
       "vllm:kv_cache_usage_perc{engine=\"0\"} 0.5\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.25\n"
       "vllm:num_preemptions_total{engine=\"0\"} 1\nvllm:num_preemptions_total{engine=\"1\"} 2\n",
       {{"running_requests", 7}, {"kv_cache_utilization", 0.375}}, {{"preemptions", 3}}},
      {"older name", "vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.5\n", {{"kv_cache_utilization", 0.5}}, {}},
      {"newer name wins, whatever the order", "vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.75\nvllm:gpu_cache_usage_perc 0.1\n",
       {{"kv_cache_utilization", 0.75}}, {}},
      {"NaN and Inf are missing, not zero", "vllm:num_requests_running NaN\nvllm:num_requests_waiting +Inf\nvllm:kv_cache_usage_perc 0.5\n",
       {{"kv_cache_utilization", 0.5}}, {}},
      {"a rank without a value is left out of the mean", "vllm:kv_cache_usage_perc{engine=\"0\"} NaN\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.5\n",
       {{"kv_cache_utilization", 0.5}}, {}},
      {"escapes, braces and commas in labels", "vllm:num_requests_running{model_name=\"a\\\"}, le=\\\\\",engine=\"0\"} 2\n", {{"running_requests", 2}}, {}},
      {"an escaped label value is given plain",
       "vllm:request_success_total{finished_reason=\"a\\\"b\\\\c\\nd\"} 2\n", {}, {{"request_success{finished_reason=a\"b\\c\nd}", 2}}},
      {"exponents", "vllm:prompt_tokens_total 1.5e+003\nvllm:generation_tokens_total 2E2\nvllm:kv_cache_usage_perc 5e-1\n",
       {{"kv_cache_utilization", 0.5}}, {{"prompt_tokens", 1500}, {"generation_tokens", 200}}},
      {"timestamps, tabs, CRLF, no newline at the end", "vllm:num_requests_running 2 1700000000000\r\nvllm:num_requests_waiting\t 3\t1700000000000",
       {{"running_requests", 2}, {"waiting_requests", 3}}, {}},
      {"bad lines cost only themselves",
       "vllm:num_requests_running{engine=\"0 2\n<html>\nvllm:num_requests_running two\n\x01\x02\nvllm:num_requests_waiting 3\n",
       {{"waiting_requests", 3}}, {}},
      {"underscores for colons", "vllm_num_requests_running 2\n", {{"running_requests", 2}}, {}},
      {"creation times are no counts", "vllm:prompt_tokens_total 5\nvllm:prompt_tokens_created 1.7e9\n", {}, {{"prompt_tokens", 5}}},
      {"counters without their suffix", "vllm:num_preemptions 5\n", {}, {{"preemptions", 5}}},
      {"other series with a like name",
       "vllm:num_requests_waiting_by_reason{reason=\"x\"} 9\nvllm:iteration_tokens_total_bucket{le=\"1\"} 4\nvllm:num_requests_waiting 1\n",
       {{"waiting_requests", 1}}, {}},
  };
  loaded_engine engine("engine_vllm");
  for (const auto &r : rows) {
    SCOPED_TRACE(r.name);
    page_facts f;
    EXPECT_EQ(engine.read(HIVE_PAGE_METRICS, 200, r.page, f), HIVE_OK);
    EXPECT_EQ(f.gauges, r.gauges);
    EXPECT_EQ(f.counters, r.counters);
    EXPECT_TRUE(f.histograms.empty());
  }
}

TEST(vllm_pages, sums_the_histograms_of_ranks_bucket_by_bucket) {
  loaded_engine engine("engine_vllm");
  page_facts f;
  std::string page;
  for (const std::string rank : {"0", "1"})
    page += "vllm:time_per_output_token_seconds_bucket{engine=\"" + rank + "\",le=\"0.1\"} 1\n" +
            "vllm:time_per_output_token_seconds_bucket{le=\"0.5\",engine=\"" + rank + "\"} 3\n" +
            "vllm:time_per_output_token_seconds_bucket{engine=\"" + rank + "\",le=\"+Inf\"} 4\n" +
            "vllm:time_per_output_token_seconds_count{engine=\"" + rank + "\"} 4\n" +
            "vllm:time_per_output_token_seconds_sum{engine=\"" + rank + "\"} 2.5\n";
  ASSERT_EQ(engine.read(HIVE_PAGE_METRICS, 200, page, f), HIVE_OK);
  const histogram &itl = f.histograms.at("itl_seconds");
  EXPECT_EQ(itl.bounds, (std::vector<double>{0.1, 0.5}));
  EXPECT_EQ(itl.cumulative, (std::vector<double>{2, 6}));
  EXPECT_EQ(itl.total, 8);
  EXPECT_EQ(itl.sum, 5);
}

TEST(vllm_pages, drops_a_histogram_cut_in_its_middle_and_keeps_the_rest) {
  loaded_engine engine("engine_vllm");
  const std::string page = golden("vllm/metrics.txt");
  page_facts f;
  ASSERT_EQ(engine.read(HIVE_PAGE_METRICS, 200, page.substr(0, page.find("vllm:time_to_first_token_seconds_sum")), f), HIVE_OK);
  EXPECT_EQ(f.histograms.count("ttft_seconds"), 0u);
  EXPECT_EQ(f.counters.at("prompt_tokens"), 752);
}

// Naive variant: strtod. The locale is made here: machines that build have none but C as a rule.
TEST(vllm_pages, reads_a_point_as_a_point_in_any_locale) {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  const test_folder folder;
  const std::string make = "localedef -c -i de_DE -f UTF-8 '" + folder.at("de_DE.UTF-8") + "'";
  const int made = std::system(make.c_str());
  ASSERT_EQ(::setenv("LOCPATH", folder.path().c_str(), 1), 0);
  ASSERT_NE(std::setlocale(LC_ALL, "de_DE.UTF-8"), nullptr) << "localedef ended with " << made << "; install the package locales, as ./dev does";
  ASSERT_STREQ(std::localeconv()->decimal_point, ",");
  loaded_engine engine("engine_vllm");
  page_facts f;
  EXPECT_EQ(engine.read(HIVE_PAGE_METRICS, 200, "vllm:kv_cache_usage_perc 0.75\n", f), HIVE_OK);
  std::setlocale(LC_ALL, before.c_str());
  EXPECT_EQ(f.gauges.at("kv_cache_utilization"), 0.75);
}

}  // namespace
}  // namespace hive::conformance
