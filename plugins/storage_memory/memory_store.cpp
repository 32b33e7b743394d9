#include "memory_store.hpp"

#include <vector>

namespace hive::storage_memory {

namespace {

constexpr int sweep_batch = 1000;
constexpr int deadline_stride = 64;  // records between two looks at the clock

hive_bytes as_bytes(std::string_view s) { return sdk::bytes(s); }

}  // namespace

hive_status store::open(const hive_error_sink *) {
  std::lock_guard lock(mutex_);
  open_ = true;
  return HIVE_OK;
}

void store::close() {
  std::lock_guard lock(mutex_);
  if (visiting_ > 0) return;
  open_ = false;
  records_.clear();
  used_bytes_ = 0;
}

hive_status store::get(hive_bytes key, std::uint64_t deadline_ns, const hive_visitor &visitor) {
  std::lock_guard lock(mutex_);
  if (!open_) return HIVE_E_UNAVAILABLE;
  if (!sdk::key_ok(key)) return HIVE_E_ARGUMENT;
  if (sdk::late(host_, deadline_ns)) return HIVE_E_TIMEOUT;
  const auto at = records_.find(sdk::view(key));
  if (at == records_.end() || sdk::expired(at->second.expires, sdk::unix_ms())) return HIVE_NOT_FOUND;
  ++visiting_;
  visitor.visit(visitor.ctx, as_bytes(at->first), as_bytes(at->second.value), at->second.expires);
  --visiting_;
  return HIVE_OK;
}

hive_status store::scan(hive_bytes prefix, std::uint64_t deadline_ns, const hive_visitor &visitor) {
  std::lock_guard lock(mutex_);
  if (!open_) return HIVE_E_UNAVAILABLE;
  const std::string_view start = prefix.len ? sdk::view(prefix) : std::string_view();
  const std::uint64_t now = sdk::unix_ms();
  hive_status answer = HIVE_OK;
  int seen = 0;
  ++visiting_;
  for (auto at = records_.lower_bound(start); at != records_.end() && at->first.starts_with(start); ++at) {
    if (seen++ % deadline_stride == 0 && sdk::late(host_, deadline_ns)) {
      answer = HIVE_E_TIMEOUT;
      break;
    }
    if (sdk::expired(at->second.expires, now)) continue;
    if (visitor.visit(visitor.ctx, as_bytes(at->first), as_bytes(at->second.value), at->second.expires) != 0) break;
  }
  --visiting_;
  return answer;
}

void store::set(std::string_view key, std::string_view value, std::uint64_t expires) {
  auto at = records_.lower_bound(key);
  if (at != records_.end() && at->first == key) {
    used_bytes_ -= cost(key, at->second);
    at->second = {std::string(value), expires};
  } else {
    at = records_.emplace_hint(at, std::string(key), record{std::string(value), expires});
  }
  used_bytes_ += cost(key, at->second);
}

void store::erase(map::iterator at) {
  used_bytes_ -= cost(at->first, at->second);
  records_.erase(at);
}

hive_status store::apply(hive_write &op, std::int64_t &sum, std::uint64_t now, const hive_error_sink *err) {
  const std::string_view key = sdk::view(op.key);
  const auto at = records_.find(key);
  if (op.op == HIVE_WRITE_ERASE) {
    if (at != records_.end()) erase(at);
    return HIVE_OK;
  }
  if (op.op == HIVE_WRITE_ADD) {
    const bool live = at != records_.end() && !sdk::expired(at->second.expires, now);
    const std::string_view current = live ? std::string_view(at->second.value) : std::string_view();
    if (const auto s = sdk::add_int64(live ? &current : nullptr, op.delta, sum, err); s != HIVE_OK) return s;
    set(key, sdk::encode_int64(sum), live ? at->second.expires : op.expires_unix_ms);
  } else {
    set(key, op.value.len ? sdk::view(op.value) : std::string_view(), op.expires_unix_ms);
  }
  if (used_bytes_ > max_bytes_)
    return sdk::refuse(err, HIVE_E_EXHAUSTED,
                       "the memory store is full: max_mb " + std::to_string(max_bytes_ >> 20) + "; raise it or let records expire");
  return HIVE_OK;
}

hive_status store::write(hive_write *const *ops, std::size_t count, std::uint64_t deadline_ns, const hive_error_sink *err) {
  std::lock_guard lock(mutex_);
  if (!open_) return sdk::refuse(err, HIVE_E_UNAVAILABLE, "the memory store is not open");
  if (visiting_ > 0) return sdk::refuse(err, HIVE_E_ARGUMENT, "a visitor may read but not write");
  if (const auto s = sdk::check_writes(ops, count, err); s != HIVE_OK) return s;
  if (sdk::late(host_, deadline_ns)) return sdk::refuse(err, HIVE_E_TIMEOUT, "the deadline passed before the write began");
  const std::uint64_t now = sdk::unix_ms();
  std::vector<undo> undos;
  std::vector<std::int64_t> sums(count);
  undos.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = records_.find(sdk::view(ops[i]->key));
    undos.push_back({std::string(sdk::view(ops[i]->key)), at == records_.end() ? std::nullopt : std::optional(at->second)});
    const auto s = apply(*ops[i], sums[i], now, err);
    if (s == HIVE_OK) continue;
    for (auto u = undos.rbegin(); u != undos.rend(); ++u) {
      if (u->before) set(u->key, u->before->value, u->before->expires);
      else if (const auto made = records_.find(u->key); made != records_.end()) erase(made);
    }
    return s;
  }
  for (std::size_t i = 0; i < count; ++i)
    if (ops[i]->op == HIVE_WRITE_ADD) ops[i]->result = sums[i];
  return HIVE_OK;
}

hive_status store::sweep(std::uint64_t deadline_ns) {
  std::lock_guard lock(mutex_);
  if (!open_) return HIVE_E_UNAVAILABLE;
  if (visiting_ > 0) return HIVE_E_ARGUMENT;
  const std::uint64_t now = sdk::unix_ms();
  auto at = records_.lower_bound(sweep_from_);
  for (int i = 0; i < sweep_batch && at != records_.end(); ++i) {
    if (i % deadline_stride == 0 && sdk::late(host_, deadline_ns)) break;
    const auto next = std::next(at);
    if (sdk::expired(at->second.expires, now)) {
      erase(at);
      ++expired_total_;
    }
    at = next;
  }
  sweep_from_ = at == records_.end() ? std::string() : at->first;
  last_sweep_ = now;
  return HIVE_OK;
}

hive_status store::stats(hive_storage_stats *out) {
  std::lock_guard lock(mutex_);
  if (!open_) return HIVE_E_UNAVAILABLE;
  hive_storage_stats mine{};
  mine.entries = records_.size();
  mine.used_bytes = used_bytes_;
  mine.capacity_bytes = max_bytes_;
  mine.expired_total = expired_total_;
  mine.last_sweep_unix_ms = last_sweep_;
  return sdk::give_stats(out, mine);
}

}  // namespace hive::storage_memory
