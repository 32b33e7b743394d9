// The component `memory` of kind storage.
#include "hive/sdk/storage.hpp"
#include "hive/sdk/storage_rules.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace {

namespace sdk = hive::sdk;

// Records in an ordered map, gone with the process. Called by the storage thread; the mutex keeps a close from another
// thread harmless and is recursive because a visitor may read.
class memory_store {
 public:
  static constexpr std::string_view id = "memory";
  static constexpr std::string_view version = "0.1.0";
  static constexpr std::string_view summary = "records in this process's memory; nothing survives a restart";
  static constexpr std::string_view schema =
      R"({"type":"object","additionalProperties":false,"properties":{"max_mb":{"type":"integer","minimum":1,"maximum":1048576,"default":256}}})";

  explicit memory_store(const sdk::setup &s)
      : host_(s.host), max_bytes_(static_cast<std::uint64_t>(s.options.integer("max_mb", 256)) << 20) {}

  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
  }

  void close() noexcept {
    std::lock_guard lock(mutex_);
    if (visiting_ > 0) return;
    open_ = false;
    records_.clear();
    used_bytes_ = 0;
  }

  hive_status get(std::string_view key, std::uint64_t deadline_ns, const sdk::visitor &visit) {
    std::lock_guard lock(mutex_);
    if (!open_) return HIVE_E_UNAVAILABLE;
    if (!sdk::key_ok(key)) return HIVE_E_ARGUMENT;
    if (sdk::late(host_, deadline_ns)) return HIVE_E_TIMEOUT;
    const auto at = records_.find(key);
    if (at == records_.end() || sdk::expired(at->second.expires, sdk::unix_ms())) return HIVE_NOT_FOUND;
    ++visiting_;
    visit(at->first, at->second.value, at->second.expires);
    --visiting_;
    return HIVE_OK;
  }

  hive_status scan(std::string_view prefix, std::uint64_t deadline_ns, const sdk::visitor &visit) {
    std::lock_guard lock(mutex_);
    if (!open_) return HIVE_E_UNAVAILABLE;
    const std::uint64_t now = sdk::unix_ms();
    hive_status answer = HIVE_OK;
    int seen = 0;
    ++visiting_;
    for (auto at = records_.lower_bound(prefix); at != records_.end() && at->first.starts_with(prefix); ++at) {
      if (seen++ % deadline_stride == 0 && sdk::late(host_, deadline_ns)) {
        answer = HIVE_E_TIMEOUT;
        break;
      }
      if (!sdk::expired(at->second.expires, now) && !visit(at->first, at->second.value, at->second.expires)) break;
    }
    --visiting_;
    return answer;
  }

  void write(std::span<hive_write *const> ops, std::uint64_t deadline_ns) {
    std::lock_guard lock(mutex_);
    if (!open_) throw sdk::failure(HIVE_E_UNAVAILABLE, "the memory store is not open");
    if (visiting_ > 0) throw sdk::failure(HIVE_E_ARGUMENT, "a visitor may read but not write");
    sdk::check_writes(ops);
    if (sdk::late(host_, deadline_ns)) throw sdk::failure(HIVE_E_TIMEOUT, "the deadline passed before the write began");
    const std::uint64_t now = sdk::unix_ms();
    std::vector<undo> undos;
    std::vector<std::int64_t> sums(ops.size());
    undos.reserve(ops.size());
    try {
      for (std::size_t i = 0; i < ops.size(); ++i) {
        const std::string_view key = sdk::view(ops[i]->key);
        const auto at = records_.find(key);
        undos.push_back({std::string(key), at == records_.end() ? std::nullopt : std::optional(at->second)});
        apply(*ops[i], sums[i], now);
      }
    } catch (...) {
      for (auto u = undos.rbegin(); u != undos.rend(); ++u) restore(*u);
      throw;
    }
    for (std::size_t i = 0; i < ops.size(); ++i)
      if (ops[i]->op == HIVE_WRITE_ADD) ops[i]->result = sums[i];
  }

  void sweep(std::uint64_t deadline_ns) {
    std::lock_guard lock(mutex_);
    if (!open_) throw sdk::failure(HIVE_E_UNAVAILABLE, "the memory store is not open");
    if (visiting_ > 0) throw sdk::failure(HIVE_E_ARGUMENT, "a visitor may read but not sweep");
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
  }

  void stats(hive_storage_stats &out) {
    std::lock_guard lock(mutex_);
    if (!open_) throw sdk::failure(HIVE_E_UNAVAILABLE, "the memory store is not open");
    out.entries = records_.size();
    out.used_bytes = used_bytes_;
    out.capacity_bytes = max_bytes_;
    out.expired_total = expired_total_;
    out.last_sweep_unix_ms = last_sweep_;
  }

 private:
  static constexpr int sweep_batch = 1000;
  static constexpr int deadline_stride = 64;  // records between two looks at the clock

  struct record {
    std::string value;
    std::uint64_t expires = 0;
  };
  using map = std::map<std::string, record, std::less<>>;
  struct undo {
    std::string key;
    std::optional<record> before;
  };

  // A map node and two strings cost about 96 bytes beside their text.
  static std::uint64_t cost(std::string_view key, const record &r) { return key.size() + r.value.size() + 96; }

  void set(std::string_view key, std::string value, std::uint64_t expires) {
    auto at = records_.lower_bound(key);
    if (at != records_.end() && at->first == key) {
      used_bytes_ -= cost(key, at->second);
      at->second = {std::move(value), expires};
    } else {
      at = records_.emplace_hint(at, std::string(key), record{std::move(value), expires});
    }
    used_bytes_ += cost(key, at->second);
  }

  void erase(map::iterator at) {
    used_bytes_ -= cost(at->first, at->second);
    records_.erase(at);
  }

  void restore(undo &u) {
    if (u.before) set(u.key, std::move(u.before->value), u.before->expires);
    else if (const auto made = records_.find(u.key); made != records_.end()) erase(made);
  }

  void apply(const hive_write &op, std::int64_t &sum, std::uint64_t now) {
    const std::string_view key = sdk::view(op.key);
    const auto at = records_.find(key);
    if (op.op == HIVE_WRITE_ERASE) {
      if (at != records_.end()) erase(at);
      return;
    }
    if (op.op == HIVE_WRITE_ADD) {
      const bool live = at != records_.end() && !sdk::expired(at->second.expires, now);
      sum = sdk::add_int64(live ? std::optional<std::string_view>(at->second.value) : std::nullopt, op.delta);
      set(key, sdk::encode_int64(sum), live ? at->second.expires : op.expires_unix_ms);
    } else {
      set(key, std::string(sdk::view(op.value)), op.expires_unix_ms);
    }
    if (used_bytes_ > max_bytes_)
      throw sdk::failure(HIVE_E_EXHAUSTED, "the memory store is full: max_mb is " + std::to_string(max_bytes_ >> 20) +
                                               "; raise it or let records expire");
  }

  sdk::host host_;
  const std::uint64_t max_bytes_;
  std::recursive_mutex mutex_;  // everything below
  bool open_ = false;
  int visiting_ = 0;
  map records_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t expired_total_ = 0;
  std::uint64_t last_sweep_ = 0;
  std::string sweep_from_;
};

}  // namespace

HIVE_PLUGIN("storage_memory", "0.1.0", "Hivenet Router", "Apache-2.0", hive::sdk::storage<memory_store>)
