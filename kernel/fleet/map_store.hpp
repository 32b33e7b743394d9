// For tests only.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "hive/abi/storage.h"

namespace hive::fleet {

// A storage component in a map; can be told to fail. Any thread, by its mutex.
struct map_store {
  std::mutex mutex;
  std::map<std::string, std::pair<std::string, uint64_t>> records;  // and when each expires; 0 = never
  bool fail_reads = false, fail_writes = false, opened = false, closed = false;
  int writes = 0;

  static map_store &of(void *self) { return *static_cast<map_store *>(self); }
  static std::string text(hive_bytes b) { return {reinterpret_cast<const char *>(b.ptr), b.len}; }
  static hive_bytes bytes(const std::string &s) { return {reinterpret_cast<const uint8_t *>(s.data()), s.size()}; }

  static hive_status open(void *self, const hive_error_sink *) noexcept { return of(self).opened = true, HIVE_OK; }
  static void close(void *self) noexcept { of(self).closed = true; }
  static hive_status get(void *self, hive_bytes key, uint64_t, const hive_visitor *v) noexcept {
    std::lock_guard lock(of(self).mutex);
    if (of(self).fail_reads) return HIVE_E_UNAVAILABLE;
    const auto found = of(self).records.find(text(key));
    if (found == of(self).records.end()) return HIVE_NOT_FOUND;
    v->visit(v->ctx, key, bytes(found->second.first), found->second.second);
    return HIVE_OK;
  }
  static hive_status scan(void *self, hive_bytes prefix, uint64_t, const hive_visitor *v) noexcept {
    std::lock_guard lock(of(self).mutex);
    if (of(self).fail_reads) return HIVE_E_UNAVAILABLE;
    for (const auto &[key, value] : of(self).records) {
      if (key.rfind(text(prefix), 0) == 0 && v->visit(v->ctx, bytes(key), bytes(value.first), value.second) != 0) break;
    }
    return HIVE_OK;
  }
  static hive_status write(void *self, hive_write *const *ops, size_t count, uint64_t, const hive_error_sink *err) noexcept {
    std::lock_guard lock(of(self).mutex);
    if (of(self).fail_writes) {
      err->set(err->ctx, HIVE_E_EXHAUSTED, HIVE_STR("disk full"));
      return HIVE_E_EXHAUSTED;
    }
    ++of(self).writes;
    for (size_t i = 0; i < count; ++i) {
      if (ops[i]->op == HIVE_WRITE_PUT) of(self).records[text(ops[i]->key)] = {text(ops[i]->value), ops[i]->expires_unix_ms};
      if (ops[i]->op == HIVE_WRITE_ERASE) of(self).records.erase(text(ops[i]->key));
    }
    return HIVE_OK;
  }
  static constexpr hive_storage_vtable table{sizeof(hive_storage_vtable), 0, open, close, get, scan, write, nullptr, nullptr};
};

}  // namespace hive::fleet
