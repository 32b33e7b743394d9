// Reads a Prometheus text page (exposition format 0.0.4) in one pass and reports what an alias table asks for. Labels are
// split properly: a brace, comma or quote inside a label value is part of the value. Lines that cannot be read are
// skipped, everything else on the page still counts. [pure]
#pragma once

#include <algorithm>
#include <cmath>
#include <map>

#include "hive/sdk/engine.hpp"

namespace hive::sdk {

// How the series of one family become one signal.
enum class fold { sum, mean, max, counter, histogram };

// `names`: the families that may carry it, newest first; where a page has several, the first listed one wins.
// `keep_label`: for fold::counter, one total a value of this label instead of one for all.
struct alias {
  std::string_view signal;
  fold how;
  std::initializer_list<std::string_view> names;
  std::string_view keep_label = {};
};

// One sample line, borrowed from the page.
struct sample {
  std::string_view name;
  std::string_view labels;  // between the braces
  double value = missing;
};

namespace detail {

inline double prometheus_number(std::string_view s) {
  double v;
  if (!s.empty() && s.front() == '+') s.remove_prefix(1);
  const auto r = std::from_chars(s.data(), s.data() + s.size(), v);
  return r.ec == std::errc() && r.ptr == s.data() + s.size() ? v : missing;
}

inline bool read_sample(std::string_view line, sample &out) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!line.empty() && blank(line.front())) line.remove_prefix(1);
  const auto starts_a_name = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':'; };
  if (line.empty() || !starts_a_name(line.front())) return false;
  const size_t end = line.find_first_of("{ \t");
  if (end == std::string_view::npos || end == 0) return false;
  out.name = line.substr(0, end);
  line.remove_prefix(end);
  out.labels = {};
  if (line.front() == '{') {
    size_t i = 1;
    for (bool quoted = false; i < line.size() && (quoted || line[i] != '}'); ++i) {
      if (line[i] == '"') quoted = !quoted;
      else if (quoted && line[i] == '\\') ++i;
    }
    if (i >= line.size()) return false;
    out.labels = line.substr(1, i - 1);
    line.remove_prefix(i + 1);
  }
  while (!line.empty() && blank(line.front())) line.remove_prefix(1);
  out.value = prometheus_number(line.substr(0, line.find_first_of(" \t\r")));
  return true;
}

}  // namespace detail

// The value of one label, unescaped only in the sense that escapes are left as they stand; empty when absent.
inline std::string_view label_value(std::string_view labels, std::string_view name) {
  while (!labels.empty()) {
    while (!labels.empty() && (labels.front() == ',' || labels.front() == ' ')) labels.remove_prefix(1);
    const size_t eq = labels.find('=');
    if (eq == std::string_view::npos || eq + 1 >= labels.size() || labels[eq + 1] != '"') return {};
    size_t end = eq + 2;
    while (end < labels.size() && labels[end] != '"') end += labels[end] == '\\' ? 2 : 1;
    if (end >= labels.size()) return {};
    std::string_view key = labels.substr(0, eq);
    while (!key.empty() && key.back() == ' ') key.remove_suffix(1);
    if (key == name) return labels.substr(eq + 2, end - eq - 2);
    labels.remove_prefix(end + 1);
  }
  return {};
}

// Calls f(const sample &) for every sample of the page.
template <class F>
void each_sample(std::string_view page, F &&f) {
  sample s;
  while (!page.empty()) {
    const size_t end = std::min(page.find('\n'), page.size());
    if (detail::read_sample(page.substr(0, end), s)) f(std::as_const(s));
    page.remove_prefix(std::min(end + 1, page.size()));
  }
}

// An alias table made ready once (in the constructor of an adapter), then read from any thread.
class prometheus_reader {
 public:
  explicit prometheus_reader(std::vector<alias> table) : table_(std::move(table)) {
    for (uint32_t t = 0; t < table_.size(); ++t) {
      uint32_t rank = 0;
      for (const std::string_view name : table_[t].names) {
        if (table_[t].how == fold::histogram) {
          add(std::string(name) + "_bucket", t, rank, part::bucket);
          add(std::string(name) + "_sum", t, rank, part::sum);
          add(std::string(name) + "_count", t, rank, part::count);
        } else {
          add(std::string(name), t, rank, part::value);
        }
        ++rank;
      }
    }
  }

  // Reports every signal of the table the page has. False when the page held no sample at all.
  bool read(std::string_view page, const page_sink &sink) const {
    std::vector<state> states(table_.size());
    bool any = false;
    each_sample(page, [&](const sample &s) {
      any = true;
      const auto [from, to] = names_.equal_range(s.name);
      for (auto it = from; it != to; ++it) take(states[it->second.row], it->second, s);
    });
    for (size_t t = 0; t < table_.size(); ++t) report(table_[t], states[t], sink);
    return any;
  }

 private:
  enum class part : uint8_t { value, bucket, sum, count };
  struct target {
    uint32_t row;
    uint32_t rank;
    part what;
  };
  struct state {
    uint32_t rank = UINT32_MAX;  // of the family the numbers below come from
    uint32_t seen = 0;
    double sum = 0, max = -HUGE_VAL, total = 0;
    std::map<double, double> buckets;
    std::map<std::string_view, double> by_label;
  };

  void add(std::string name, uint32_t row, uint32_t rank, part what) { names_.emplace(std::move(name), target{row, rank, what}); }

  void take(state &st, const target &t, const sample &s) const {
    if (t.rank > st.rank || std::isnan(s.value)) return;
    if (t.rank < st.rank) {
      st = state{};
      st.rank = t.rank;
    }
    switch (t.what) {
      case part::value:
        ++st.seen;
        st.sum += s.value;
        st.max = std::max(st.max, s.value);
        if (const auto keep = table_[t.row].keep_label; !keep.empty()) st.by_label[label_value(s.labels, keep)] += s.value;
        break;
      case part::bucket: {
        const double bound = detail::prometheus_number(label_value(s.labels, "le"));
        if (std::isfinite(bound)) st.buckets[bound] += s.value;
        break;
      }
      case part::sum: st.sum += s.value; break;
      case part::count:
        ++st.seen;
        st.total += s.value;
        break;
    }
  }

  static void report(const alias &a, const state &st, const page_sink &sink) {
    if (st.seen == 0) return;
    switch (a.how) {
      case fold::sum: sink.gauge(a.signal, st.sum); break;
      case fold::mean: sink.gauge(a.signal, st.sum / st.seen); break;
      case fold::max: sink.gauge(a.signal, st.max); break;
      case fold::counter:
        if (a.keep_label.empty()) sink.counter(a.signal, st.sum);
        for (const auto &[value, total] : st.by_label) sink.counter(a.signal, total, a.keep_label, value);
        break;
      case fold::histogram: {
        std::vector<double> bounds, counts;
        for (const auto &[bound, count] : st.buckets) {
          bounds.push_back(bound);
          counts.push_back(count);
        }
        sink.histogram(a.signal, bounds, counts, st.sum, st.total);
        break;
      }
    }
  }

  std::vector<alias> table_;
  std::multimap<std::string, target, std::less<>> names_;
};

}  // namespace hive::sdk
