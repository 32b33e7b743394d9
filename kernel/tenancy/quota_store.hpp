// Keeps the tokens that were used today over a restart (--quota-backend). Memory is what counts; the storage is read at the start and
// when another day begins, and else only written: all that has changed, twice a second, in one transaction, so that a kill loses less
// than a second's usage. A day begins at midnight, or when a wall clock that was wrong is put right: then its records may be there.
//
// Records: quotaTPD:TENANT:DAY or quotaTPD:TENANT<NUL>MODEL:DAY, DAY counted from 1970; 8 bytes, big endian; kept for 48 h, which the
// storage sees to. A storage that fails refuses nobody: it is counted, told at most once a minute, and tried again; what was not
// read is never written over.
//
// Control thread. The storage thread must have stopped before this is destroyed.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "fleet/storage_thread.hpp"
#include "tenancy/day_budgets.hpp"

namespace hive::tenancy {

std::string quota_record_key(const day_record &);
std::string quota_record_value(uint64_t used);
// Empty when key or value is none of ours.
std::optional<day_record> quota_record(std::string_view key, std::string_view value);

class quota_store {
 public:
  static constexpr uint64_t period_ns = 500 * ns_per_ms;
  static constexpr uint64_t kept_ms = 48ull * 3600 * 1000;

  quota_store(fleet::storage_thread &storage, day_budgets &days, const clock_source &clock) : storage_(storage), days_(days), clock_(clock) {}

  // Waits for what is stored, for a while; without an answer the router starts all the same.
  void load(uint64_t limit_ns = 5 * ns_per_s);
  void tick();                     // as often as one likes: does something when it is time
  void flush();                    // posts what has changed, now

  uint64_t errors() const { return errors_.load(std::memory_order_relaxed); }  // any thread
  bool loaded() const { return loaded_.load(std::memory_order_acquire); }

 private:
  void read(fleet::storage_client &);      // storage thread, as the next two
  void write(fleet::storage_client &);
  void failed(uint64_t records, std::string_view what, const status &);

  fleet::storage_thread &storage_;
  day_budgets &days_;
  const clock_source &clock_;
  uint64_t next_ns_ = 0;
  uint64_t told_ns_ = 0;                   // storage thread, as the next two
  uint64_t day_ = 0;                       // the last one that was read
  std::set<uint64_t> read_days_;
  std::atomic<bool> loaded_{false}, busy_{false};
  std::atomic<uint64_t> errors_{0};
};

}  // namespace hive::tenancy
