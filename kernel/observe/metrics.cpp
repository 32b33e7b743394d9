#include "observe/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/text.hpp"

namespace hive::observe {
namespace {

[[maybe_unused]] bool is_name(std::string_view text) {
  return !text.empty() && text[0] >= 'a' && text[0] <= 'z' && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

}  // namespace

struct family_state {
  using any_family = std::variant<prometheus::Family<prometheus::Counter> *, prometheus::Family<prometheus::Gauge> *,
                                  prometheus::Family<prometheus::Histogram> *>;
  any_family family;
  std::vector<std::string> labels;
  std::vector<double> bounds;
  size_t max_series = 0;
  prometheus::Counter *dropped = nullptr;  // null for the family that counts these
  std::mutex mutex;                        // guards what follows
  // A lookup happens several times a request: it allocates nothing.
  std::unordered_map<std::string, void *, text_hash, std::equal_to<>> known;
  std::string key;
  struct grave {
    std::string key;
    uint32_t calls_left;
  };
  std::vector<grave> graves;               // their series are in `known` no more

  // The label values in a key of `known`: each behind its length, in two bytes.
  static std::vector<std::string_view> values_of(std::string_view packed) {
    std::vector<std::string_view> values;
    while (!packed.empty()) {
      const size_t size = static_cast<uint8_t>(packed[0]) | static_cast<size_t>(static_cast<uint8_t>(packed[1])) << 8;
      values.push_back(packed.substr(2, size));
      packed.remove_prefix(2 + size);
    }
    return values;
  }

  // Null beyond the cap.
  template <class Metric, class... More>
  Metric *find(std::span<const std::string_view> values, const More &...more) {
    assert(values.size() == labels.size());
    const std::lock_guard lock(mutex);
    key.clear();
    for (const std::string_view value : values) {
      const std::string_view clean = clean_label(value);
      key += static_cast<char>(clean.size() & 0xff);  // what is clean is short
      key += static_cast<char>(clean.size() >> 8);
      key += clean;
    }
    if (const auto found = known.find(std::string_view(key)); found != known.end()) return static_cast<Metric *>(found->second);
    if (known.size() >= max_series) {
      if (dropped != nullptr) dropped->Increment();
      return nullptr;
    }
    prometheus::Labels pairs;
    for (size_t i = 0; i < values.size(); ++i) pairs.emplace(labels[i], clean_label(values[i]));
    std::erase_if(graves, [&](const grave &g) { return g.key == key; });
    Metric *const made = &std::get<prometheus::Family<Metric> *>(family)->Add(pairs, more...);
    known.emplace(key, made);
    return made;
  }

  void forget(std::string_view name, std::string_view value) {
    const auto at = std::find(labels.begin(), labels.end(), name);
    if (at == labels.end()) return;
    const auto label = static_cast<size_t>(at - labels.begin());
    const std::string_view clean = clean_label(value);
    const std::lock_guard lock(mutex);
    for (auto each = known.begin(); each != known.end();) {
      if (values_of(each->first)[label] != clean) {
        ++each;
        continue;
      }
      graves.push_back({each->first, metrics::burial_calls});
      each = known.erase(each);
    }
  }

  void bury() {
    const std::lock_guard lock(mutex);
    for (auto g = graves.begin(); g != graves.end();) {
      if (--g->calls_left > 0) {
        ++g;
        continue;
      }
      prometheus::Labels pairs;
      const auto values = values_of(g->key);
      for (size_t i = 0; i < values.size(); ++i) pairs.emplace(labels[i], values[i]);
      std::visit([&](auto *f) {
        // Add finds the one that is there.
        using metric = std::remove_reference_t<decltype(f->Add(pairs))>;
        if constexpr (std::is_same_v<metric, prometheus::Histogram>) f->Remove(&f->Add(pairs, bounds));
        else f->Remove(&f->Add(pairs));
      }, family);
      g = graves.erase(g);
    }
  }
};

void counter::add(double n) const {
  if (to_ != nullptr) to_->Increment(n);
}
double counter::value() const { return to_ != nullptr ? to_->Value() : 0; }
void gauge::set(double value) const {
  if (to_ != nullptr) to_->Set(value);
}
void gauge::add(double n) const {
  if (to_ != nullptr) to_->Increment(n);
}
double gauge::value() const { return to_ != nullptr ? to_->Value() : 0; }
void histogram::observe(double value) const {
  if (to_ != nullptr) to_->Observe(value);
}

counter counter_family::with(std::span<const std::string_view> values) const {
  return counter(state_->find<prometheus::Counter>(values));
}
gauge gauge_family::with(std::span<const std::string_view> values) const { return gauge(state_->find<prometheus::Gauge>(values)); }
histogram histogram_family::with(std::span<const std::string_view> values) const {
  return histogram(state_->find<prometheus::Histogram>(values, state_->bounds));
}

struct metrics::impl {
  prometheus::Registry registry;
  std::mutex mutex;  // guards what follows; held for a whole scrape
  std::vector<collectable *> collectables;
  std::vector<std::string> names;
  std::vector<std::shared_ptr<family_state>> families;
  std::shared_ptr<family_state> dropped;
};

metrics::metrics() : impl_(std::make_unique<impl>()) {
  impl_->dropped = made("metrics_series_dropped_total", "Series refused because their family was full.", metric_kind::counter,
                        {"family"}, {}, default_max_series);
}

metrics::~metrics() = default;

std::shared_ptr<family_state> metrics::made(std::string_view name, std::string_view help, metric_kind kind,
                                            std::vector<std::string> labels, std::vector<double> bounds, size_t max_series) {
  assert(is_name(name) && !help.empty() && std::all_of(labels.begin(), labels.end(), is_name));
  assert(kind != metric_kind::counter || name.ends_with("_total"));
  assert(std::is_sorted(bounds.begin(), bounds.end()));
  auto state = std::make_shared<family_state>();
  const std::string whole = full_name(name), text(help);
  const std::lock_guard lock(impl_->mutex);
  assert(std::find(impl_->names.begin(), impl_->names.end(), whole) == impl_->names.end());
  impl_->names.push_back(whole);
  switch (kind) {
    case metric_kind::counter:
      state->family = &prometheus::BuildCounter().Name(whole).Help(text).Register(impl_->registry);
      break;
    case metric_kind::gauge: state->family = &prometheus::BuildGauge().Name(whole).Help(text).Register(impl_->registry); break;
    case metric_kind::histogram:
      state->family = &prometheus::BuildHistogram().Name(whole).Help(text).Register(impl_->registry);
      break;
  }
  state->labels = std::move(labels);
  state->bounds = std::move(bounds);
  state->max_series = max_series;
  impl_->families.push_back(state);
  if (impl_->dropped) {
    const std::string_view family(whole);
    state->dropped = impl_->dropped->find<prometheus::Counter>(std::span(&family, 1));
  }
  return state;
}

counter_family metrics::counters(std::string_view name, std::string_view help, std::vector<std::string> labels, size_t max_series) {
  return {made(name, help, metric_kind::counter, std::move(labels), {}, max_series)};
}
gauge_family metrics::gauges(std::string_view name, std::string_view help, std::vector<std::string> labels, size_t max_series) {
  return {made(name, help, metric_kind::gauge, std::move(labels), {}, max_series)};
}
histogram_family metrics::histograms(std::string_view name, std::string_view help, std::vector<double> bounds,
                                     std::vector<std::string> labels, size_t max_series) {
  return {made(name, help, metric_kind::histogram, std::move(labels), std::move(bounds), max_series)};
}

void metrics::forget(std::string_view name, std::string_view value) {
  const std::lock_guard lock(impl_->mutex);
  for (const auto &family : impl_->families) family->forget(name, value);
}

void metrics::bury() {
  const std::lock_guard lock(impl_->mutex);
  for (const auto &family : impl_->families) family->bury();
}

void metrics::add(collectable &one) {
  const std::lock_guard lock(impl_->mutex);
  impl_->collectables.push_back(&one);
}

void metrics::remove(collectable &one) {
  const std::lock_guard lock(impl_->mutex);
  std::erase(impl_->collectables, &one);
}

void metrics::expose(text_sink &sink) {
  const std::lock_guard lock(impl_->mutex);
  exposition out(sink);
  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  std::erase_if(families, [](const prometheus::MetricFamily &family) { return family.metric.empty(); });
  uint64_t series = 1;  // the one below
  for (const prometheus::MetricFamily &family : families) series += family.metric.size();
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families);
  out.raw(text.view(), impl_->names);
  for (collectable *const each : impl_->collectables) each->collect(out);
  if (out.family(metric_kind::gauge, "metrics_series", "Series of this page, a histogram as one")) out.series({}, series + out.written());
}

std::string metrics::expose() {
  struct whole final : text_sink {
    std::string text;
    void write(std::string_view piece) override { text += piece; }
  } page;
  expose(page);
  return std::move(page.text);
}

std::vector<double> exponential_bounds(double base, double factor, size_t count) {
  std::vector<double> out(count);
  for (double &bound : out) {
    bound = base;
    base *= factor;
  }
  return out;
}

}  // namespace hive::observe
