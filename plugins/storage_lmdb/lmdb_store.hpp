// Records in one LMDB environment: durable at the end of every write, one transaction a call. Called by the storage
// thread; the mutex keeps a close from another thread harmless and is recursive because a visitor may read. After a fork
// the child's copy answers HIVE_E_UNAVAILABLE and touches nothing.
#pragma once

#include "directory.hpp"
#include "hive/sdk/storage.hpp"
#include "record.hpp"

#include <lmdb.h>

#include <memory>
#include <mutex>
#include <vector>

namespace hive::storage_lmdb {

class lmdb_store {
 public:
  static constexpr std::string_view id = "lmdb";
  static constexpr std::string_view version = "0.1.0";
  static constexpr std::string_view summary = "records on disk in an embedded LMDB file; survives kill -9";
  static constexpr std::string_view schema =
      R"({"type":"object","required":["path"],"additionalProperties":false,"properties":{)"
      R"("path":{"type":"string","minLength":1},)"
      R"("map_size_mb":{"type":"integer","minimum":1,"maximum":1048576,"default":64},)"
      R"("max_map_size_mb":{"type":"integer","minimum":1,"maximum":1048576,"default":4096},)"
      R"("sync":{"type":"boolean","default":true},)"
      R"("reset":{"type":"boolean","default":false}}})";

  explicit lmdb_store(const sdk::setup &s);
  ~lmdb_store() { close(); }
  static void check(const sdk::options &o);

  void open();
  void close() noexcept;
  hive_status get(std::string_view key, std::uint64_t deadline_ns, const sdk::visitor &visit);
  hive_status scan(std::string_view prefix, std::uint64_t deadline_ns, const sdk::visitor &visit);
  void write(std::span<hive_write *const> ops, std::uint64_t deadline_ns);
  void sweep(std::uint64_t deadline_ns);
  void stats(hive_storage_stats &out);

 private:
  class transaction;
  struct found {
    record what;
    std::string_view stored;
  };

  void usable() const;
  void enter_format();
  bool grow();
  [[noreturn]] void fail(int rc, std::string_view doing) const;
  static bool visit_group(std::vector<found> &group, std::string_view prefix, std::uint64_t now, const sdk::visitor &visit);
  int apply(MDB_txn *txn, const hive_write &op, std::int64_t &sum, std::uint64_t now);
  int put(MDB_txn *txn, std::string_view key, std::string_view value, std::uint64_t expires);

  sdk::host host_;
  const std::string path_;
  const std::string data_file_;
  const std::uint64_t first_map_;
  const std::uint64_t max_map_;
  const bool sync_;
  bool reset_;  // the next open erases
  sdk::host::metric growths_, full_;

  std::recursive_mutex mutex_;  // everything below
  std::unique_ptr<directory_lock> lock_;
  MDB_env *env_ = nullptr;
  MDB_dbi records_ = 0;
  std::uint64_t map_ = 0;
  int owner_ = 0;  // the pid that opened it
  int visiting_ = 0;
  std::uint64_t expired_total_ = 0;
  std::uint64_t last_sweep_ = 0;
  std::string sweep_from_;  // a stored key
};

}  // namespace hive::storage_lmdb
