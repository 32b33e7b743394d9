// The audit log: lines are made on the threads that finish requests and written by one thread of its own, so that a slow disk
// costs no request anything. What does not fit the bounded queue is dropped and counted, or (overflow::block) waits for room, and
// with it everything on its thread: for whoever would rather answer nobody than leave a request out. That wait is bounded; once one
// was in vain, nobody waits again until the file has taken something. Lines of changes under /admin never wait.
//
// Lines are gathered for some milliseconds and written with one call. The file may be rotated in any of the usual ways: by
// rename with reopen() (SIGHUP, SIGUSR1) or without (its inode is looked at before each write), by copytruncate, by deletion.
// While it cannot be written the lines wait in the queue and are tried again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "observe/admin_line.hpp"
#include "observe/audit_line.hpp"
#include "observe/metrics.hpp"

namespace hive::observe {

enum class overflow : uint8_t { drop, block };

struct audit_options {
  std::string path;                       // "-" = stdout
  std::string zone = "Europe/Rome";       // UTC, with a warning, when this machine does not know it
  size_t queue_bytes = 4 << 20;
  overflow when_full = overflow::drop;
  uint64_t block_ns = 10 * ns_per_s;      // the longest wait for room in the queue
  bool required = false;                  // a file that cannot be opened is an error, and not a reason to use stdout
  uint64_t gather_ns = 20 * ns_per_ms;
  uint64_t retry_ns = 200 * ns_per_ms;
  uint64_t stop_ns = 2 * ns_per_s;        // how long stop() may take to write what waits
  histogram write_seconds;
};

// Any thread.
struct audit_counters {
  std::atomic<uint64_t> written{0};       // lines
  std::atomic<uint64_t> dropped_full{0};  // the queue was full
  std::atomic<uint64_t> blocked{0};       // lines that waited for room
  std::atomic<uint64_t> blocked_ns{0};    // how long, all together
  std::atomic<uint64_t> dropped_stop{0};  // could not be written by the end of stop()
  std::atomic<uint64_t> write_errors{0};
  std::atomic<uint64_t> opened{0};        // times the file was opened
  std::atomic<uint64_t> queued_bytes{0};
};

class audit_log {
 public:
  explicit audit_log(audit_options);
  ~audit_log();                           // stops
  // Opens the file and starts the thread. Once, before the first line.
  status start();
  // Any thread. Waits for the file only as overflow::block says.
  void write(const audit_entry &);
  // Any thread, and never waits: it is called on the one that runs the router. Without room the line is dropped and counted.
  void write(const admin_action &);
  void reopen();                          // any thread, no signal handler; returns at once
  void stop();                            // lines that came before are written, as far as the file takes them in time
  const audit_counters &counters() const;

 private:
  void add(std::string_view line, bool may_wait);

  struct shared;
  std::shared_ptr<shared> shared_;        // its thread holds it too: a write that hangs for ever outlives stop()
};

}  // namespace hive::observe
