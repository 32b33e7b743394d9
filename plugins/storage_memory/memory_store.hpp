// Records in an ordered map, gone with the process. Called by the storage thread; a mutex keeps a late call from another
// thread (close against a read) harmless.
#pragma once

#include "hive/sdk/storage_rules.hpp"

#include <map>
#include <mutex>
#include <optional>

namespace hive::storage_memory {

class store {
 public:
  store(const hive_host *host, std::uint64_t max_bytes) : host_(host), max_bytes_(max_bytes) {}

  hive_status open(const hive_error_sink *err);
  void close();
  hive_status get(hive_bytes key, std::uint64_t deadline_ns, const hive_visitor &visitor);
  hive_status scan(hive_bytes prefix, std::uint64_t deadline_ns, const hive_visitor &visitor);
  hive_status write(hive_write *const *ops, std::size_t count, std::uint64_t deadline_ns, const hive_error_sink *err);
  hive_status sweep(std::uint64_t deadline_ns);
  hive_status stats(hive_storage_stats *out);

 private:
  struct record {
    std::string value;
    std::uint64_t expires = 0;
  };
  using map = std::map<std::string, record, std::less<>>;
  struct undo {
    std::string key;
    std::optional<record> before;
  };

  hive_status apply(hive_write &op, std::int64_t &sum, std::uint64_t now, const hive_error_sink *err);
  void set(std::string_view key, std::string_view value, std::uint64_t expires);
  void erase(map::iterator at);
  static std::uint64_t cost(std::string_view key, const record &r) { return key.size() + r.value.size() + 96; }

  const hive_host *host_;
  const std::uint64_t max_bytes_;
  std::recursive_mutex mutex_;  // everything below; recursive because a visitor may read
  bool open_ = false;
  int visiting_ = 0;
  map records_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t expired_total_ = 0;
  std::uint64_t last_sweep_ = 0;
  std::string sweep_from_;
};

}  // namespace hive::storage_memory
