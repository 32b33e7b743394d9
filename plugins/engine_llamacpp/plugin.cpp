// The component `llamacpp` of kind engine: llama.cpp's llama-server.
#include "hive/sdk/openai_pages.hpp"

namespace {

namespace sdk = hive::sdk;
using sdk::fold;

// `kv_cache_usage_ratio` left llama.cpp in 2025 and the two histograms exist in forks only; they are read where a page
// has them. Its prompt counter leaves cached tokens out, and a counter called prompt_tokens would give a rate column of
// the same name as the gauge below: hence uncached_prompt_tokens.
const std::vector<sdk::alias> series = {
    {"kv_cache_utilization", fold::mean, {"llamacpp:kv_cache_usage_ratio"}},
    {"running_requests", fold::sum, {"llamacpp:requests_processing"}},
    {"waiting_requests", fold::sum, {"llamacpp:requests_deferred"}},
    {"predicted_tokens_per_second", fold::sum, {"llamacpp:predicted_tokens_seconds"}},
    {"prompt_tokens_per_second", fold::sum, {"llamacpp:prompt_tokens_seconds"}},
    {"ttft_seconds", fold::histogram, {"llamacpp:time_to_first_token_seconds"}},
    {"itl_seconds", fold::histogram, {"llamacpp:time_per_output_token_seconds"}},
    {"uncached_prompt_tokens", fold::counter, {"llamacpp:prompt_tokens_total"}},
    {"prefix_cache_hits", fold::counter, {"llamacpp:prompt_tokens_cached_total"}},
    {"generation_tokens", fold::counter, {"llamacpp:tokens_predicted_total"}},
};

// llama.cpp answers 500 to much that is the client's mistake; only the words tell.
constexpr std::string_view client_words[] = {"json.exception.", "is not supported", "does not support", "mmproj",
                                             "must not be empty", "does not logits computation", "is required", "must be"};
constexpr std::string_view context_words[] = {"too large to process", "exceeds the available context", "larger than the context",
                                              "exceed context size"};

class llamacpp {
 public:
  static constexpr std::string_view id = "llamacpp";
  static constexpr std::string_view version = "0.1.0";
  static constexpr std::string_view summary = "llama.cpp's llama-server: health, models, metrics (with --metrics), errors";

  llamacpp() : reader_(series) {
    health_ = about_.page(HIVE_PAGE_HEALTH, "GET", "/health");
    models_ = about_.page(HIVE_PAGE_MODELS, "GET", "/v1/models");
    metrics_ = about_.page(HIVE_PAGE_METRICS, "GET", "/metrics");
    about_.signal("kv_cache_utilization", "fraction", "KV cache in use, 0 to 1 (versions before mid 2025)");
    about_.signal("running_requests", "requests", "requests in a slot");
    about_.signal("waiting_requests", "requests", "requests deferred for want of a slot");
    about_.signal("predicted_tokens_per_second", "tokens/s", "mean generation speed since start");
    about_.signal("prompt_tokens_per_second", "tokens/s", "mean prompt speed since start");
    about_.signal("ttft_seconds", "seconds", "time to first token (histogram, where the build has it)");
    about_.signal("itl_seconds", "seconds", "time between output tokens (histogram, where the build has it)");
    about_.signal("uncached_prompt_tokens", "tokens", "prompt tokens computed (counter)");
    about_.signal("prefix_cache_hits", "tokens", "prompt tokens taken from the cache (counter)");
    about_.signal("generation_tokens", "tokens", "output tokens (counter)");
    for (const auto *capability : {"llm", "embedding", "reranker"}) about_.capability(capability);
    about_.idle_limit_ms = 4000;  // Keep-Alive: timeout=5, max=100
    about_.requests_per_connection = 100;
    about_.default_port = 8080;
  }

  const sdk::engine_description &describe() const { return about_; }

  void parse_page(std::uint32_t page, std::uint32_t status, std::string_view body, const sdk::page_sink &sink) const {
    if (page == health_) sdk::report_health(status, body, sink);
    else if (page == models_) sdk::report_models(status, body, sink);
    else if (page == metrics_) sdk::report_metrics(status, body, reader_, sink);
    else throw sdk::failure(HIVE_E_ARGUMENT, "no page " + std::to_string(page));
  }

  sdk::answer classify(std::uint32_t status, std::span<const hive_header> headers, std::string_view body) const {
    const sdk::engine_error e = sdk::error_of(status, body);
    sdk::answer out = sdk::classify_common(status, headers, body, e);
    if (out.verdict != HIVE_ANSWER_FAILED || (status != 500 && !(status == 200 && e.status == 500))) return out;
    const auto has = [&](std::string_view words) { return e.message.find(words) != std::string_view::npos; };
    if (std::any_of(std::begin(context_words), std::end(context_words), has)) out.verdict = HIVE_ANSWER_CONTEXT;
    else if (std::any_of(std::begin(client_words), std::end(client_words), has)) out.verdict = HIVE_ANSWER_CLIENT;
    return out;
  }

 private:
  sdk::engine_description about_;
  sdk::prometheus_reader reader_;
  std::uint32_t health_ = 0, models_ = 0, metrics_ = 0;
};

}  // namespace

HIVE_PLUGIN("engine_llamacpp", "0.1.0", "Hivenet Router", "Apache-2.0", hive::sdk::engine<llamacpp>)
