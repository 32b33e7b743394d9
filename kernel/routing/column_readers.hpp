// Which columns the gates of those that wait read, and of which they judge the age: a change that none of them reads wakes nobody.
// Guarded by the pool's lock.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "fleet/pool.hpp"
#include "routing/queue.hpp"

namespace hive::routing {

class column_readers {
 public:
  static constexpr size_t columns = fleet::column_table::limit + 1;
  using column_set = std::bitset<columns>;

  // One more that reads them, `by` 1, or one less, -1. `rise`, a part of `reads`: a rise of these can let an agent in.
  void count(const column_set &reads, const column_set &rise, std::span<const aged_column> ages, int by) {
    const auto change = static_cast<uint32_t>(by);
    if (reads.any()) reading_ += change;
    for (size_t id = reads._Find_first(); id < columns; id = reads._Find_next(id)) {
      readers_[id] += change;
      if (rise.test(id)) rise_readers_[id] += change;
    }
    for (const aged_column &one : ages) {
      auto found = std::find_if(aged_.begin(), aged_.end(), [&](const auto &a) { return a.first == one; });
      if (found == aged_.end()) found = aged_.insert(aged_.end(), {one, 0});
      found->second += change;
      if (found->second == 0) aged_.erase(found);
    }
  }

  bool any() const { return reading_ > 0; }
  bool reads(hive_column id, bool rise) const { return id < columns && (rise ? rise_readers_ : readers_)[id] > 0; }

  uint64_t shortest_max_age(hive_column id) const {
    uint64_t shortest = never_ns;
    for (const auto &[one, readers] : aged_)
      if (one.id == id) shortest = std::min(shortest, one.max_age_ns);
    return shortest;
  }

  // Whether some value passed a max_age in that time.
  bool aged_between(const fleet::pool &pool, uint64_t before, uint64_t now) const {
    if (aged_.empty()) return false;
    const hive_pool view = pool.view();
    for (const auto &[one, readers] : aged_) {
      const uint64_t *sampled = one.id < view.column_count ? view.sampled_ns[one.id] : nullptr;
      for (uint32_t i = 0; sampled && i < view.count; ++i)
        if (sampled[i] != 0 && sampled[i] + one.max_age_ns >= before && sampled[i] + one.max_age_ns < now) return true;
    }
    return false;
  }

 private:
  uint32_t reading_ = 0;                                // that read some column
  uint32_t readers_[columns] = {};
  uint32_t rise_readers_[columns] = {};
  std::vector<std::pair<aged_column, uint32_t>> aged_;  // with its readers; few: those of the steps that somebody waits in
};

}  // namespace hive::routing
