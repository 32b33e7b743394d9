#include "tenancy/day_budgets.hpp"

#include <algorithm>

namespace hive::tenancy {

namespace {

uint64_t sum(uint64_t a, uint64_t b) {
  uint64_t out = 0;
  return __builtin_add_overflow(a, b, &out) ? UINT64_MAX : out;
}

uint64_t left_of(uint64_t limit, uint64_t used) { return limit > used ? limit - used : 0; }

}  // namespace

// A clock that is put back over midnight by a moment must not empty a counter of the day that had just begun.
bool day_budgets::is_today(const counter &c, uint64_t today) const { return c.day == today || c.day == today + 1; }

day_budgets::counter &day_budgets::at(std::string_view budget) {
  const uint64_t today = days_.today();
  auto found = counters_.find(budget);
  if (found == counters_.end()) found = counters_.emplace(std::string(budget), counter{today, 0, false}).first;
  counter &c = found->second;
  if (!is_today(c, today)) c = {today, 0, false};
  return c;
}

bool day_budgets::take(std::string_view budget, uint64_t limit, uint64_t prompt, uint64_t declared, day_charge &out) {
  const std::lock_guard guard(mutex_);
  counter &c = at(budget);
  const uint64_t left = left_of(limit, c.used);
  if (left == 0 || sum(prompt, declared) > left) return false;
  c.used += prompt;
  c.changed = true;
  out = {c.day, prompt};
  return true;
}

void day_budgets::give_back(std::string_view budget, const day_charge &charge) {
  const std::lock_guard guard(mutex_);
  counter &c = at(budget);
  if (c.day != charge.day) return;
  c.used -= std::min(c.used, charge.tokens);
  c.changed = true;
}

bool day_budgets::settle(std::string_view budget, uint64_t limit, const day_charge &charge, std::optional<uint64_t> prompt, uint64_t output) {
  const std::lock_guard guard(mutex_);
  counter &c = at(budget);
  // A limit that has been lowered below what is used gives nothing back.
  const uint64_t most = std::max(limit, c.used);
  if (prompt && c.day == charge.day) c.used = std::min(most, sum(c.used - std::min(c.used, charge.tokens), *prompt));
  c.changed = true;
  if (output == 0) return true;
  const bool fits = output <= left_of(limit, c.used);
  c.used = fits ? c.used + output : std::max(limit, c.used);
  return fits;
}

uint64_t day_budgets::used(std::string_view budget) {
  const std::lock_guard guard(mutex_);
  const auto found = counters_.find(budget);
  return found != counters_.end() && is_today(found->second, days_.today()) ? found->second.used : 0;
}

uint64_t day_budgets::remaining(std::string_view budget, uint64_t limit) { return left_of(limit, used(budget)); }

uint64_t day_budgets::seconds_left() {
  const std::lock_guard guard(mutex_);
  return (days_.left_ms() + 999) / 1000;
}

uint64_t day_budgets::today() {
  const std::lock_guard guard(mutex_);
  return days_.today();
}

std::vector<day_record> day_budgets::rows() {
  const std::lock_guard guard(mutex_);
  const uint64_t today = days_.today();
  std::vector<day_record> out;
  out.reserve(counters_.size());
  for (const auto &[name, c] : counters_)
    if (is_today(c, today)) out.push_back({name, c.day, c.used});
  return out;
}

size_t day_budgets::sweep() {
  const std::lock_guard guard(mutex_);
  const uint64_t today = days_.today();
  return std::erase_if(counters_, [&](const auto &each) { return !is_today(each.second, today); });
}

size_t day_budgets::size() const {
  const std::lock_guard guard(mutex_);
  return counters_.size();
}

std::vector<day_record> day_budgets::take_changed() {
  const std::lock_guard guard(mutex_);
  std::vector<day_record> out;
  for (auto &[name, c] : counters_) {
    if (!c.changed) continue;
    c.changed = false;
    out.push_back({name, c.day, c.used});
  }
  return out;
}

void day_budgets::changed_again(const std::vector<day_record> &records) {
  const std::lock_guard guard(mutex_);
  for (const day_record &r : records)
    if (const auto found = counters_.find(r.budget); found != counters_.end()) found->second.changed = true;
}

void day_budgets::restore(const std::vector<day_record> &records, bool again) {
  const std::lock_guard guard(mutex_);
  const uint64_t today = days_.today();
  for (const day_record &r : records) {
    if (r.day != today) continue;
    counter &c = at(r.budget);
    if (c.day != r.day) continue;  // it is of tomorrow already
    c.changed = c.changed || c.used != 0;
    c.used = again ? std::max(c.used, r.used) : sum(c.used, r.used);
  }
}

}  // namespace hive::tenancy
