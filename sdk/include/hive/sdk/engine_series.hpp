// The signals that engines have in common, and what each engine calls them on its metrics page. An adapter for another
// engine reuses the signals with its own names:
//   const std::vector<series> mine = {{signals::running_requests, {"mine:running", "mine:running_before_2_0"}}, ...};
// Names were read from the engines' sources and pages: vLLM 0.6.6 to 0.33.0, SGLang 0.4.9 and 0.5.23, llama.cpp b10434.
#pragma once

#include "hive/sdk/prometheus.hpp"

namespace hive::sdk {

// Name, unit and help go into the adapter's description. Constant text.
struct known_signal {
  std::string_view name, unit, help;
  fold how;
  std::string_view keep_label = {};
};

// `names`: as in alias, newest first; where a page has several, the first listed one wins.
struct series {
  known_signal signal;
  std::vector<std::string_view> names;
};

// Units are those of the policy fields: seconds, and fractions 0..1. The host makes avg_, p50_, p90_ and p99_ columns of a
// histogram and a _per_second column of a counter.
namespace signals {
inline constexpr known_signal kv_cache_utilization{"kv_cache_utilization", "fraction", "KV cache in use, 0 to 1, mean over the ranks", fold::mean};
inline constexpr known_signal running_requests{"running_requests", "requests", "requests in the running batch, all ranks", fold::sum};
inline constexpr known_signal waiting_requests{"waiting_requests", "requests", "requests waiting in the engine, all ranks", fold::sum};
inline constexpr known_signal ttft_seconds{"ttft_seconds", "seconds", "time to first token (histogram)", fold::histogram};
inline constexpr known_signal itl_seconds{"itl_seconds", "seconds", "time between output tokens (histogram)", fold::histogram};
inline constexpr known_signal request_prompt_tokens{"request_prompt_tokens", "tokens", "prompt tokens of a request (histogram)", fold::histogram};
inline constexpr known_signal request_generation_tokens{"request_generation_tokens", "tokens", "output tokens of a request (histogram)", fold::histogram};
inline constexpr known_signal preemptions{"preemptions", "requests", "requests preempted (counter)", fold::counter};
inline constexpr known_signal prompt_tokens{"prompt_tokens", "tokens", "prompt tokens (counter)", fold::counter};
// Where cached tokens are left out of the count; another name, because its rate is not that of prompt_tokens.
inline constexpr known_signal uncached_prompt_tokens{"uncached_prompt_tokens", "tokens", "prompt tokens computed (counter)", fold::counter};
inline constexpr known_signal generation_tokens{"generation_tokens", "tokens", "output tokens (counter)", fold::counter};
inline constexpr known_signal prefix_cache_queries{"prefix_cache_queries", "tokens", "tokens looked up in the prefix cache (counter)", fold::counter};
inline constexpr known_signal prefix_cache_hits{"prefix_cache_hits", "tokens", "tokens found in the prefix cache (counter)", fold::counter};
inline constexpr known_signal prefix_cache_hit_rate{"prefix_cache_hit_rate", "fraction", "share of prefix cache hits, 0 to 1", fold::mean};
inline constexpr known_signal request_success{"request_success", "requests",
                                              "requests finished, by finished_reason, aborts included (counter)", fold::counter, "finished_reason"};
inline constexpr known_signal predicted_tokens_per_second{"predicted_tokens_per_second", "tokens/s", "generation speed as the engine says it", fold::sum};
inline constexpr known_signal prompt_tokens_per_second{"prompt_tokens_per_second", "tokens/s", "prompt speed as the engine says it", fold::sum};
}  // namespace signals

// `gpu_cache_usage_perc` is a fraction in spite of its name.
inline std::vector<series> vllm_series() {
  using namespace signals;
  return {
      {kv_cache_utilization, {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}},
      {running_requests, {"vllm:num_requests_running"}},
      {waiting_requests, {"vllm:num_requests_waiting"}},
      {ttft_seconds, {"vllm:time_to_first_token_seconds"}},
      {itl_seconds, {"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"}},
      {request_prompt_tokens, {"vllm:request_prompt_tokens"}},
      {request_generation_tokens, {"vllm:request_generation_tokens"}},
      {preemptions, {"vllm:num_preemptions_total", "vllm:num_preemptions"}},
      {prompt_tokens, {"vllm:prompt_tokens_total", "vllm:prompt_tokens"}},
      {generation_tokens, {"vllm:generation_tokens_total", "vllm:generation_tokens"}},
      {prefix_cache_queries, {"vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries",
                              "vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries"}},
      {prefix_cache_hits, {"vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits"}},
      {prefix_cache_hit_rate, {"vllm:gpu_prefix_cache_hit_rate"}},
      {request_success, {"vllm:request_success_total", "vllm:request_success"}},
  };
}

// A retraction is what others call a preemption; the gauge num_retracted_reqs is only the last batch.
inline std::vector<series> sglang_series() {
  using namespace signals;
  return {
      {kv_cache_utilization, {"sglang:token_usage", "sglang:full_token_usage"}},
      {running_requests, {"sglang:num_running_reqs"}},
      {waiting_requests, {"sglang:num_queue_reqs"}},
      {ttft_seconds, {"sglang:time_to_first_token_seconds"}},
      {itl_seconds, {"sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"}},
      {request_prompt_tokens, {"sglang:prompt_tokens_histogram"}},
      {request_generation_tokens, {"sglang:generation_tokens_histogram"}},
      {preemptions, {"sglang:num_retracted_requests_total"}},
      {prompt_tokens, {"sglang:prompt_tokens_total"}},
      {generation_tokens, {"sglang:generation_tokens_total"}},
      {prefix_cache_queries, {"sglang:prompt_tokens_total"}},
      {prefix_cache_hits, {"sglang:cached_tokens_total"}},
      {prefix_cache_hit_rate, {"sglang:cache_hit_rate"}},
      {predicted_tokens_per_second, {"sglang:gen_throughput"}},
  };
}

// `kv_cache_usage_ratio` left llama.cpp in 2025 and the two histograms exist in forks only; they are read where a page
// has them.
inline std::vector<series> llamacpp_series() {
  using namespace signals;
  return {
      {kv_cache_utilization, {"llamacpp:kv_cache_usage_ratio"}},
      {running_requests, {"llamacpp:requests_processing"}},
      {waiting_requests, {"llamacpp:requests_deferred"}},
      {ttft_seconds, {"llamacpp:time_to_first_token_seconds"}},
      {itl_seconds, {"llamacpp:time_per_output_token_seconds"}},
      {predicted_tokens_per_second, {"llamacpp:predicted_tokens_seconds"}},
      {prompt_tokens_per_second, {"llamacpp:prompt_tokens_seconds"}},
      {uncached_prompt_tokens, {"llamacpp:prompt_tokens_total"}},
      {prefix_cache_hits, {"llamacpp:prompt_tokens_cached_total"}},
      {generation_tokens, {"llamacpp:tokens_predicted_total"}},
  };
}

// One table for pages of several engines: rows with the same signal become one, names in the order of the tables.
inline std::vector<series> merged(std::initializer_list<std::vector<series>> tables) {
  std::vector<series> out;
  for (const auto &table : tables)
    for (const series &row : table) {
      const auto same = std::find_if(out.begin(), out.end(), [&](const series &s) { return s.signal.name == row.signal.name; });
      if (same == out.end()) out.push_back(row);
      else same->names.insert(same->names.end(), row.names.begin(), row.names.end());
    }
  return out;
}

inline prometheus_reader reader_of(const std::vector<series> &table) {
  std::vector<alias> rows;
  for (const series &s : table) rows.push_back({s.signal.name, s.signal.how, s.names, s.signal.keep_label});
  return prometheus_reader(std::move(rows));
}

}  // namespace hive::sdk
