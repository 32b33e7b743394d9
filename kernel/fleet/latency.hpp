// The latency estimator of RFC 6298 with asymmetric smoothing (docs/latency.md): a slow answer
// moves SRTT slowly, a fast one quickly. Milliseconds throughout.
//
//   first sample R:  SRTT = R, RTTVAR = R / 2
//   later:           RTTVAR = 0.75 RTTVAR + 0.25 |SRTT - R|, then SRTT = 0.5 SRTT + 0.5 R if R < SRTT, else 0.875 SRTT + 0.125 R
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

namespace hive::fleet {

struct latency_value {
  double srtt_ms;                 // > 0
  double rttvar_ms;
};

// What the time to a response head depends on most: that of a stream comes with the engine's first header, that of an answer in
// one piece once all of it is there, and embeddings and the like take as long as neither.
enum class request_kind : uint8_t { stream, chat, other };
inline constexpr std::array all_kinds{request_kind::stream, request_kind::chat, request_kind::other};
constexpr size_t index_of(request_kind k) { return static_cast<size_t>(k); }

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

// All that is known of an agent's latency.
struct latency_values {
  std::optional<latency_value> blended;                                   // over all its answers; empty = UNKNOWN
  std::array<std::optional<latency_value>, all_kinds.size()> own;         // over those of one kind

  // What a request of that kind goes by: the blended value until the kind has its first sample.
  const std::optional<latency_value> &of(request_kind k) const { return own[index_of(k)] ? own[index_of(k)] : blended; }
};

// The blended estimator of an agent and one a kind, behind a mutex. The blended value is what is kept over restarts and shown.
// Any thread.
class latency_tracker {
 public:
  std::optional<latency_value> add(double r_ms, request_kind);  // the blended value after it; empty = the sample did not count
  std::optional<latency_value> value() const;                   // the blended one; empty = UNKNOWN
  latency_values values() const;
  void restore(latency_value v);                                // of the blended one
  void reset();

 private:
  mutable std::mutex mutex_;
  latency_estimator blended_;
  std::array<latency_estimator, all_kinds.size()> own_;
};

}  // namespace hive::fleet
