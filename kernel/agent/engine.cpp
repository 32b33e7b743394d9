#include "agent/engine.hpp"

#include <cmath>

#include "base/text.hpp"
#include "plugins/text.hpp"

namespace hive::agent {

namespace {

hive_str str(std::string_view s) { return {s.data(), s.size()}; }

page_news &news(void *ctx) { return *static_cast<page_news *>(ctx); }

void on_state(void *ctx, int32_t state, hive_str reason) noexcept {
  news(ctx).state = state;
  news(ctx).reason = plugins::text_of(reason);
}

void on_model(void *ctx, hive_str id, const hive_header *labels, size_t count) noexcept {
  constexpr size_t most_models = 1024;
  if (id.len == 0 || id.len > 256 || news(ctx).models.size() >= most_models) return;
  news(ctx).models.push_back(plugins::text_of(id));
  for (size_t i = 0; i < count; ++i)
    if (plugins::text_of(labels[i].name) == "usage_unit") news(ctx).usage_in_characters = plugins::text_of(labels[i].value) == "characters";
}

void on_gauge(void *ctx, hive_str name, double value) noexcept {
  if (std::isfinite(value)) news(ctx).gauges[plugins::text_of(name)] = value;
}

void on_counter(void *ctx, hive_str name, hive_str label, hive_str label_value, double total) noexcept {
  if (!std::isfinite(total) || total < 0) return;
  if (label.len == 0) news(ctx).counters[plugins::text_of(name)] = total;
  else news(ctx).labelled[plugins::text_of(name)][plugins::text_of(label_value)] = total;
}

void on_histogram(void *ctx, hive_str name, const double *bounds, const double *cumulative, size_t count, double sum,
                  double total) noexcept {
  histogram_totals h;
  h.bounds.assign(bounds, bounds + count);
  h.cumulative.assign(cumulative, cumulative + count);
  h.sum = sum;
  h.total = total;
  news(ctx).histograms[plugins::text_of(name)] = std::move(h);
}

}  // namespace

std::string_view class_name(int32_t verdict) {
  switch (verdict) {
    case HIVE_ANSWER_OK: return "ok";
    case HIVE_ANSWER_CLIENT: return "client";
    case HIVE_ANSWER_CONTEXT: return "context";
    case HIVE_ANSWER_OVERLOADED: return "overloaded";
    case HIVE_ANSWER_STARTING: return "starting";
    case HIVE_ANSWER_UNKNOWN_MODEL: return "unknown_model";
    default: return "failed";
  }
}

int engine_codec::page_of(uint32_t role) const {
  for (uint32_t i = 0; i < description_->page_count; ++i)
    if (description_->pages[i]->role == role) return static_cast<int>(i);
  return -1;
}

uint64_t engine_codec::stale_after_ms(std::string_view signal) const {
  for (uint32_t i = 0; i < description_->signal_count; ++i) {
    const hive_signal &s = *description_->signals[i];
    if (plugins::view(s.name) == signal && s.stale_after_ms != 0) return s.stale_after_ms;
  }
  return 10'000;
}

bool engine_codec::parse(int page, uint32_t status, std::string_view body, page_news &out) const {
  const hive_page_sink sink{sizeof(hive_page_sink), 0, &out, &on_state, &on_model, &on_gauge, &on_counter, &on_histogram};
  const hive_bytes bytes{reinterpret_cast<const uint8_t *>(body.data()), body.size()};
  if (table_->parse_page(self_, static_cast<uint32_t>(page), status, bytes, &sink) != HIVE_OK) return false;
  if (!out.models.empty()) usage_in_characters_.store(out.usage_in_characters, std::memory_order_relaxed);
  return true;
}

answer_class engine_codec::classify(uint32_t status, std::span<const http::field> fields, std::string_view body) const {
  std::vector<std::string> names;
  std::vector<hive_header> headers;
  names.reserve(fields.size());
  for (const http::field &f : fields) {
    names.push_back(lower(f.name));
    headers.push_back({str(names.back()), str(f.value)});
  }
  hive_answer_class raw{sizeof(hive_answer_class), HIVE_ANSWER_FAILED, 0, {nullptr, 0}};
  const hive_bytes bytes{reinterpret_cast<const uint8_t *>(body.data()), body.size()};
  answer_class out;
  if (table_->classify(self_, status, headers.data(), headers.size(), bytes, &raw) != HIVE_OK) return out;
  out.verdict = raw.verdict;
  out.retry_after_ms = raw.retry_after_ms;
  out.message = plugins::view(raw.message);
  return out;
}

}  // namespace hive::agent
