// Writes Prometheus text format 0.0.4 as a stream, for families that are computed at scrape time (prometheus-cpp's
// serializer costs 8 us a series). One writer belongs to one scrape and its thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace hive::observe {

// Takes the text in pieces of at most about 64 KiB; the view is borrowed for the call.
class text_sink {
 public:
  virtual ~text_sink() = default;
  virtual void write(std::string_view) = 0;
};

enum class metric_kind : uint8_t { counter, gauge, histogram };

// "hivenet_router_" + short name; names that start with http_ or process_ stand alone (docs/metrics.md).
std::string full_name(std::string_view short_name);
// A label value from outside: kept if it is UTF-8 of at most 256 bytes, else "__invalid__".
std::string_view clean_label(std::string_view value);
// `a="x",b="y"`, escaped; build it once for a thing that has many series. As many values as names.
std::string label_text(std::span<const std::string_view> names, std::span<const std::string_view> values);
inline std::string label_text(std::initializer_list<std::string_view> names, std::initializer_list<std::string_view> values) {
  return label_text(std::span(names.begin(), names.size()), std::span(values.begin(), values.size()));
}

class exposition {
 public:
  explicit exposition(text_sink &);
  ~exposition();  // flushes
  exposition(const exposition &) = delete;
  exposition &operator=(const exposition &) = delete;

  // Begins a family: HELP and TYPE once, then its series. A name may come once a scrape; false and the series that follow
  // are left out if it came before. A family without series may be begun.
  bool family(metric_kind, std::string_view short_name, std::string_view help);
  // One series of the family; `labels` as label_text makes them, may be empty.
  void series(std::string_view labels, double value);
  void series(std::string_view labels, uint64_t value);
  // Ascending bounds without +Inf, a cumulative count each; `count` is that of +Inf.
  void histogram(std::string_view labels, std::span<const double> bounds, std::span<const uint64_t> cumulative, double sum,
                 uint64_t count);
  // Text of other writers, whole families; `names` are theirs, so that none comes twice.
  void raw(std::string_view text, std::span<const std::string> names);
  void flush();
  uint64_t written() const { return written_; }  // series so far, a histogram as one; those of raw text are not known

 private:
  void begin(std::string_view suffix, std::string_view labels, std::string_view bound);
  void number(double);
  void room();

  text_sink &sink_;
  std::string buffer_;
  std::string name_;
  bool skip_ = true;
  uint64_t written_ = 0;
  std::set<std::string, std::less<>> seen_;
};

}  // namespace hive::observe
