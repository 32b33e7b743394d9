// The latency estimator of RFC 6298 with asymmetric smoothing (docs/latency.md; routing sheet section 15): a slow answer
// moves SRTT slowly, a fast one quickly. Milliseconds throughout.
//
//   first sample R:  SRTT = R, RTTVAR = R / 2
//   later:           RTTVAR = 0.75 RTTVAR + 0.25 |SRTT - R|, then SRTT = 0.5 SRTT + 0.5 R if R < SRTT, else 0.875 SRTT + 0.125 R
#pragma once

#include <mutex>
#include <optional>

namespace hive::fleet {

struct latency_value {
  double srtt_ms;
  double rttvar_ms;
};

// Plain arithmetic, no lock.
class latency_estimator {
 public:
  // Samples <= 0 or not finite are ignored. True when the sample counted.
  bool add(double r_ms);
  void restore(latency_value v);  // warm start; ignored unless srtt_ms > 0
  void reset() { value_.reset(); }
  const std::optional<latency_value> &value() const { return value_; }

 private:
  std::optional<latency_value> value_;
};

// An estimator behind a mutex. Any thread.
class latency_tracker {
 public:
  std::optional<latency_value> add(double r_ms);  // the value after the sample; empty = the sample did not count
  std::optional<latency_value> value() const;     // empty = UNKNOWN
  void restore(latency_value v);
  void reset();

 private:
  mutable std::mutex mutex_;
  latency_estimator estimator_;
};

}  // namespace hive::fleet
