// The columns of a pool, and what plugins see of it. Private to pool.cpp; guarded by the pool's lock.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "fleet/latency_columns.hpp"
#include "fleet/pool.hpp"

namespace hive::fleet {

class pool::impl {
 public:
  static constexpr double missing = std::numeric_limits<double>::quiet_NaN();
  static constexpr uint64_t never_expires = never_ns;
  // Two NaNs are the same value.
  static bool same_value(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

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
    set(kernel_.capacity, index, declared == 0 ? missing : declared);
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
  static hive_str as_str(const std::string &s) { return {s.data(), s.size()}; }

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

}  // namespace hive::fleet
