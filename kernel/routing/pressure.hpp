// shed_if: whether a model's fleet is too busy for another request (B3 of docs/admission.md). A rule looks at the mean of one
// signal over the healthy agents that report it; with nobody reporting it, it passes.
//
// Compiled by the control thread with the route; `violated` may be called by any worker. The verdict is kept for a tenth of a second,
// so that a flood of requests does not read every agent's signals each time.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "fleet/pool.hpp"
#include "routing/catalog.hpp"
#include "routing/policy.hpp"

namespace hive::routing {

// Over the usable agents whose value is not missing; empty = nobody has one. Requires: the pool's lock.
std::optional<double> mean_signal(const fleet::pool &, hive_column);

class pressure {
 public:
  static constexpr uint64_t keep_ns = 100 * ns_per_ms;

  // Null when the document has no shed_if. Errors name the field.
  static result<std::shared_ptr<const pressure>> compile(const policy_document &, const component_catalog &, fleet::column_table &);

  // "kv_cache_utilization gt 0.9", the first rule that the means violate; empty = none. Takes the pool's lock.
  std::string violated(const fleet::pool &, uint64_t now_ns) const;

 private:
  struct rule {
    hive_column column;
    threshold bound;
    std::string words;
  };
  std::vector<rule> rules_;
  mutable std::mutex mutex_;
  mutable uint64_t until_ns_ = 0;          // guarded by mutex_, as the next
  mutable const rule *found_ = nullptr;
};

}  // namespace hive::routing
