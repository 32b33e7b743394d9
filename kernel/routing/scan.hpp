// The loops over a pool's columns: branch-free, so that the compiler vectorises them, with an AVX2 clone picked at run time.
// Pure; no allocation. `keep` holds one byte an agent, 0 or 1.
#pragma once

#include <cstdint>

#include "fleet/pool.hpp"
#include "routing/policy.hpp"

namespace hive::routing::scan {

// v op limit; false for NaN.
bool holds_at(comparison op, double v, double limit);

// Clears keep[i] where the rule is violated. NaN is missing. `column` null = missing for all, `sampled_ns` null or a 0 in it =
// live. `out`, only for a rule with `leave`: which ones are kept out, one byte an agent, brought up to date. Answers when the first
// value will have passed max_age; never_ns = none.
uint64_t apply(const threshold &, const double *column, const uint64_t *sampled_ns, uint64_t now_ns, uint8_t *keep, uint8_t *out,
               uint32_t n);
// The same for one agent, changing nothing: true = violated. `kept_out`: with `leave` in the place of the limit.
bool violated(const threshold &, const double *column, const uint64_t *sampled_ns, uint64_t now_ns, uint32_t i,
              bool kept_out = false);
bool too_old(const threshold &, const uint64_t *sampled_ns, uint64_t now_ns, uint32_t i);

// keep[i] &= also[i].
void both(uint8_t *keep, const uint8_t *also, uint32_t n);

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
