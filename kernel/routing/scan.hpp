// The loops over a pool's columns: branch-free, so that the compiler vectorises them, with an AVX2 clone picked at run time.
// Pure; no allocation. `keep` holds one byte an agent, 0 or 1.
#pragma once

#include <cstdint>

#include "fleet/pool.hpp"
#include "routing/policy.hpp"

namespace hive::routing::scan {

// Clears keep[i] where the rule is violated. NaN is missing. `column` null = missing for all.
void apply(const threshold &, const double *column, const uint64_t *sampled_ns, uint64_t now_ns, uint8_t *keep, uint32_t n);
// The same for one agent: true = violated.
bool violated(const threshold &, const double *column, const uint64_t *sampled_ns, uint64_t now_ns, uint32_t i);

// keep = fits, healthy and a slot free; answers how many fit and are healthy and have none (`busy` counts as full).
// `states` are fleet::slot_state.
uint32_t open_slots(const uint8_t *states, const uint8_t *fits, uint8_t *keep, uint32_t n);

// Clears keep[i] where any of the mask's bits is set.
void drop_marked(const uint32_t *verdicts, uint32_t mask, uint8_t *keep, uint32_t n);

// Writes the indexes of the kept, ascending; answers how many.
uint32_t gather(const uint8_t *keep, uint32_t n, uint32_t *out);

// The candidate with the smallest load (NaN last); ties take seed % ties. Requires count > 0.
uint32_t least_loaded(const double *load, const uint32_t *candidates, uint32_t count, uint64_t seed);

}  // namespace hive::routing::scan
