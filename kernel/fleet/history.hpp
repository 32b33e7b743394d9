// What is kept of an agent over restarts: its lifetime counters and its latency, one JSON record a peer id under
// universalHistory:<peer_id> (docs/latency.md). Reads and writes happen on the storage thread, one after another,
// so that a reset and a flush exclude each other by themselves.
//
// Any thread; nothing here waits. The storage thread must have stopped before the history is destroyed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "fleet/agent.hpp"
#include "fleet/storage_thread.hpp"

namespace hive::fleet {

struct history_settings {
  uint64_t flush_interval_ns = 30 * ns_per_s;        // --universal-flush-interval
  uint64_t ttl_ms = 30ull * 24 * 3600 * 1000;        // --disk-db-ttl, from each write
};

struct history_record {
  uint64_t successful = 0, failed = 0, input_tokens = 0, output_tokens = 0, disconnections = 0, agent_failures = 0,
           backend_failures = 0;
  std::optional<latency_value> latency;              // srtt_ms 0 in JSON = none
};
std::string history_key(std::string_view peer_id);
std::string to_json(const history_record &);
std::optional<history_record> parse_history(std::string_view json);  // empty = not such a record

struct history_stats {
  std::atomic<uint64_t> flushes{0}, records_written{0}, write_errors{0}, read_errors{0}, corrupt{0}, warm_starts{0};
  std::atomic<bool> failing{false};                  // the last write did not succeed
};

class history {
 public:
  history(storage_thread &, const clock_source &, const history_settings &);

  const history_settings &settings() const { return settings_; }
  const history_stats &stats() const { return stats_; }

  // Adds the stored record to a new agent's counters and latency, then calls `done` on the storage thread; at once on this
  // thread when the storage line is full. An agent whose record could not be read is merged at a later flush.
  void warm_start(std::shared_ptr<agent>, std::function<void()> done);
  // Writes those of them that changed since their last flush. What could not be written stays marked.
  void flush(std::vector<std::shared_ptr<agent>>);
  // Erases all records, then zeroes the agents' counters, streaks and latency and their columns. `agents` is called on the
  // storage thread. On a storage error nothing is zeroed.
  void reset(std::function<std::vector<std::shared_ptr<agent>>()> agents, std::function<void(status)> done);

 private:
  bool learn(storage_client &, agent &);             // false = the record could not be read
  void write(storage_client &, const std::vector<std::shared_ptr<agent>> &);

  storage_thread &storage_;
  const clock_source &clock_;
  const history_settings settings_;
  history_stats stats_;
};

}  // namespace hive::fleet
