// How long a request waits after a failure that was charged before another agent is asked: what failed for many
// requests at once must not hit the next agent with all of them in one moment. Doubles with every failure of the request, up to eight
// times the first; between half of it and all of it, by the seed, which is the request's own. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hive::routing {

// `failures` >= 1, this one included. first_ns 0 = no pause.
constexpr uint64_t retry_pause_ns(uint64_t first_ns, uint32_t failures, uint64_t seed) {
  const uint64_t whole = first_ns << std::min<uint32_t>(failures - 1, 3);
  uint64_t x = seed + failures * 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  constexpr uint64_t parts = 1024;
  return whole / 2 + whole / 2 * ((x >> 33) % (parts + 1)) / parts;
}

}  // namespace hive::routing
