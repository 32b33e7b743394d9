#include "fleet/latency.hpp"

#include <cmath>

namespace hive::fleet {

bool latency_estimator::add(double r_ms) {
  if (!(r_ms > 0) || !std::isfinite(r_ms)) return false;
  if (!value_) {
    value_ = latency_value{r_ms, r_ms / 2};
    return true;
  }
  latency_value &v = *value_;
  v.rttvar_ms = 0.75 * v.rttvar_ms + 0.25 * std::fabs(v.srtt_ms - r_ms);
  v.srtt_ms = r_ms < v.srtt_ms ? 0.5 * v.srtt_ms + 0.5 * r_ms : 0.875 * v.srtt_ms + 0.125 * r_ms;
  return true;
}

void latency_estimator::restore(latency_value v) {
  if (!(v.srtt_ms > 0) || !std::isfinite(v.srtt_ms)) return;
  if (!(v.rttvar_ms >= 0) || !std::isfinite(v.rttvar_ms)) v.rttvar_ms = v.srtt_ms / 2;
  value_ = v;
}

std::optional<latency_value> latency_tracker::add(double r_ms, request_kind kind) {
  std::lock_guard lock(mutex_);
  if (!blended_.add(r_ms)) return std::nullopt;
  own_[index_of(kind)].add(r_ms);
  return blended_.value();
}

std::optional<latency_value> latency_tracker::value() const {
  std::lock_guard lock(mutex_);
  return blended_.value();
}

latency_values latency_tracker::values() const {
  std::lock_guard lock(mutex_);
  latency_values all{blended_.value(), {}};
  for (const request_kind k : all_kinds) all.own[index_of(k)] = own_[index_of(k)].value();
  return all;
}

void latency_tracker::restore(latency_value v) {
  std::lock_guard lock(mutex_);
  blended_.restore(v);
}

void latency_tracker::reset() {
  std::lock_guard lock(mutex_);
  blended_.reset();
  for (latency_estimator &each : own_) each.reset();
}

}  // namespace hive::fleet
