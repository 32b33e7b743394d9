#include "hivenet_bench/percentile.hpp"

#include <algorithm>
#include <cstddef>

namespace hive::bench {

uint64_t percentile(std::vector<uint64_t> &samples, uint32_t permille) {
  if (samples.empty()) return 0;
  const uint64_t n = samples.size();
  const uint64_t rank = std::clamp<uint64_t>((n * permille + 999) / 1000, 1, n);
  const auto at = samples.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(samples.begin(), at, samples.end());
  return *at;
}

}  // namespace hive::bench
