#include "agent/windows.hpp"

#include <algorithm>
#include <utility>

namespace hive::agent {

std::optional<double> mean_of(const histogram_totals &h) {
  if (!(h.total > 0)) return std::nullopt;
  return h.sum / h.total;
}

std::optional<double> quantile_of(const histogram_totals &h, double q) {
  if (!(h.total > 0) || h.bounds.empty()) return std::nullopt;
  const double rank = q * h.total;
  double previous_bound = 0;
  double previous_count = 0;
  for (size_t i = 0; i < h.bounds.size(); ++i) {
    if (h.cumulative[i] >= rank) {
      const double inside = h.cumulative[i] - previous_count;
      if (!(inside > 0)) return h.bounds[i];
      return previous_bound + (h.bounds[i] - previous_bound) * (rank - previous_count) / inside;
    }
    previous_bound = h.bounds[i];
    previous_count = h.cumulative[i];
  }
  return h.bounds.back();
}

namespace {

bool went_back(const histogram_totals &before, const histogram_totals &after) {
  if (before.bounds != after.bounds || after.total < before.total) return true;
  for (size_t i = 0; i < before.cumulative.size(); ++i)
    if (after.cumulative[i] < before.cumulative[i]) return true;
  return false;
}

histogram_totals minus(const histogram_totals &after, const histogram_totals &before) {
  histogram_totals d = after;
  d.sum = std::max(0.0, after.sum - before.sum);
  d.total = after.total - before.total;
  for (size_t i = 0; i < d.cumulative.size(); ++i) d.cumulative[i] = after.cumulative[i] - before.cumulative[i];
  return d;
}

}  // namespace

void histogram_window::add(uint64_t now, histogram_totals totals) {
  if (!snapshots_.empty() && went_back(snapshots_.back().second, totals)) snapshots_.clear();
  if (snapshots_.empty()) {
    // What the engine did before we came counts as done at this moment, so that a fresh agent is not blind.
    histogram_totals zero = totals;
    zero.sum = zero.total = 0;
    std::fill(zero.cumulative.begin(), zero.cumulative.end(), 0.0);
    snapshots_.emplace_back(now, std::move(zero));
  }
  // One snapshot a second bounds the ring; the newest reading always replaces within that second.
  const bool fresh_second = snapshots_.size() < 2 || now - snapshots_[snapshots_.size() - 2].first >= ns_per_s;
  if (!fresh_second) snapshots_.pop_back();
  snapshots_.emplace_back(now, std::move(totals));
  while (snapshots_.size() > 2 && now - snapshots_[1].first >= length_ns_) snapshots_.pop_front();
  if (snapshots_.size() == 2 && now - snapshots_[0].first > 2 * length_ns_) snapshots_[0] = {now, snapshots_[1].second};
}

std::optional<histogram_totals> histogram_window::recent() const {
  if (snapshots_.size() < 2) return std::nullopt;
  histogram_totals d = minus(snapshots_.back().second, snapshots_.front().second);
  if (!(d.total > 0)) return std::nullopt;
  return d;
}

std::optional<double> rate_meter::add(uint64_t now, double total) {
  if (!started_ || total < total_) {
    started_ = true;
    at_ns_ = now;
    total_ = total;
    return std::nullopt;
  }
  const uint64_t elapsed = now - at_ns_;
  if (elapsed < ns_per_s / 2) return std::nullopt;
  const double rate = (total - total_) * static_cast<double>(ns_per_s) / static_cast<double>(elapsed);
  at_ns_ = now;
  total_ = total;
  return rate;
}

}  // namespace hive::agent
