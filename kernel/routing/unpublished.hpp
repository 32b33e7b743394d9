// Columns that a policy reads and nobody publishes: a gate over one passes everybody (or nobody), a strategy sees nothing, and
// no error says so. Looked for once a second; a column without a value for a minute in a pool with members is told once, and
// again after somebody had published it in between.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "fleet/column.hpp"
#include "routing/snapshot.hpp"

namespace hive::routing {

class outcome_recorder;

struct unpublished_column {
  std::string model;
  std::string column;
  std::string reader;  // who reads it first: "field 'x' of step 'y'", or the name of an instance
};

class unpublished_columns {
 public:
  static constexpr uint64_t patience_ns = 60 * ns_per_s;

  // Control thread.
  void look(const snapshot &, const fleet::column_table &, uint64_t now_ns, outcome_recorder &);
  // As of the last look; by model and column. Any thread.
  std::vector<unpublished_column> list() const;

 private:
  using found = std::map<std::pair<std::string, hive_column>, std::string>;
  static void look_at(const route &, uint64_t now_ns, found &);

  mutable std::mutex mutex_;
  std::vector<unpublished_column> now_;
  found told_;  // control thread
};

}  // namespace hive::routing
