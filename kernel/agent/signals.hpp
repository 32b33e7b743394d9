// What an agent knows about its engine and host right now, made of what pages and samplers said: gauges as they are, rates
// of running totals, and of histograms what happened lately beside what happened since the engine started. What has not
// been said again for as long as its source allows is forgotten, never shown as old or as zero. Control loop only; no lock.
#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/engine.hpp"
#include "agent/windows.hpp"

namespace hive::agent {

// A signal as it goes to the router: sampled at a monotonic time, so that its age can be told.
struct sampled_signal {
  std::string name;
  double value;
  uint64_t sampled_ns;
};

// Signals of a histogram X: avg_X, p50_X, p90_X, p99_X over the last minute, lifetime_avg_X and lifetime_p90_X since the
// engine started. Of an unlabelled counter X: X_per_second. Gauges keep their name.
class signal_board {
 public:
  // How long a signal lives is the engine description's to say (stale_after_ms; 10 s if it does not).
  explicit signal_board(const engine_codec &codec) : codec_(codec) {}

  void take(uint64_t now_ns, page_news);
  void put(uint64_t now_ns, const std::string &name, std::optional<double> value) { put(now_ns, name, value, default_life_ns); }

  // Forgets what is too old, then gives the rest.
  std::vector<sampled_signal> fresh(uint64_t now_ns);
  // {"NAME_total": n, "NAME": {"LABEL": n}, "NAME_histogram": {"buckets": [{"le", "count"}], "sum", "count"}}; empty when
  // there is nothing. The +Inf bucket is left out, `count` is it.
  boost::json::object structured(uint64_t now_ns);

 private:
  static constexpr uint64_t default_life_ns = 10 * ns_per_s;
  struct entry {
    double value;
    uint64_t sampled_ns;
    uint64_t life_ns;
    bool old(uint64_t now) const { return now - sampled_ns > life_ns; }
  };
  struct counter : entry {
    rate_meter rate;
  };
  struct labelled_counter {
    std::map<std::string, double> totals;
    uint64_t sampled_ns, life_ns;
    bool old(uint64_t now) const { return now - sampled_ns > life_ns; }
  };
  struct window {
    histogram_window totals;
    uint64_t sampled_ns, life_ns;
    bool old(uint64_t now) const { return now - sampled_ns > life_ns; }
  };
  void put(uint64_t now_ns, const std::string &name, std::optional<double> value, uint64_t life_ns);
  uint64_t life_of(const std::string &name) const { return codec_.stale_after_ms(name) * ns_per_ms; }

  const engine_codec &codec_;
  std::map<std::string, entry> signals_;
  std::map<std::string, counter> counters_;
  std::map<std::string, labelled_counter> labelled_;
  std::map<std::string, window> windows_;
};

}  // namespace hive::agent
