// Turns what an engine's pages hold (running totals since its start) into signals about now: rates of counters, and
// average and 90th percentile of histograms over the last minute. A total that goes back means a restarted engine: the
// window starts again and no delta is ever negative. Control half only; no lock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"

namespace hive::agent {

struct histogram_totals {
  std::vector<double> bounds;       // finite upper bounds, ascending
  std::vector<double> cumulative;   // counts up to each bound
  double sum = 0;
  double total = 0;                 // with the unbounded bucket
};

// Average = sum / total; nothing when total is 0.
std::optional<double> mean_of(const histogram_totals &);
// Linear interpolation inside the bucket that holds rank q * total, from 0 for the first; beyond the last finite bound that
// bound. Nothing when total is 0.
std::optional<double> quantile_of(const histogram_totals &, double q);

class histogram_window {
 public:
  explicit histogram_window(uint64_t length_ns = 60 * ns_per_s) : length_ns_(length_ns) {}
  void add(uint64_t now_ns, histogram_totals totals);
  // What was observed inside the window; the engine's whole life while the window is younger than its length.
  std::optional<histogram_totals> recent() const;
  const histogram_totals &lifetime() const { return snapshots_.back().second; }
  bool empty() const { return snapshots_.empty(); }

 private:
  const uint64_t length_ns_;
  std::deque<std::pair<uint64_t, histogram_totals>> snapshots_;
};

// Per-second rate between two readings of a running total at least half a second apart.
class rate_meter {
 public:
  std::optional<double> add(uint64_t now_ns, double total);

 private:
  uint64_t at_ns_ = 0;
  double total_ = 0;
  bool started_ = false;
};

}  // namespace hive::agent
