#include "fleet/pool.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fleet/pool_impl.hpp"

namespace hive::fleet {
pool_section::~pool_section() {
  deferred_calls calls;
  if (pool_watcher *w = pool_.watcher_; w != nullptr && w->settle()) w->take_deferred(calls);
  pool_.mutex_.unlock();
  for (const std::function<void()> &call : calls) call();
}

pool::pool(std::string model, const kernel_columns &kernel, const clock_source *clock)
    : model_(std::move(model)), kernel_(kernel), impl_(std::make_unique<impl>(*this, clock)) {}

pool::~pool() = default;

hive_pool pool::view() const {
  hive_pool v{};
  v.struct_size = sizeof(hive_pool);
  v.count = count();
  v.agents = impl_->agents_.data();
  v.agent_stride = sizeof(hive_agent);
  v.column_count = static_cast<uint32_t>(impl_->value_ptrs_.size());
  v.columns = impl_->value_ptrs_.data();
  v.sampled_ns = impl_->sampled_ptrs_.data();
  v.epoch = epoch_;
  return v;
}

hive_pool pool::view(request_kind kind) const {
  hive_pool v = view();
  v.columns = impl_->latency_.table(kind);
  return v;
}

double pool::value(hive_column id, uint32_t index) const {
  const impl::column *c = impl_->find(id);
  return c != nullptr && index < rows_.size() ? c->values[index] : impl::missing;
}

uint64_t pool::quiet_ns(hive_column id, uint64_t now_ns) const {
  if (members() == 0) return 0;
  const impl::column *c = impl_->find(id);
  if (c != nullptr && c->live) return 0;
  const uint64_t since = std::max(impl_->peopled_ns_, c != nullptr ? c->published_ns : 0);
  return now_ns > since ? now_ns - since : 0;
}

uint32_t pool::members() const { return static_cast<uint32_t>(impl_->index_.size()); }

std::optional<uint32_t> pool::index_of(const agent &a) const {
  const auto found = impl_->index_.find(&a);
  if (found == impl_->index_.end()) return std::nullopt;
  return found->second;
}

void pool::note_state(uint32_t index) {
  const pool_row &row = rows_[index];
  const bool was = states_[index] != slot_unusable;
  states_[index] = !row.usable() ? slot_unusable : row.free() == 0 ? slot_full : slot_free;
  if (row.usable() != was) usable_.store(usable_members() + (was ? -1u : 1u), std::memory_order_relaxed);
}

void pool::note_suspect(uint32_t index, bool on) {
  if (std::exchange(rows_[index].probation, on) == on) return;
  if (on) suspects_.push_back(index);
  else std::erase(suspects_, index);
}

// Reads the agent's words and compares with the row as it was: the change, not the event, decides who hears of it
// (docs/waiting.md, P8).
void pool::update_row(uint32_t index, uint32_t count, uint32_t capacity) {
  pool_row &row = rows_[index];
  // Not a copy of the row: that would count its shared pointers up and down at every take and return.
  const struct {
    bool usable, full;
    uint32_t free, capacity, standing;
  } before = {row.usable(), row.full(), row.free(), row.capacity, row.standing};
  row.active = count;
  row.capacity = capacity;
  row.standing = row.who->standing();
  note_suspect(index, row.who->on_probation());
  free_ += row.free() - before.free;
  note_state(index);
  impl_->publish_row(index);
  if (watcher_ == nullptr) return;
  const bool became_full = row.full() && !before.full &&
                           (row.capacity < before.capacity || (row.standing & ~before.standing & standing_busy) != 0);
  if (row.usable() != before.usable || (row.usable() && became_full) || (!row.usable() && before.full && !row.full())) {
    watcher_->on_standing_changed();
  } else if (row.free() > before.free || (before.standing & ~row.standing & standing_busy) != 0) {
    watcher_->on_more_slots();
  }
}

bool pool::take(uint32_t index, uint64_t tokens) {
  agent &a = *rows_[index].who;
  const uint32_t standing_now = a.standing();
  if (standing_now != 0 || !a.slots.try_take()) {
    a.counters.rejected.fetch_add(1, std::memory_order_relaxed);
    const auto [count, capacity] = a.slots.load();
    update_row(index, count, capacity);
    return false;
  }
  if (tokens != 0) a.active_tokens.fetch_add(tokens, std::memory_order_relaxed);
  // First what others have done since the row was written, if anything, then our own take, which is no news to anybody.
  const auto [count, capacity] = a.slots.load();
  const uint32_t others = count > 0 ? count - 1 : 0;
  pool_row &row = rows_[index];
  if (row.active != others || row.capacity != capacity || row.standing != a.standing() || row.probation != a.on_probation())
    update_row(index, others, capacity);
  const uint32_t free_before = row.free();
  row.active = std::max(count, 1u);
  free_ += row.free() - free_before;
  note_state(index);
  impl_->publish_row(index);
  return true;
}

// Ten thousand agents are counted at every miss of a full pool: a plain array, not their records.
void pool::note_refused(const uint8_t *full) {
  any_refused_ = true;
  for (size_t i = 0; i < refused_.size(); ++i) refused_[i] += full[i];
}

void pool::count_refused(uint32_t index) {
  const uint32_t n = std::exchange(refused_[index], 0);
  if (n != 0 && rows_[index].who) rows_[index].who->counters.rejected.fetch_add(n, std::memory_order_relaxed);
}

void pool::join(const std::shared_ptr<agent> &who, std::shared_ptr<const agent_info> info) {
  pool_section section(*this);
  uint32_t index;
  if (const auto found = impl_->index_.find(who.get()); found != impl_->index_.end()) {
    index = found->second;
    rows_[index].info = std::move(info);
  } else {
    if (!impl_->empty_.empty()) {
      index = impl_->empty_.back();
      impl_->empty_.pop_back();
    } else {
      index = count();
      impl_->reserve(index + 1);
      rows_.emplace_back();
      states_.push_back(slot_unusable);
      refused_.push_back(0);
      impl_->agents_.emplace_back();
      impl_->tags_.emplace_back();
    }
    if (impl_->index_.empty()) impl_->peopled_ns_ = impl_->now();
    impl_->index_.emplace(who.get(), index);
    rows_[index] = pool_row{who, std::move(info), 0, 0, standing_unlinked, false};
  }
  ++epoch_;
  impl_->describe(index);
  const auto [count, capacity] = who->slots.load();
  update_row(index, count, capacity);
  impl_->publish_outcome(index);
  if (watcher_ != nullptr) watcher_->on_standing_changed();
}

void pool::leave(const agent &who) {
  std::shared_ptr<agent> last;                           // let go of after the lock
  std::shared_ptr<const agent_info> info;
  pool_section section(*this);
  const auto found = impl_->index_.find(&who);
  if (found == impl_->index_.end()) return;
  const uint32_t index = found->second;
  impl_->index_.erase(found);
  free_ -= rows_[index].free();
  count_refused(index);
  note_suspect(index, false);
  last = std::move(rows_[index].who);
  info = std::move(rows_[index].info);
  rows_[index] = pool_row{};
  note_state(index);
  impl_->clear(index);
  impl_->describe(index);
  impl_->empty_.push_back(index);
  ++epoch_;
  if (watcher_ != nullptr) watcher_->on_standing_changed();
}

void pool::refresh(const agent &who) {
  pool_section section(*this);
  const std::optional<uint32_t> index = index_of(who);
  if (!index) return;
  const auto [count, capacity] = who.slots.load();
  update_row(*index, count, capacity);
}

void pool::refresh_outcome(const agent &who) {
  pool_section section(*this);
  if (const std::optional<uint32_t> index = index_of(who)) impl_->publish_outcome(*index);
}

void pool::write(const agent &who, std::span<const column_write> values, uint64_t stale_after_ns) {
  pool_section section(*this);
  const std::optional<uint32_t> index = index_of(who);
  if (!index) return;
  const uint64_t now = impl_->now();
  changes_.note(*index);
  for (const column_write &w : values) {
    if (w.id == 0 || w.id > column_table::limit || impl_->is_kernel(w.id)) continue;
    impl::column &c = impl_->signal_column(w.id);
    const double value = std::isfinite(w.value) ? w.value : impl::missing;
    if (!std::isnan(value)) c.published_ns = now;
    const uint64_t before = std::exchange(c.sampled[*index], w.sampled_ns);
    c.expires[*index] = w.sampled_ns == 0 || stale_after_ns == 0 ? impl::never_expires : w.sampled_ns + stale_after_ns;
    if (impl::same_value(c.values[*index], value)) {
      if (impl_->aged_out(w.id, before, now)) impl_->note_change(w.id);
      continue;
    }
    c.values[*index] = value;
    impl_->note_change(w.id);
  }
}

size_t pool::sweep(uint64_t now_ns) {
  size_t expired = 0;
  {
    std::lock_guard lock(mutex_);
    for (uint32_t i = 0; any_refused_ && i < count(); ++i) count_refused(i);
    any_refused_ = false;
  }
  {
    // Who was measured lately; what nobody adds to changes by time alone.
    pool_section section(*this);
    for (uint32_t i = 0; i < count(); ++i)
      if (!std::isnan(value(impl_->kernel_.success_rate_5m, i))) impl_->publish_recent(i);
  }
  // One column a critical section: ten thousand agents must not hold the lock for a whole table.
  for (hive_column id = 1; id <= column_table::limit; ++id) {
    pool_section section(*this);
    if (id >= impl_->columns_.size()) break;
    impl::column *c = impl_->columns_[id].get();
    if (c == nullptr || c->live) continue;
    size_t here = 0;
    for (uint32_t i = 0; i < count(); ++i) {
      if (c->expires[i] > now_ns || std::isnan(c->values[i])) continue;
      c->values[i] = impl::missing;
      changes_.note(i);
      ++here;
    }
    if (here > 0) impl_->note_change(id);
    expired += here;
  }
  return expired;
}

void pool::tick(uint64_t now_ns) {
  pool_section section(*this);
  if (watcher_ != nullptr && watcher_->changed_by_time(now_ns)) impl_->ask_recheck();
  impl_->tick(now_ns);
}

std::vector<column_value> pool::values_of(const agent &who) const {
  std::vector<column_value> out;
  std::lock_guard lock(mutex_);
  const std::optional<uint32_t> index = index_of(who);
  if (!index) return out;
  for (hive_column id = 1; id < impl_->value_ptrs_.size(); ++id) {
    if (impl_->value_ptrs_[id] == nullptr || std::isnan(impl_->value_ptrs_[id][*index])) continue;
    out.push_back({id, impl_->value_ptrs_[id][*index], impl_->sampled_ptrs_[id] ? impl_->sampled_ptrs_[id][*index] : 0});
  }
  return out;
}

}  // namespace hive::fleet
