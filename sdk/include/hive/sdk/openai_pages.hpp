// The health, model, load and metrics pages that every OpenAI-like engine has, read one way. [pure]
#pragma once

#include "hive/sdk/engine_error.hpp"
#include "hive/sdk/prometheus.hpp"

namespace hive::sdk {

// The answers of servers to a path they do not have, or have for another method.
inline bool no_such_page(std::uint32_t status) { return status == 404 || status == 405 || status == 501; }

// 200 is ready, a 503 that says it is loading is starting, all else is down, with the engine's words.
inline void report_health(std::uint32_t status, std::string_view body, const page_sink &sink) {
  if (status == 200) return sink.state(HIVE_ENGINE_READY);
  const engine_error e = error_of(status, body);
  const bool loading = status == 503 && detail::lower(e.message).find("loading") != std::string::npos;
  sink.state(loading ? HIVE_ENGINE_STARTING : HIVE_ENGINE_DOWN, e.message);
}

// Every id of data[], with the context length in tokens as label max_model_len (vLLM: max_model_len, llama.cpp: meta.n_ctx)
// and a LoRA's base model as label parent, where given; usage_unit=characters for Infinity, whose usage counts those and not
// tokens. Throws HIVE_E_CORRUPT when it is no model list: half a list is none, or models would lose their agent.
inline void report_models(std::uint32_t status, std::string_view body, const page_sink &sink) {
  if (status == 503) return report_health(status, body, sink);
  if (status != 200) throw failure(HIVE_E_UNAVAILABLE, "the model list answered " + std::to_string(status));
  simdjson::dom::parser parser;
  simdjson::dom::array data;
  const simdjson::padded_string padded(body);
  if (parser.parse(padded)["data"].get(data)) throw failure(HIVE_E_CORRUPT, "the model list has no array 'data'");
  for (const simdjson::dom::element each : data) {
    simdjson::dom::object model;
    std::string_view id, parent, owner;
    if (each.get(model) || model["id"].get(id) || id.empty()) continue;
    std::int64_t length = 0;
    if (model["max_model_len"].get(length) && model["meta"]["n_ctx"].get(length)) length = 0;
    const std::string digits = std::to_string(length);
    hive_header labels[3];
    std::size_t count = 0;
    if (length > 0) labels[count++] = {str("max_model_len"), str(digits)};
    if (!model["parent"].get(parent) && !parent.empty()) labels[count++] = {str("parent"), str(parent)};
    if (!model["owned_by"].get(owner) && owner == "infinity") labels[count++] = {str("usage_unit"), str("characters")};
    sink.model(id, {labels, count});
  }
}

// The load that Infinity tells in its list of models: inputs that wait, over all models. Other lists hold none.
inline void report_load(std::uint32_t status, std::string_view body, const page_sink &sink) {
  if (status != 200) return;
  simdjson::dom::parser parser;
  simdjson::dom::array data;
  const simdjson::padded_string padded(body);
  if (parser.parse(padded)["data"].get(data)) throw failure(HIVE_E_CORRUPT, "the model list has no array 'data'");
  double waiting = 0;
  bool told = false;
  for (const simdjson::dom::element each : data) {
    double queued = 0;
    if (each["stats"]["queue_absolute"].get(queued) || !(queued >= 0)) continue;
    waiting += queued;
    told = true;
  }
  if (told) sink.gauge("waiting_requests", waiting);
}

// 404, 405 and 501 mean that the engine was started without metrics: nothing to report, and no error. Throws HIVE_E_CORRUPT
// when a 200 holds no sample at all.
inline void report_metrics(std::uint32_t status, std::string_view body, const prometheus_reader &reader, const page_sink &sink) {
  if (no_such_page(status)) return;
  if (status != 200) throw failure(HIVE_E_UNAVAILABLE, "the metrics page answered " + std::to_string(status));
  if (!reader.read(body, sink)) throw failure(HIVE_E_CORRUPT, "the metrics page holds no sample");
}

}  // namespace hive::sdk
