// Names of signals and their numbers. A column is what a pool keeps of one signal for all its agents (pool.hpp).
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "hive/abi/views.h"

namespace hive::fleet {

// Interns signal names; process-wide. Any thread.
class column_table {
 public:
  static constexpr size_t limit = 256;
  hive_column intern(std::string_view name);        // 0 when the limit is reached
  hive_column find(std::string_view name) const;    // 0 when unknown
  std::string name(hive_column id) const;
  size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> names_{std::string()};
};

// Ids of the kernel's own columns, interned at start in this order.
struct kernel_columns {
  hive_column active_requests, capacity, load, capacity_utilization, success_rate, consecutive_failures, srtt_ms, rttvar_ms,
      active_tokens, success_rate_5m;
  hive_column last;  // no agent may publish one up to here
};
kernel_columns intern_kernel_columns(column_table &);

}  // namespace hive::fleet
