#include "fleet/agent.hpp"

#include <algorithm>
#include <cassert>
#include <limits>

#include "base/clock.hpp"
#include "base/digest.hpp"

namespace hive::fleet {

uint64_t key_of(std::string_view peer_id) {
  const digest32 digest = sha256(peer_id);
  uint64_t key = 0;
  for (int i = 0; i < 8; ++i) key = key << 8 | digest[static_cast<size_t>(i)];
  return key == 0 ? 1 : key;
}

bool slot_word::try_take() {
  uint64_t seen = word_.load(std::memory_order_acquire);
  do {
    if (static_cast<uint32_t>(seen) >= static_cast<uint32_t>(seen >> 32)) return false;
  } while (!word_.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel, std::memory_order_acquire));
  return true;
}

void slot_word::give_back() {
  [[maybe_unused]] const uint64_t before = word_.fetch_sub(1, std::memory_order_acq_rel);
  assert(static_cast<uint32_t>(before) > 0);
}

void slot_word::set_capacity(uint32_t capacity) {
  uint64_t seen = word_.load(std::memory_order_acquire);
  while (!word_.compare_exchange_weak(seen, static_cast<uint64_t>(capacity) << 32 | static_cast<uint32_t>(seen),
                                      std::memory_order_acq_rel, std::memory_order_acquire)) {
  }
}

std::pair<uint32_t, uint32_t> slot_word::load() const {
  const uint64_t word = word_.load(std::memory_order_acquire);
  return {static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32)};
}

std::string describe_standing(uint32_t bits) {
  static constexpr std::pair<uint32_t, const char *> names[] = {
      {standing_unlinked, "unlinked"}, {standing_silent, "silent"}, {standing_engine_down, "engine down"},
      {standing_draining, "draining"}, {standing_busy, "busy"},     {standing_removed, "removed"},
      {standing_expired, "session expired"}, {standing_operator_drain, "drained by the operator"}};
  std::string text;
  for (const auto &[bit, name] : names) {
    if ((bits & bit) == 0) continue;
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text.empty() ? "routable" : text;
}

double agent_counters::success_rate() const {
  const double ok = static_cast<double>(successful.load(std::memory_order_relaxed));
  const double bad = static_cast<double>(failed.load(std::memory_order_relaxed));
  return ok + bad > 0 ? ok / (ok + bad) : std::numeric_limits<double>::quiet_NaN();
}

agent::agent(std::shared_ptr<const agent_info> info, uint64_t generation)
    : slots(info->capacity),
      declared_capacity(info->capacity),
      peer_id_(info->peer_id),
      key_(info->agent_key != 0 ? info->agent_key : key_of(info->peer_id)),
      generation_(generation),
      info_(std::move(info)),
      pools_(std::make_shared<const pool_list>()) {}

std::shared_ptr<const agent_info> agent::info() const {
  std::lock_guard lock(mutex_);
  return info_;
}

std::shared_ptr<const pool_list> agent::pools() const {
  std::lock_guard lock(mutex_);
  return pools_;
}

std::shared_ptr<const std::string> agent::structured() const {
  std::lock_guard lock(mutex_);
  return structured_;
}

void agent::set_info(std::shared_ptr<const agent_info> info) {
  std::lock_guard lock(mutex_);
  info_ = std::move(info);
}

void agent::set_pools(std::shared_ptr<const pool_list> pools) {
  std::lock_guard lock(mutex_);
  pools_ = std::move(pools);
}

void agent::set_structured(std::shared_ptr<const std::string> json) {
  std::lock_guard lock(mutex_);
  structured_ = std::move(json);
}

std::string agent::engine_reason() const {
  std::lock_guard lock(mutex_);
  return engine_reason_;
}

void agent::set_engine_reason(std::string_view reason) {
  std::lock_guard lock(mutex_);
  engine_reason_.assign(reason);
}

void agent::set_declared(uint32_t capacity) {
  std::lock_guard lock(mutex_);
  declared_capacity.store(capacity, std::memory_order_relaxed);
  fit_capacity();
}

bool agent::judge_streak(uint32_t limit) {
  const auto suspicious = [&] { return limit != 0 && counters.streak.load(std::memory_order_relaxed) >= limit; };
  bool changed = false;
  // The streak moves without the lock: whoever decided by an older one decides again.
  while (on_probation() != suspicious()) {
    std::lock_guard lock(mutex_);
    const bool suspect = suspicious();
    if (probation_.exchange(suspect, std::memory_order_relaxed) == suspect) continue;
    fit_capacity();
    changed = true;
  }
  return changed;
}

bool agent::set_foreign(uint32_t slots_of_others) {
  std::lock_guard lock(mutex_);
  if (foreign.exchange(slots_of_others, std::memory_order_relaxed) == slots_of_others) return false;
  fit_capacity();
  return true;
}

void agent::start_slowly(uint64_t now_ns, uint64_t length_ns) {
  std::lock_guard lock(mutex_);
  started_ns_ = now_ns;
  start_ms_ = length_ns / ns_per_ms;
  start_age_ms_ = 0;
  starting_.store(start_ms_ != 0, std::memory_order_relaxed);
  fit_capacity();
}

bool agent::grow(uint64_t now_ns) {
  std::lock_guard lock(mutex_);
  const uint32_t before = slots.load().second;
  start_age_ms_ = now_ns > started_ns_ ? (now_ns - started_ns_) / ns_per_ms : 0;
  if (start_age_ms_ >= start_ms_) starting_.store(false, std::memory_order_relaxed);
  fit_capacity();
  return slots.load().second != before;
}

void agent::fit_capacity() {
  const uint32_t declared = declared_capacity.load(std::memory_order_relaxed);
  const uint32_t others = foreign.load(std::memory_order_relaxed);
  uint64_t own = declared > others ? declared - others : 0;
  if (starting()) own = std::min(own, std::max<uint64_t>(1, (declared * start_age_ms_ + start_ms_ - 1) / start_ms_));
  if (on_probation()) own = std::min<uint64_t>(own, 1);
  slots.set_capacity(static_cast<uint32_t>(own));
}

}  // namespace hive::fleet
