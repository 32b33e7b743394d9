#include "fleet/column.hpp"

#include <algorithm>

namespace hive::fleet {

hive_column column_table::intern(std::string_view name) {
  std::lock_guard lock(mutex_);
  const auto found = std::find(names_.begin() + 1, names_.end(), name);
  if (found != names_.end()) return static_cast<hive_column>(found - names_.begin());
  if (name.empty() || names_.size() > limit) return 0;
  names_.emplace_back(name);
  return static_cast<hive_column>(names_.size() - 1);
}

hive_column column_table::find(std::string_view name) const {
  std::lock_guard lock(mutex_);
  const auto found = std::find(names_.begin() + 1, names_.end(), name);
  return found == names_.end() ? 0 : static_cast<hive_column>(found - names_.begin());
}

std::string column_table::name(hive_column id) const {
  std::lock_guard lock(mutex_);
  return id < names_.size() ? names_[id] : std::string();
}

size_t column_table::size() const {
  std::lock_guard lock(mutex_);
  return names_.size() - 1;
}

kernel_columns intern_kernel_columns(column_table &table) {
  kernel_columns k{};
  k.active_requests = table.intern("active_requests");
  k.capacity = table.intern("capacity");
  k.load = table.intern("load");
  k.capacity_utilization = table.intern("capacity_utilization");
  k.success_rate = table.intern("success_rate");
  k.consecutive_failures = table.intern("consecutive_failures");
  k.srtt_ms = table.intern("srtt_ms");
  k.rttvar_ms = table.intern("rttvar_ms");
  k.active_tokens = table.intern("active_tokens");
  k.success_rate_5m = table.intern("success_rate_5m");
  k.last = k.success_rate_5m;
  return k;
}

}  // namespace hive::fleet
