// Percentiles of a set of samples by nearest rank: always a value that was measured, never one between two.
//
// Source: NIST/SEMATECH handbook 7.2.6.2's plain form, rank = ceil(p * n). Any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace hive::bench {

// The nearest-rank percentile. `permille` is 1..1000 (990 = p99, 1000 = the largest); whole numbers, as ceil() of a
// rounded product picks the wrong rank for some sizes. Reorders `samples`; 0 when there are none.
uint64_t percentile(std::vector<uint64_t> &samples, uint32_t permille);

}  // namespace hive::bench
