#include "routing/thresholds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/clock.hpp"
#include "routing/scan.hpp"

namespace hive::routing {

namespace {

const uint64_t *ages_of(const hive_pool &view, hive_column id) {
  return id < view.column_count && view.sampled_ns ? view.sampled_ns[id] : nullptr;
}

}  // namespace

void hysteresis::sync(const fleet::pool &pool) {
  out.resize(pool.count(), 0);
  keys.resize(pool.count(), 0);
  for (uint32_t i = 0; i < pool.count(); ++i) {
    const fleet::agent *who = pool.row(i).who.get();
    const uint64_t key = who ? who->key() : 0;
    if (std::exchange(keys[i], key) != key) out[i] = 0;
  }
}

void threshold_rules::add(bound_rule r) {
  const aged_column aged{r.column, r.bound.max_age_ns};
  if (aged.max_age_ns != 0 && std::find(ages_.begin(), ages_.end(), aged) == ages_.end()) ages_.push_back(aged);
  reads_.set(r.column);
  rules_.push_back(std::move(r));
}

threshold_rules::state threshold_rules::judge(const bound_rule &r, const hive_pool &view, uint64_t now_ns, uint32_t index) {
  state s;
  const double *column = hive_column_at(&view, r.column);
  const uint64_t *sampled = ages_of(view, r.column);
  s.value = column ? column[index] : std::numeric_limits<double>::quiet_NaN();
  if (sampled && sampled[index] != 0 && now_ns > sampled[index]) s.age_ns = now_ns - sampled[index];
  s.missing = std::isnan(s.value) || scan::too_old(r.bound, sampled, now_ns, index);
  s.kept_out = r.memory && index < r.memory->out.size() && r.memory->out[index] != 0;
  s.limit = s.kept_out ? r.bound.leave.value_or(r.bound.limit) : r.bound.limit;
  s.violated = scan::violated(r.bound, column, sampled, now_ns, index, s.kept_out);
  return s;
}

void threshold_rules::judge_row(const hive_pool &view, uint64_t now_ns, uint32_t index) {
  bool pass = true;
  for (const bound_rule &r : rules_) {
    const state s = judge(r, view, now_ns, index);
    pass = pass && !s.violated;
    if (s.missing) continue;
    if (r.memory) r.memory->out[index] = s.violated;
    if (r.bound.max_age_ns == 0) continue;
    const uint64_t sampled = ages_of(view, r.column) ? ages_of(view, r.column)[index] : 0;
    if (sampled != 0) due_ns_ = std::min(due_ns_, sampled + r.bound.max_age_ns + 1);
  }
  passes_[index] = pass;
}

void threshold_rules::judge_all(const hive_pool &view, uint64_t now_ns) {
  due_ns_ = never_ns;
  std::fill(passes_.begin(), passes_.end(), uint8_t{1});
  for (const bound_rule &r : rules_) {
    const double *column = hive_column_at(&view, r.column);
    const uint64_t *sampled = ages_of(view, r.column);
    uint8_t *out = r.memory ? r.memory->out.data() : nullptr;
    due_ns_ = std::min(due_ns_, scan::apply(r.bound, column, sampled, now_ns, passes_.data(), out, view.count));
  }
}

const uint8_t *threshold_rules::passes(const fleet::pool &pool, const hive_pool &view, uint64_t now_ns) {
  if (epoch_ != pool.epoch()) {
    epoch_ = pool.epoch();
    passes_.resize(view.count);
    for (const bound_rule &r : rules_) {
      if (r.memory) r.memory->sync(pool);
      pool.changes().follow(r.column);
    }
    due_ns_ = 0;
  }
  if (now_ns >= due_ns_) {
    pool.changes().since(seen_, [](uint32_t, hive_column) {});
    judge_all(view, now_ns);
    return passes_.data();
  }
  // What other steps follow is in it, too.
  const auto one = [&](uint32_t row, hive_column id) {
    if (id == 0 || reads_.test(id)) judge_row(view, now_ns, row);
  };
  if (!pool.changes().since(seen_, one)) judge_all(view, now_ns);
  return passes_.data();
}

}  // namespace hive::routing
