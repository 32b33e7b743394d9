// The latency of a pool's agents as one kind of request meets it: for each kind the arrays of srtt_ms and rttvar_ms, and a table of
// all columns in which they stand in place of the blended ones. To gates and strategies it is the same column whatever they judge.
// Guarded by the pool's lock.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "fleet/latency.hpp"
#include "fleet/pool.hpp"

namespace hive::fleet {

class latency_columns {
 public:
  void resize(uint32_t room) {
    for (of_kind &k : kinds_) {
      k.srtt_ms.resize(room, missing);
      k.rttvar_ms.resize(room, missing);
    }
  }
  void clear(uint32_t index) {
    for (of_kind &k : kinds_) k.srtt_ms[index] = k.rttvar_ms[index] = missing;
  }
  // The tables, after `all` has changed or this was resized.
  void publish(const std::vector<const double *> &all, const kernel_columns &kernel) {
    for (of_kind &k : kinds_) {
      k.table = all;
      k.table[kernel.srtt_ms] = k.srtt_ms.data();
      k.table[kernel.rttvar_ms] = k.rttvar_ms.data();
    }
  }
  const double *const *table(request_kind k) const { return kinds_[index_of(k)].table.data(); }

  // Calls set(column, cell, value) for each cell of the row, column by column: equal notes in a row are one entry of the journal.
  template <class F>
  void write(uint32_t index, const latency_values &from, const kernel_columns &kernel, F &&set) {
    for (const request_kind k : all_kinds) {
      const std::optional<latency_value> &v = from.of(k);
      set(kernel.srtt_ms, kinds_[index_of(k)].srtt_ms[index], v ? v->srtt_ms : missing);
    }
    for (const request_kind k : all_kinds) {
      const std::optional<latency_value> &v = from.of(k);
      set(kernel.rttvar_ms, kinds_[index_of(k)].rttvar_ms[index], v ? v->rttvar_ms : missing);
    }
  }

 private:
  static constexpr double missing = std::numeric_limits<double>::quiet_NaN();
  struct of_kind {
    std::vector<double> srtt_ms, rttvar_ms;
    std::vector<const double *> table;
  };
  std::array<of_kind, all_kinds.size()> kinds_;
};

}  // namespace hive::fleet
