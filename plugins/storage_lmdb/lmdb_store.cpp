#include "lmdb_store.hpp"

#include "hive/sdk/storage_rules.hpp"

#include <algorithm>
#include <cerrno>

#include <unistd.h>

namespace hive::storage_lmdb {

namespace {

using sdk::failure;

constexpr std::uint64_t mib = 1u << 20;
constexpr int deadline_stride = 64;  // records between two looks at the clock
constexpr int sweep_looks = 1000;
constexpr std::string_view format = "hivenet-router storage 1";

MDB_val val(std::string_view s) { return {s.size(), const_cast<char *>(s.data())}; }
std::string_view view(const MDB_val &v) { return {static_cast<const char *>(v.mv_data), v.mv_size}; }

class visit_mark {
 public:
  explicit visit_mark(int &count) : count_(count) { ++count_; }
  ~visit_mark() { --count_; }
  visit_mark(const visit_mark &) = delete;
  visit_mark &operator=(const visit_mark &) = delete;

 private:
  int &count_;
};

}  // namespace

// One LMDB transaction, aborted unless committed.
class lmdb_store::transaction {
 public:
  transaction(MDB_env *env, unsigned flags) : rc_(mdb_txn_begin(env, nullptr, flags, &txn_)) {}
  ~transaction() {
    if (txn_) mdb_txn_abort(txn_);
  }
  transaction(const transaction &) = delete;
  transaction &operator=(const transaction &) = delete;
  int rc() const { return rc_; }
  MDB_txn *get() const { return txn_; }
  int commit() { return mdb_txn_commit(std::exchange(txn_, nullptr)); }

 private:
  MDB_txn *txn_ = nullptr;
  int rc_;
};

lmdb_store::lmdb_store(const sdk::setup &s)
    : host_(s.host),
      path_(s.options.text("path")),
      data_file_(path_ + "/data.mdb"),
      first_map_(static_cast<std::uint64_t>(s.options.integer("map_size_mb", 64)) * mib),
      max_map_(static_cast<std::uint64_t>(s.options.integer("max_map_size_mb", 4096)) * mib),
      sync_(s.options.boolean("sync", true)),
      reset_(s.options.boolean("reset", false)),
      growths_(host_.counter("map_growths_total", "Times the map was made larger")),
      full_(host_.counter("map_full_total", "Writes refused because the map had reached max_map_size_mb")) {
  check(s.options);
}

void lmdb_store::check(const sdk::options &o) {
  const auto first = o.integer("map_size_mb", 64);
  const auto most = o.integer("max_map_size_mb", 4096);
  if (o.text("path").empty()) throw failure(HIVE_E_CONFIG, "path: the directory of the store is needed");
  if (first < 1 || first > most)
    throw failure(HIVE_E_CONFIG, "map_size_mb: " + std::to_string(first) + " is not between 1 and max_map_size_mb, " + std::to_string(most));
}

void lmdb_store::fail(int rc, std::string_view doing) const {
  const std::string where = std::string(doing) + " '" + path_ + "': ";
  const std::string words = rc > 0 ? errno_text(rc) : mdb_strerror(rc);
  switch (rc) {
    case ENOSPC:
      throw failure(HIVE_E_EXHAUSTED, where + "the disk is full; nothing was written, free some space");
    case EIO:  // LMDB's word for a write that was cut short, too: there was room for a part of it
      throw failure(HIVE_E_UNAVAILABLE, where + "the disk is full, or it fails (" + words + ")");
    case MDB_TXN_FULL:
      throw failure(HIVE_E_EXHAUSTED, where + "too much for one write; split it");
    case ENOMEM:
    case MDB_READERS_FULL:
      throw failure(HIVE_E_EXHAUSTED, where + words);
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_INCOMPATIBLE:
      throw failure(HIVE_E_CORRUPT, where + words + "; restore it from a backup, or move it away to start empty");
    default:
      throw failure(HIVE_E_UNAVAILABLE, where + words);
  }
}

void lmdb_store::usable() const {
  if (!env_) throw failure(HIVE_E_UNAVAILABLE, "the store in '" + path_ + "' is not open");
  if (::getpid() != owner_)
    throw failure(HIVE_E_UNAVAILABLE, "the store in '" + path_ + "' was opened by process " + std::to_string(owner_) +
                                          " before a fork; the child must open its own");
}

void lmdb_store::open() {
  std::lock_guard lock(mutex_);
  if (env_) return;
  make_directory(path_);
  if (const char *network = network_file_system_of(path_))
    host_.warn("the store in '" + path_ + "' lies on a network file system (" + network +
               "): its locks and its memory map are not reliable there; use a local disk");
  auto held = std::make_unique<directory_lock>(path_);
  if (reset_) erase_data(path_);
  reset_ = false;
  const std::uint64_t used = check_data_file(data_file_);
  if (used > max_map_)
    host_.warn("the store in '" + path_ + "' already holds " + std::to_string(used / mib) + " MiB, more than max_map_size_mb " +
               std::to_string(max_map_ / mib) + ": it cannot grow");
  map_ = std::max(first_map_, (used + mib - 1) / mib * mib);
  if (used > map_ / 4 * 3) map_ = std::max(map_, std::min(map_ * 2, max_map_));

  MDB_env *env = nullptr;
  int rc = mdb_env_create(&env);
  if (rc != MDB_SUCCESS) fail(rc, "cannot prepare the store in");
  env_ = env;
  owner_ = ::getpid();
  try {
    if ((rc = mdb_env_set_mapsize(env, map_)) == MDB_SUCCESS && (rc = mdb_env_set_maxdbs(env, 2)) == MDB_SUCCESS)
      rc = mdb_env_open(env, path_.c_str(), MDB_NOTLS | (sync_ ? 0u : static_cast<unsigned>(MDB_NOMETASYNC)), 0640);
    if (rc != MDB_SUCCESS) fail(rc, "cannot open the store in");
    extend_file(data_file_, map_);
    int dead = 0;
    mdb_reader_check(env, &dead);
    enter_format();
  } catch (...) {
    mdb_env_close(env);
    env_ = nullptr;
    throw;
  }
  lock_ = std::move(held);
}

// A file of LMDB that another program wrote must not be mixed with ours: the format is named in the file itself.
void lmdb_store::enter_format() {
  transaction txn(env_, 0);
  if (txn.rc() != MDB_SUCCESS) fail(txn.rc(), "cannot read the store in");
  MDB_dbi main = 0, meta = 0;
  MDB_stat stat{};
  int rc = mdb_dbi_open(txn.get(), nullptr, 0, &main);
  if (rc == MDB_SUCCESS) rc = mdb_stat(txn.get(), main, &stat);
  if (rc != MDB_SUCCESS) fail(rc, "cannot read the store in");
  rc = mdb_dbi_open(txn.get(), "meta", stat.ms_entries == 0 ? MDB_CREATE : 0, &meta);
  MDB_val key = val("format"), mark{};
  if (rc == MDB_SUCCESS && stat.ms_entries == 0) {
    MDB_val ours = val(format);
    rc = mdb_put(txn.get(), meta, &key, &ours, 0);
  }
  if (rc == MDB_SUCCESS) rc = mdb_get(txn.get(), meta, &key, &mark);
  if (rc == MDB_NOTFOUND || rc == MDB_INCOMPATIBLE || (rc == MDB_SUCCESS && view(mark) != format))
    throw failure(HIVE_E_CORRUPT, "'" + data_file_ + "' was written by another program or version: it lacks our format mark '" +
                                      std::string(format) + "'; give the store a directory of its own");
  if (rc == MDB_SUCCESS) rc = mdb_dbi_open(txn.get(), "records", MDB_CREATE, &records_);
  if (rc == MDB_SUCCESS) rc = txn.commit();
  if (rc != MDB_SUCCESS) fail(rc, "cannot set up the store in");
}

void lmdb_store::close() noexcept {
  std::lock_guard lock(mutex_);
  if (!env_ || visiting_ > 0) return;
  // In a child of fork the environment belongs to the parent: closing it would release the parent's reader slots.
  if (::getpid() == owner_) mdb_env_close(env_);
  env_ = nullptr;
  lock_.reset();
}

bool lmdb_store::grow() {
  const std::uint64_t next = std::min(map_ * 2, max_map_);
  if (next <= map_) return false;
  extend_file(data_file_, next);
  if (const int rc = mdb_env_set_mapsize(env_, next); rc != MDB_SUCCESS) fail(rc, "cannot grow the map of");
  map_ = next;
  growths_.add();
  return true;
}

hive_status lmdb_store::get(std::string_view key, std::uint64_t deadline_ns, const sdk::visitor &visit) {
  std::lock_guard lock(mutex_);
  usable();
  if (!sdk::key_ok(key)) return HIVE_E_ARGUMENT;
  if (sdk::late(host_, deadline_ns)) return HIVE_E_TIMEOUT;
  transaction txn(env_, MDB_RDONLY);
  if (txn.rc() != MDB_SUCCESS) fail(txn.rc(), "cannot read from");
  const std::string stored = stored_key(key);
  MDB_val k = val(stored), v{};
  if (const int rc = mdb_get(txn.get(), records_, &k, &v); rc != MDB_SUCCESS) {
    if (rc == MDB_NOTFOUND) return HIVE_NOT_FOUND;
    fail(rc, "cannot read from");
  }
  const auto r = read_record(stored, view(v));
  if (!r) return HIVE_E_CORRUPT;
  if (r->key != key || sdk::expired(r->expires_unix_ms, sdk::unix_ms())) return HIVE_NOT_FOUND;
  const visit_mark mark(visiting_);
  visit(key, r->value, r->expires_unix_ms);
  return HIVE_OK;
}

// Shows the records of one group (all that share the head of a long key) in the order of their full keys. False when the
// visitor has seen enough.
bool lmdb_store::visit_group(std::vector<found> &group, std::string_view prefix, std::uint64_t now, const sdk::visitor &visit) {
  if (group.size() > 1)
    std::sort(group.begin(), group.end(), [](const found &a, const found &b) { return a.what.key < b.what.key; });
  for (const found &f : group) {
    if (!f.what.key.starts_with(prefix) || sdk::expired(f.what.expires_unix_ms, now)) continue;
    if (!visit(f.what.key, f.what.value, f.what.expires_unix_ms)) return false;
  }
  group.clear();
  return true;
}

hive_status lmdb_store::scan(std::string_view prefix, std::uint64_t deadline_ns, const sdk::visitor &visit) {
  std::lock_guard lock(mutex_);
  usable();
  transaction txn(env_, MDB_RDONLY);
  MDB_cursor *raw = nullptr;
  int rc = txn.rc();
  if (rc == MDB_SUCCESS) rc = mdb_cursor_open(txn.get(), records_, &raw);
  if (rc != MDB_SUCCESS) fail(rc, "cannot read from");
  const std::unique_ptr<MDB_cursor, decltype(&mdb_cursor_close)> cursor(raw, mdb_cursor_close);
  const visit_mark mark(visiting_);
  const std::uint64_t now = sdk::unix_ms();
  const std::string_view start = prefix.substr(0, long_key_head);
  std::vector<found> group;
  bool more = true;
  int seen = 0;
  MDB_val k = val(start), v{};
  for (rc = mdb_cursor_get(raw, &k, &v, start.empty() ? MDB_FIRST : MDB_SET_RANGE); rc == MDB_SUCCESS && more;
       rc = mdb_cursor_get(raw, &k, &v, MDB_NEXT)) {
    if (seen++ % deadline_stride == 0 && sdk::late(host_, deadline_ns)) return HIVE_E_TIMEOUT;
    const std::string_view stored = view(k);
    if (!stored.starts_with(start)) break;
    const auto r = read_record(stored, view(v));
    if (!r) return HIVE_E_CORRUPT;
    const auto head = stored.substr(0, long_key_head);
    if (!group.empty() && (stored.size() < long_key_head || group.front().stored.substr(0, long_key_head) != head))
      if (!(more = visit_group(group, prefix, now, visit))) break;
    group.push_back({*r, stored});
    if (stored.size() < long_key_head) more = visit_group(group, prefix, now, visit);
  }
  if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND) fail(rc, "cannot read from");
  if (more) visit_group(group, prefix, now, visit);
  return HIVE_OK;
}

int lmdb_store::put(MDB_txn *txn, std::string_view key, std::string_view value, std::uint64_t expires) {
  const std::string stored = stored_key(key);
  const std::string head = record_head(key, expires);
  MDB_val k = val(stored), v{head.size() + value.size(), nullptr};
  if (key.size() > longest_plain_key || stored.size() == longest_plain_key) {
    MDB_val old{};
    if (mdb_get(txn, records_, &k, &old) == MDB_SUCCESS)
      if (const auto r = read_record(stored, view(old)); r && r->key != key)
        throw failure(HIVE_E_UNSUPPORTED, "the hashes of two long keys collide; choose another key");
  }
  const int rc = mdb_put(txn, records_, &k, &v, MDB_RESERVE);
  if (rc != MDB_SUCCESS) return rc;
  auto *out = static_cast<char *>(v.mv_data);
  std::copy(head.begin(), head.end(), out);
  std::copy(value.begin(), value.end(), out + head.size());
  return MDB_SUCCESS;
}

int lmdb_store::apply(MDB_txn *txn, const hive_write &op, std::int64_t &sum, std::uint64_t now) {
  const std::string_view key = sdk::view(op.key);
  if (op.op == HIVE_WRITE_PUT) return put(txn, key, sdk::view(op.value), op.expires_unix_ms);
  const std::string stored = stored_key(key);
  MDB_val k = val(stored), v{};
  const int rc = mdb_get(txn, records_, &k, &v);
  if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND) return rc;
  auto old = rc == MDB_SUCCESS ? read_record(stored, view(v)) : std::nullopt;
  if (old && old->key != key) old.reset();
  if (op.op == HIVE_WRITE_ERASE) return old ? mdb_del(txn, records_, &k, nullptr) : MDB_SUCCESS;
  const bool live = old && !sdk::expired(old->expires_unix_ms, now);
  sum = sdk::add_int64(live ? std::optional(old->value) : std::nullopt, op.delta);
  return put(txn, key, sdk::encode_int64(sum), live ? old->expires_unix_ms : op.expires_unix_ms);
}

void lmdb_store::write(std::span<hive_write *const> ops, std::uint64_t deadline_ns) {
  std::lock_guard lock(mutex_);
  usable();
  if (visiting_ > 0) throw failure(HIVE_E_ARGUMENT, "a visitor may read but not write");
  sdk::check_writes(ops);
  std::vector<std::int64_t> sums(ops.size());
  for (;;) {
    if (sdk::late(host_, deadline_ns)) throw failure(HIVE_E_TIMEOUT, "the deadline passed before the write began");
    int rc;
    {
      transaction txn(env_, 0);
      rc = txn.rc();
      const std::uint64_t now = sdk::unix_ms();
      for (std::size_t i = 0; i < ops.size() && rc == MDB_SUCCESS; ++i) rc = apply(txn.get(), *ops[i], sums[i], now);
      if (rc == MDB_SUCCESS) rc = txn.commit();
    }
    if (rc == MDB_SUCCESS) break;
    if (rc != MDB_MAP_FULL) fail(rc, "cannot write to");
    if (!grow()) {
      full_.add();
      throw failure(HIVE_E_EXHAUSTED, "the store in '" + path_ + "' is full: its map has reached " + std::to_string(map_ / mib) +
                                          " MiB, max_map_size_mb is " + std::to_string(max_map_ / mib) +
                                          "; nothing was written, raise max_map_size_mb");
    }
  }
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (ops[i]->op == HIVE_WRITE_ADD) ops[i]->result = sums[i];
}

void lmdb_store::sweep(std::uint64_t deadline_ns) {
  std::lock_guard lock(mutex_);
  usable();
  if (visiting_ > 0) throw failure(HIVE_E_ARGUMENT, "a visitor may read but not sweep");
  int dead = 0;
  mdb_reader_check(env_, &dead);
  const std::uint64_t now = sdk::unix_ms();
  last_sweep_ = now;
  std::vector<std::string> gone;
  std::string next;
  {
    transaction txn(env_, MDB_RDONLY);
    MDB_cursor *raw = nullptr;
    int rc = txn.rc();
    if (rc == MDB_SUCCESS) rc = mdb_cursor_open(txn.get(), records_, &raw);
    if (rc != MDB_SUCCESS) fail(rc, "cannot sweep");
    const std::unique_ptr<MDB_cursor, decltype(&mdb_cursor_close)> cursor(raw, mdb_cursor_close);
    MDB_val k = val(sweep_from_), v{};
    rc = mdb_cursor_get(raw, &k, &v, sweep_from_.empty() ? MDB_FIRST : MDB_SET_RANGE);
    for (int i = 0; rc == MDB_SUCCESS; ++i, rc = mdb_cursor_get(raw, &k, &v, MDB_NEXT)) {
      if (i == sweep_looks || (i % deadline_stride == 0 && sdk::late(host_, deadline_ns))) {
        next = view(k);
        break;
      }
      if (const auto r = read_record(view(k), view(v)); r && sdk::expired(r->expires_unix_ms, now)) gone.emplace_back(view(k));
    }
    if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND) fail(rc, "cannot sweep");
  }
  sweep_from_ = std::move(next);
  if (gone.empty()) return;
  transaction txn(env_, 0);
  int rc = txn.rc();
  for (const std::string &key : gone) {
    if (rc != MDB_SUCCESS) break;
    MDB_val k = val(key);
    rc = mdb_del(txn.get(), records_, &k, nullptr);
  }
  if (rc == MDB_SUCCESS) rc = txn.commit();
  if (rc != MDB_SUCCESS) fail(rc, "cannot sweep");
  expired_total_ += gone.size();
}

void lmdb_store::stats(hive_storage_stats &out) {
  std::lock_guard lock(mutex_);
  usable();
  transaction txn(env_, MDB_RDONLY);
  MDB_stat stat{};
  MDB_envinfo info{};
  int rc = txn.rc();
  if (rc == MDB_SUCCESS) rc = mdb_stat(txn.get(), records_, &stat);
  if (rc == MDB_SUCCESS) rc = mdb_env_info(env_, &info);
  if (rc != MDB_SUCCESS) fail(rc, "cannot read from");
  out.entries = stat.ms_entries;
  out.used_bytes = (stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages) * stat.ms_psize;
  out.capacity_bytes = max_map_;
  out.readers = info.me_numreaders;
  out.expired_total = expired_total_;
  out.last_sweep_unix_ms = last_sweep_;
}

}  // namespace hive::storage_lmdb
