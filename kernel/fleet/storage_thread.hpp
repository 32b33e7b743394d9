// The thread that makes every storage call. Jobs run in the order they were posted; each may block up to its own deadline.
// Between them expired records are swept.
//
// post: any thread, never waits. Everything else: the owner's thread (control), open before the first post.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/status.hpp"
#include "hive/abi/storage.h"

namespace hive {
class loop;
}

namespace hive::fleet {

// A storage instance as the plugin host made it.
struct storage_ref {
  const hive_storage_vtable *table = nullptr;
  void *self = nullptr;
};

struct stored_write {
  std::string key;
  std::string value;
  uint64_t expires_unix_ms = 0;  // 0 = never
  bool erase = false;
};

// The vtable in C++ terms. Storage thread only. Not-found is an empty optional, not an error.
class storage_client {
 public:
  static constexpr uint64_t call_limit_ns = 5'000'000'000;

  explicit storage_client(storage_ref ref) : ref_(ref) {}
  result<std::optional<std::string>> get(std::string_view key);
  // Every record whose key starts with `prefix`; false from `visit` ends the scan.
  status scan(std::string_view prefix, const std::function<bool(std::string_view key, std::string_view value)> &visit);
  status write(const std::vector<stored_write> &ops);  // all or nothing
  std::optional<hive_storage_stats> stats();
  const storage_ref &ref() const { return ref_; }

 private:
  storage_ref ref_;
};

class storage_thread {
 public:
  using job = std::function<void(storage_client &)>;

  explicit storage_thread(storage_ref, size_t max_jobs = 1024, uint64_t sweep_period_ns = 5'000'000'000);
  ~storage_thread() { stop(); }
  storage_thread(const storage_thread &) = delete;

  status open();         // opens the store on the thread and waits for the answer
  bool post(job);        // false = the line is full, or the thread has stopped; the job is dropped
  // `done` gets the answer on `control`, whose thread calls, also when the line is full; never before the call returns. The loop is
  // destroyed after this thread has stopped.
  void write(std::vector<stored_write> ops, loop &control, std::function<void(status)> done);  // all or nothing
  void stop();           // runs what was posted, closes the store, joins. Idempotent
  size_t waiting() const;
  // Any thread.
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  uint64_t failed_sweeps() const { return failed_sweeps_.load(std::memory_order_acquire); }
  errc sweep_failure() const { return sweep_failure_.load(std::memory_order_relaxed); }  // of the last one that failed

 private:
  void run();

  storage_client client_;
  const size_t max_jobs_;
  const uint64_t sweep_period_ns_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<job> jobs_;
  bool running_ = false;
  bool stopping_ = false;
  std::atomic<uint64_t> dropped_{0}, failed_sweeps_{0};
  std::atomic<errc> sweep_failure_{errc::ok};
  std::thread thread_;
};

}  // namespace hive::fleet
