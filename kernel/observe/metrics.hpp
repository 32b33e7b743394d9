// The metrics of one program: families of prometheus-cpp behind handles that are resolved once, things that compute their
// families at scrape time, and the page itself. One object a program (or a test); nothing global.
//
// Names are short ("queue_depth"); the prefix comes from full_name(). Families are made at start on one thread. Handles are
// trivially copyable, live as long as the metrics object, and may be used from any thread.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "observe/exposition.hpp"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}

namespace hive::observe {

class counter {
 public:
  counter() = default;             // counts nowhere
  void add(double n = 1) const;    // n >= 0; one atomic operation
  double value() const;

 private:
  friend class counter_family;
  explicit counter(prometheus::Counter *to) : to_(to) {}
  prometheus::Counter *to_ = nullptr;
};

class gauge {
 public:
  gauge() = default;
  void set(double) const;
  void add(double) const;          // may be negative
  double value() const;

 private:
  friend class gauge_family;
  explicit gauge(prometheus::Gauge *to) : to_(to) {}
  prometheus::Gauge *to_ = nullptr;
};

class histogram {
 public:
  histogram() = default;
  void observe(double) const;      // a short lock of its own; 50 ns uncontended

 private:
  friend class histogram_family;
  explicit histogram(prometheus::Histogram *to) : to_(to) {}
  prometheus::Histogram *to_ = nullptr;
};

struct family_state;

// The series of a family by the values of its labels, in the order of the names. At most `max_series`: beyond it a handle
// that counts nowhere, and metrics_series_dropped_total{family} rises. Values pass clean_label. Takes a lock: resolve once,
// or keep a cache of your own on a hot path. Any thread.
class counter_family {
 public:
  counter with(std::initializer_list<std::string_view> values) const { return with(std::span(values.begin(), values.size())); }
  counter with(std::span<const std::string_view> values) const;
  std::shared_ptr<family_state> state_;
};
class gauge_family {
 public:
  gauge with(std::initializer_list<std::string_view> values) const { return with(std::span(values.begin(), values.size())); }
  gauge with(std::span<const std::string_view> values) const;
  std::shared_ptr<family_state> state_;
};
class histogram_family {
 public:
  histogram with(std::initializer_list<std::string_view> values) const { return with(std::span(values.begin(), values.size())); }
  histogram with(std::span<const std::string_view> values) const;
  std::shared_ptr<family_state> state_;
};

// Something that writes its families at scrape time, on the thread that scrapes.
class collectable {
 public:
  virtual ~collectable() = default;
  virtual void collect(exposition &) = 0;
};

inline constexpr size_t default_max_series = 2000;

class metrics {
 public:
  metrics();
  ~metrics();
  metrics(const metrics &) = delete;
  metrics &operator=(const metrics &) = delete;

  // A name is [a-z][a-z0-9_]*, a counter's ends in _total; labels likewise. Anything else, or a name used twice, is our own
  // bug: an assert. `bounds` ascend.
  counter_family counters(std::string_view name, std::string_view help, std::vector<std::string> labels = {}, size_t max_series = default_max_series);
  gauge_family gauges(std::string_view name, std::string_view help, std::vector<std::string> labels = {}, size_t max_series = default_max_series);
  histogram_family histograms(std::string_view name, std::string_view help, std::vector<double> bounds,
                              std::vector<std::string> labels = {}, size_t max_series = default_max_series);

  // The series whose label `name` has that value are not exposed any more once `bury` has been called `burial_calls` times
  // after it; until then their handles stay good, and whoever asks for one with() meanwhile brings it back to life.
  static constexpr uint32_t burial_calls = 10;
  void forget(std::string_view name, std::string_view value);
  void bury();                     // call about once a second

  // Not owned; remove before it dies. Both wait for a scrape that runs.
  void add(collectable &);
  void remove(collectable &);

  // The page, text format 0.0.4: "text/plain; version=0.0.4; charset=utf-8". One scrape at a time; any thread.
  void expose(text_sink &);
  std::string expose();

 private:
  std::shared_ptr<family_state> made(std::string_view name, std::string_view help, metric_kind, std::vector<std::string> labels,
                                     std::vector<double> bounds, size_t max_series);

  struct impl;
  std::unique_ptr<impl> impl_;
};

// {base * factor^k, k = 0..count-1}
std::vector<double> exponential_bounds(double base, double factor, size_t count);

}  // namespace hive::observe
