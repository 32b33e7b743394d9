#include "agent/signals.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

namespace hive::agent {

void signal_board::put(uint64_t now, const std::string &name, std::optional<double> value, uint64_t life_ns) {
  if (value) signals_.insert_or_assign(name, entry{*value, now, life_ns});
}

void signal_board::take(uint64_t now, page_news news) {
  for (const auto &[name, value] : news.gauges) put(now, name, value, life_of(name));
  for (const auto &[name, total] : news.counters) {
    counter &c = counters_[name];
    c.value = total;
    c.sampled_ns = now;
    c.life_ns = life_of(name);
    put(now, name + "_per_second", c.rate.add(now, total), c.life_ns);
  }
  for (auto &[name, totals] : news.labelled) labelled_.insert_or_assign(name, labelled_counter{std::move(totals), now, life_of(name)});
  for (auto &[name, totals] : news.histograms) {
    window &w = windows_[name];
    w.sampled_ns = now;
    w.life_ns = life_of(name);
    w.totals.add(now, std::move(totals));
    if (const auto recent = w.totals.recent()) {
      put(now, "avg_" + name, mean_of(*recent), w.life_ns);
      put(now, "p50_" + name, quantile_of(*recent, 0.5), w.life_ns);
      put(now, "p90_" + name, quantile_of(*recent, 0.9), w.life_ns);
      put(now, "p99_" + name, quantile_of(*recent, 0.99), w.life_ns);
    }
    put(now, "lifetime_avg_" + name, mean_of(w.totals.lifetime()), w.life_ns);
    put(now, "lifetime_p90_" + name, quantile_of(w.totals.lifetime(), 0.9), w.life_ns);
  }
}

std::vector<sampled_signal> signal_board::fresh(uint64_t now) {
  std::erase_if(signals_, [&](const auto &s) { return s.second.old(now); });
  std::vector<sampled_signal> out;
  out.reserve(signals_.size());
  for (const auto &[name, s] : signals_) out.push_back({name, s.value, s.sampled_ns});
  return out;
}

boost::json::object signal_board::structured(uint64_t now) {
  const auto old = [&](const auto &s) { return s.second.old(now); };
  std::erase_if(counters_, old);
  std::erase_if(labelled_, old);
  std::erase_if(windows_, old);
  namespace json = boost::json;
  json::object out;
  for (const auto &[name, c] : counters_) out[name + "_total"] = c.value;
  for (const auto &[name, l] : labelled_) {
    json::object by_label;
    for (const auto &[label, total] : l.totals) by_label[label] = total;
    out[name] = std::move(by_label);
  }
  for (const auto &[name, w] : windows_) {
    const histogram_totals &h = w.totals.lifetime();
    if (!(h.total > 0)) continue;
    json::array buckets;
    for (size_t i = 0; i < h.bounds.size(); ++i) buckets.push_back(json::object{{"le", h.bounds[i]}, {"count", h.cumulative[i]}});
    out[name + "_histogram"] = json::object{{"buckets", std::move(buckets)}, {"sum", h.sum}, {"count", h.total}};
  }
  return out;
}

}  // namespace hive::agent
