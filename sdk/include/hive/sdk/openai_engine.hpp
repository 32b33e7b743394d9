// An adapter for an OpenAI-like server is a description and nothing else:
//
//   class mine : public hive::sdk::openai_engine {
//    public:
//     static constexpr std::string_view id = "mine", summary = "...";
//     mine() : openai_engine({.metrics = {{signals::running_requests, {"mine:running"}}}, .default_port = 9000}) {}
//   };
//   HIVE_PLUGIN("engine_mine", "0.1.0", "you", "Apache-2.0", hive::sdk::engine<mine>)
//
// It reads GET /health, /v1/models and /metrics, and judges errors by the rules of every engine and the words given here.
// A derived class may hide parse_page or classify and call these. [pure]
#pragma once

#include "hive/sdk/engine_series.hpp"
#include "hive/sdk/openai_pages.hpp"

namespace hive::sdk {

struct openai_plan {
  std::vector<series> metrics;
  // The server may have no health and no metrics page. A health page that is not there (404, 405, 501) then says nothing,
  // and the host goes by the list of models; a metrics page that is not there, or something else, is then no error.
  bool pages_optional = false;
  std::uint32_t idle_limit_ms = 4000;          // retire kept connections before the server does: uvicorn and llama.cpp at 5 s
  std::uint32_t requests_per_connection = 0;   // 0 = no limit known
  std::uint32_t default_port = 0;
  std::uint32_t load_period_ms = 0;            // read the load that the list of models tells so often; 0 = never
  std::vector<std::string_view> capabilities = {"llm", "embedding", "reranker"};
  // Words of the message by which an answer of 500 is the client's mistake after all, or a prompt over the context.
  std::vector<std::string_view> client_words = {}, context_words = {};
};

class openai_engine {
 public:
  explicit openai_engine(openai_plan plan) : plan_(std::move(plan)), reader_(reader_of(plan_.metrics)) {
    health_ = about_.page(HIVE_PAGE_HEALTH, "GET", "/health");
    models_ = about_.page(HIVE_PAGE_MODELS, "GET", "/v1/models");
    metrics_ = about_.page(HIVE_PAGE_METRICS, "GET", "/metrics");
    if (plan_.load_period_ms != 0) load_ = about_.page(HIVE_PAGE_LOAD, "GET", "/v1/models", plan_.load_period_ms);
    for (const series &s : plan_.metrics) about_.signal(s.signal.name, s.signal.unit, s.signal.help);
    for (const std::string_view name : plan_.capabilities) about_.capability(name);
    about_.idle_limit_ms = plan_.idle_limit_ms;
    about_.requests_per_connection = plan_.requests_per_connection;
    about_.default_port = plan_.default_port;
  }

  const engine_description &describe() const { return about_; }

  void parse_page(std::uint32_t page, std::uint32_t status, std::string_view body, const page_sink &sink) const {
    if (page == health_) {
      if (plan_.pages_optional && no_such_page(status)) return;
      report_health(status, body, sink);
    } else if (page == models_) {
      report_models(status, body, sink);
    } else if (page == metrics_ && plan_.pages_optional) {
      if (status == 200) reader_.read(body, sink);
    } else if (page == metrics_) {
      report_metrics(status, body, reader_, sink);
    } else if (page == load_) {
      report_load(status, body, sink);
    } else {
      throw failure(HIVE_E_ARGUMENT, "no page " + std::to_string(page));
    }
  }

  answer classify(std::uint32_t status, std::span<const hive_header> headers, std::string_view body) const {
    const engine_error e = error_of(status, body);
    answer out = classify_common(status, headers, body, e);
    if (out.verdict != HIVE_ANSWER_FAILED || (status != 500 && !(status == 200 && e.status == 500))) return out;
    const auto has = [&](std::string_view words) { return e.message.find(words) != std::string_view::npos; };
    if (std::any_of(plan_.context_words.begin(), plan_.context_words.end(), has)) out.verdict = HIVE_ANSWER_CONTEXT;
    else if (std::any_of(plan_.client_words.begin(), plan_.client_words.end(), has)) out.verdict = HIVE_ANSWER_CLIENT;
    return out;
  }

 private:
  openai_plan plan_;
  engine_description about_;
  prometheus_reader reader_;
  std::uint32_t health_ = 0, models_ = 0, metrics_ = 0;
  std::uint32_t load_ = UINT32_MAX;
};

}  // namespace hive::sdk
