#include "fleet/pool.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "fleet/latency_columns.hpp"

namespace hive::fleet {
namespace {

constexpr double missing = std::numeric_limits<double>::quiet_NaN();
constexpr uint64_t never_expires = never_ns;

// Two NaNs are the same value.
bool same_value(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

double none_if_zero(double v) { return v == 0 ? missing : v; }

hive_str as_str(const std::string &s) { return {s.data(), s.size()}; }

}  // namespace

class pool::impl {
 public:
  struct column {
    bool live = false;               // the kernel's own: always current, no sample times
    std::vector<double> values;
    std::vector<uint64_t> sampled;
    std::vector<uint64_t> expires;
    uint64_t published_ns = 0;       // when some agent gave a value last; 0 = never
  };

  impl(pool &owner, const clock_source *clock)
      : owner_(owner), kernel_(owner.kernel_), clock_(clock != nullptr ? *clock : system_clock()) {
    for (hive_column id : {kernel_.active_requests, kernel_.capacity, kernel_.load, kernel_.success_rate,
                           kernel_.consecutive_failures, kernel_.srtt_ms, kernel_.rttvar_ms, kernel_.active_tokens, kernel_.success_rate_5m}) {
      make(id, false);
    }
    publish();
  }

  uint64_t now() const { return clock_.now(); }
  hive_column resolve(hive_column id) const { return id == kernel_.capacity_utilization ? kernel_.load : id; }
  column *find(hive_column id) {
    id = resolve(id);
    return id < columns_.size() ? columns_[id].get() : nullptr;
  }
  bool is_kernel(hive_column id) {
    const column *c = find(id);
    return c != nullptr && c->live;
  }

  column &signal_column(hive_column id) {
    if (column *c = find(id)) return *c;
    column &c = make(id, true);
    publish();
    return c;
  }

  // Room for one more slot; grows every column in steps so that arrays stay contiguous.
  void reserve(uint32_t slots) {
    if (slots <= room_) return;
    room_ = std::max<uint32_t>(16, room_ * 2);
    for (auto &c : columns_) {
      if (!c) continue;
      c->values.resize(room_, missing);
      if (c->live) continue;
      c->sampled.resize(room_, 0);
      c->expires.resize(room_, never_expires);
    }
    latency_.resize(room_);
    publish();
  }

  void clear(uint32_t index) {
    for (auto &c : columns_) {
      if (!c) continue;
      c->values[index] = missing;
      if (c->live) continue;
      c->sampled[index] = 0;
      c->expires[index] = never_expires;
    }
    latency_.clear(index);
  }

  // Writes a kernel column; a change that waiting gates read asks for a re-check.
  void set(hive_column id, uint32_t index, double value) { set(id, index, columns_[id]->values[index], value); }
  void set(hive_column id, uint32_t index, double &cell, double value) {
    if (same_value(cell, value)) return;
    const bool load_went_up = id == kernel_.load && value > cell;
    cell = value;
    // Every request changes six cells, mostly of columns that no rule reads: that has to cost next to nothing.
    const row_journal &changes = owner_.changes_;
    if (changes.follows(id) || (id == kernel_.load && changes.follows(kernel_.capacity_utilization)) || owner_.readers() != nullptr)
      tell(id, index, load_went_up);
  }
  [[gnu::noinline]] void tell(hive_column id, uint32_t index, bool load_went_up) {
    owner_.changes_.note(index, id);
    if (id == kernel_.load) owner_.changes_.note(index, kernel_.capacity_utilization);  // two names of one array
    note_change(id, load_went_up);
  }

  void note_change(hive_column id, bool load_went_up = false) {
    const pool_watcher *w = owner_.readers();
    if (w == nullptr) return;
    if (w->reads(id, load_went_up) || (id == kernel_.load && w->reads(kernel_.capacity_utilization, load_went_up))) {
      ask_recheck();
    }
  }

  void ask_recheck() {
    const uint64_t t = now();
    if (recheck_sent_ != 0 && t < recheck_sent_ + recheck_gap_ns) {
      recheck_pending_ = true;
      return;
    }
    send_recheck(t);
  }

  void tick(uint64_t t) {
    if (recheck_pending_ && t >= recheck_sent_ + recheck_gap_ns) send_recheck(t);
  }

  void publish_row(uint32_t index) {
    const pool_row &row = owner_.rows_[index];
    const double declared = row.who->declared_capacity.load(std::memory_order_relaxed);
    const double active = static_cast<double>(row.active) + row.who->foreign.load(std::memory_order_relaxed);
    set(kernel_.active_requests, index, active);
    set(kernel_.capacity, index, none_if_zero(declared));
    set(kernel_.load, index, declared > 0 ? active / declared : missing);
    set(kernel_.active_tokens, index, static_cast<double>(row.who->active_tokens.load(std::memory_order_relaxed)));
  }

  void publish_outcome(uint32_t index) {
    const agent &a = *owner_.rows_[index].who;
    const double rate = a.counters.success_rate();
    const uint32_t streak = a.counters.streak.load(std::memory_order_relaxed);
    set(kernel_.success_rate, index, rate);
    publish_recent(index);
    set(kernel_.consecutive_failures, index, std::isnan(rate) && streak == 0 ? missing : streak);
    const latency_values latency = a.latency.values();
    set(kernel_.srtt_ms, index, latency.blended ? latency.blended->srtt_ms : missing);
    set(kernel_.rttvar_ms, index, latency.blended ? latency.blended->rttvar_ms : missing);
    latency_.write(index, latency, kernel_, [&](hive_column id, double &cell, double v) { set(id, index, cell, v); });
  }

  void publish_recent(uint32_t index) {
    set(kernel_.success_rate_5m, index, owner_.rows_[index].who->recent.rate(now()).value_or(missing));
  }

  // A value that is as it was is news only to who counted the one before as missing for its age.
  bool aged_out(hive_column id, uint64_t sampled, uint64_t t) const {
    const pool_watcher *w = owner_.watcher_;
    if (w == nullptr || sampled == 0 || sampled >= t) return false;
    const uint64_t shortest = w->shortest_max_age(id);
    return shortest != never_ns && t - sampled > shortest;
  }

  void describe(uint32_t index) {
    hive_agent &view = agents_[index];
    const pool_row &row = owner_.rows_[index];
    view = hive_agent{};
    view.struct_size = sizeof(hive_agent);
    tags_[index].clear();
    if (!row.who) return;
    const agent_info &info = *row.info;
    for (const std::string &tag : info.tags) tags_[index].push_back(as_str(tag));
    view.tag_count = static_cast<uint32_t>(tags_[index].size());
    view.agent_key = row.who->key();
    view.generation = row.who->generation();
    view.peer_id = as_str(row.who->peer_id());
    view.model = as_str(owner_.model_);
    view.engine = as_str(info.engine);
    view.region = as_str(info.region);
    view.organization = as_str(info.organization);
    view.machine = as_str(info.machine);
    view.gpu_model = as_str(info.gpu_model);
    view.tags = tags_[index].data();
  }

  pool &owner_;
  const kernel_columns &kernel_;
  std::unordered_map<const agent *, uint32_t> index_;
  std::vector<uint32_t> empty_;
  std::vector<hive_agent> agents_;
  std::vector<std::vector<hive_str>> tags_;
  std::vector<std::unique_ptr<column>> columns_;        // by id; null = nobody has published it here
  latency_columns latency_;                             // where a kind's differ
  std::vector<const double *> value_ptrs_;
  std::vector<const uint64_t *> sampled_ptrs_;
  uint64_t peopled_ns_ = 0;                             // since when it has members

 private:
  column &make(hive_column id, bool sampled) {
    if (id >= columns_.size()) columns_.resize(id + 1);
    columns_[id] = std::make_unique<column>();
    column &c = *columns_[id];
    c.values.assign(room_, missing);
    c.live = !sampled;
    if (sampled) {
      c.sampled.assign(room_, 0);
      c.expires.assign(room_, never_expires);
    }
    return c;
  }

  void publish() {
    value_ptrs_.assign(std::max<size_t>(columns_.size(), kernel_.capacity_utilization + 1), nullptr);
    sampled_ptrs_.assign(value_ptrs_.size(), nullptr);
    for (size_t id = 0; id < columns_.size(); ++id) {
      if (!columns_[id]) continue;
      value_ptrs_[id] = columns_[id]->values.data();
      if (!columns_[id]->live) sampled_ptrs_[id] = columns_[id]->sampled.data();
    }
    value_ptrs_[kernel_.capacity_utilization] = value_ptrs_[kernel_.load];
    latency_.publish(value_ptrs_, kernel_);
  }

  void send_recheck(uint64_t t) {
    recheck_sent_ = t;
    recheck_pending_ = false;
    if (owner_.watcher_ != nullptr) owner_.watcher_->on_standing_changed();
  }

  const clock_source &clock_;
  uint32_t room_ = 0;
  uint64_t recheck_sent_ = 0;                            // 0 = never
  bool recheck_pending_ = false;
};

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
  return c != nullptr && index < rows_.size() ? c->values[index] : missing;
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
    const double value = std::isfinite(w.value) ? w.value : missing;
    if (!std::isnan(value)) c.published_ns = now;
    const uint64_t before = std::exchange(c.sampled[*index], w.sampled_ns);
    c.expires[*index] = w.sampled_ns == 0 || stale_after_ns == 0 ? never_expires : w.sampled_ns + stale_after_ns;
    if (same_value(c.values[*index], value)) {
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
      c->values[i] = missing;
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
