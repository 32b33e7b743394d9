// The component `vllm` of kind engine: vLLM's pages, 0.6 to 0.33, and its errors.
#include "hive/sdk/openai_pages.hpp"

namespace {

namespace sdk = hive::sdk;
using sdk::fold;

// Newest name first. `gpu_cache_usage_perc` is a fraction in spite of its name.
const std::vector<sdk::alias> series = {
    {"kv_cache_utilization", fold::mean, {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}},
    {"running_requests", fold::sum, {"vllm:num_requests_running"}},
    {"waiting_requests", fold::sum, {"vllm:num_requests_waiting"}},
    {"ttft_seconds", fold::histogram, {"vllm:time_to_first_token_seconds"}},
    {"itl_seconds", fold::histogram, {"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"}},
    {"request_prompt_tokens", fold::histogram, {"vllm:request_prompt_tokens"}},
    {"request_generation_tokens", fold::histogram, {"vllm:request_generation_tokens"}},
    {"preemptions", fold::counter, {"vllm:num_preemptions_total", "vllm:num_preemptions"}},
    {"prompt_tokens", fold::counter, {"vllm:prompt_tokens_total", "vllm:prompt_tokens"}},
    {"generation_tokens", fold::counter, {"vllm:generation_tokens_total", "vllm:generation_tokens"}},
    {"prefix_cache_queries", fold::counter, {"vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries"}},
    {"prefix_cache_hits", fold::counter, {"vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits"}},
    {"prefix_cache_hit_rate", fold::mean, {"vllm:gpu_prefix_cache_hit_rate"}},
    {"request_success", fold::counter, {"vllm:request_success_total", "vllm:request_success"}, "finished_reason"},
};

class vllm {
 public:
  static constexpr std::string_view id = "vllm";
  static constexpr std::string_view version = "0.1.0";
  static constexpr std::string_view summary = "vLLM's OpenAI server: health, models, metrics, errors";

  vllm() : reader_(series) {
    health_ = about_.page(HIVE_PAGE_HEALTH, "GET", "/health");
    models_ = about_.page(HIVE_PAGE_MODELS, "GET", "/v1/models");
    metrics_ = about_.page(HIVE_PAGE_METRICS, "GET", "/metrics");
    about_.signal("kv_cache_utilization", "fraction", "KV cache in use, 0 to 1, mean over the ranks");
    about_.signal("running_requests", "requests", "requests in the running batch, all ranks");
    about_.signal("waiting_requests", "requests", "requests waiting in the engine, all ranks");
    about_.signal("ttft_seconds", "seconds", "time to first token (histogram)");
    about_.signal("itl_seconds", "seconds", "time between output tokens (histogram)");
    about_.signal("request_prompt_tokens", "tokens", "prompt tokens of a request (histogram)");
    about_.signal("request_generation_tokens", "tokens", "output tokens of a request (histogram)");
    about_.signal("preemptions", "requests", "requests preempted (counter)");
    about_.signal("prompt_tokens", "tokens", "prompt tokens (counter)");
    about_.signal("generation_tokens", "tokens", "output tokens (counter)");
    about_.signal("prefix_cache_queries", "tokens", "tokens looked up in the prefix cache (counter)");
    about_.signal("prefix_cache_hits", "tokens", "tokens found in the prefix cache (counter)");
    about_.signal("prefix_cache_hit_rate", "fraction", "share of prefix cache hits, 0 to 1 (vLLM 0.6 only)");
    about_.signal("request_success", "requests", "requests finished, by finished_reason, aborts included (counter)");
    for (const auto *capability : {"llm", "embedding", "reranker"}) about_.capability(capability);
    about_.idle_limit_ms = 4000;  // uvicorn closes an idle connection after 5 s without notice
    about_.default_port = 8000;
  }

  const sdk::engine_description &describe() const { return about_; }

  void parse_page(std::uint32_t page, std::uint32_t status, std::string_view body, const sdk::page_sink &sink) const {
    if (page == health_) sdk::report_health(status, body, sink);
    else if (page == models_) sdk::report_models(status, body, sink);
    else if (page == metrics_) sdk::report_metrics(status, body, reader_, sink);
    else throw sdk::failure(HIVE_E_ARGUMENT, "no page " + std::to_string(page));
  }

  sdk::answer classify(std::uint32_t status, std::span<const hive_header> headers, std::string_view body) const {
    return sdk::classify_common(status, headers, body, sdk::error_of(status, body));
  }

 private:
  sdk::engine_description about_;
  sdk::prometheus_reader reader_;
  std::uint32_t health_ = 0, models_ = 0, metrics_ = 0;
};

}  // namespace

HIVE_PLUGIN("engine_vllm", "0.1.0", "Hivenet Router", "Apache-2.0", hive::sdk::engine<vllm>)
