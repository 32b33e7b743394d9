#include "routing/lane.hpp"

#include <algorithm>
#include <mutex>

#include "routing/instance.hpp"

namespace hive::routing {

void lane::buffers::fit(uint32_t count) {
  if (keep.size() >= count) return;
  keep.resize(count);
  candidates.resize(count + 8);
  verdicts.resize(count);
  marks.resize(count);
  scores.resize(count);
}

std::shared_ptr<hysteresis> lane::memory_of(std::string_view document, std::string_view step, uint32_t nth, std::string_view field,
                                            std::string_view rule) {
  std::erase_if(memories_, [](const auto &m) { return m.second.expired(); });
  std::string key;
  const std::string number = std::to_string(nth);
  for (const std::string_view part : {document, step, std::string_view(number), field, rule}) key.append(part).push_back('\0');
  std::weak_ptr<hysteresis> &kept = memories_[key];
  std::shared_ptr<hysteresis> found = kept.lock();
  if (!found) kept = found = std::make_shared<hysteresis>();
  return found;
}

void lane::observe(const std::vector<instance *> &instances) {
  on_choice_.clear();
  on_outcome_.clear();
  for (instance *one : instances) {
    if (one->wants_choice()) on_choice_.push_back(one);
    if (one->wants_outcome()) on_outcome_.push_back(one);
  }
  wants_outcome_.store(!on_outcome_.empty(), std::memory_order_release);
}

void lane::tell_choice(const hive_request &request, const hive_pool &view, uint32_t index) {
  for (instance *one : on_choice_) one->on_choice(request, view, index);
}

void lane::tell_outcome(hive_outcome &outcome, const fleet::agent &who) {
  outcome.index = pool->index_of(who).value_or(UINT32_MAX);
  for (instance *one : on_outcome_) one->on_outcome(outcome);
}

void lane::outcome(hive_outcome &outcome, const fleet::agent &who) {
  if (!wants_outcome_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(pool->mutex());
  tell_outcome(outcome, who);
}

bool lane::start_retry(double share, uint32_t floor) {
  const auto allowed =
      std::max(floor, static_cast<uint32_t>(share * static_cast<double>(live.load(std::memory_order_relaxed))));
  uint32_t now = retrying.load(std::memory_order_relaxed);
  do {
    if (now >= allowed) {
      retries_refused.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
  } while (!retrying.compare_exchange_weak(now, now + 1, std::memory_order_relaxed));
  return true;
}

}  // namespace hive::routing
