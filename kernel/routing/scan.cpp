#include "routing/scan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/clock.hpp"

namespace hive::routing::scan {

namespace {

// `!(v op limit)` keeps NaN: every comparison with it is false.
template <comparison Op>
[[gnu::always_inline]] inline bool holds(double v, double limit) {
  if constexpr (Op == comparison::gt) return v > limit;
  if constexpr (Op == comparison::gte) return v >= limit;
  if constexpr (Op == comparison::lt) return v < limit;
  return v <= limit;
}

template <comparison Op>
[[gnu::always_inline]] inline void keep_loop(const double *__restrict v, uint8_t *__restrict keep, uint32_t n, double limit) {
  for (uint32_t i = 0; i < n; ++i) keep[i] &= static_cast<uint8_t>(!holds<Op>(v[i], limit));
}

[[gnu::always_inline]] inline void keep_all(comparison op, const double *v, uint8_t *keep, uint32_t n, double limit) {
  switch (op) {
    case comparison::gt: return keep_loop<comparison::gt>(v, keep, n, limit);
    case comparison::gte: return keep_loop<comparison::gte>(v, keep, n, limit);
    case comparison::lt: return keep_loop<comparison::lt>(v, keep, n, limit);
    case comparison::lte: return keep_loop<comparison::lte>(v, keep, n, limit);
  }
}

// A rule with max_age or leave: no branch but those of the loop's constants.
template <comparison Op>
[[gnu::always_inline]] inline uint64_t full_loop(const threshold &t, const double *__restrict v, const uint64_t *__restrict sampled,
                                                 uint64_t now_ns, uint8_t *__restrict keep, uint8_t *__restrict out, uint32_t n) {
  const double limit = t.limit, leave = t.leave.value_or(t.limit);
  const uint64_t age = t.max_age_ns;
  const uint64_t oldest = now_ns > age ? now_ns - age : 0;
  uint64_t first = std::numeric_limits<uint64_t>::max();
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t at = sampled ? sampled[i] : 0;
    const bool missing = (v[i] != v[i]) | ((age != 0) & (at != 0) & (at < oldest));
    const bool was_out = out ? out[i] != 0 : false;
    const bool bad = holds<Op>(v[i], was_out ? leave : limit);
    const bool violated = missing ? t.exclude_missing : bad;
    keep[i] &= static_cast<uint8_t>(!violated);
    if (out) out[i] = static_cast<uint8_t>(missing ? was_out : bad);
    first = std::min(first, (missing | (at == 0)) ? std::numeric_limits<uint64_t>::max() : at);
  }
  return age == 0 || first == std::numeric_limits<uint64_t>::max() ? never_ns : first + age + 1;
}

uint64_t full(const threshold &t, const double *v, const uint64_t *sampled, uint64_t now_ns, uint8_t *keep, uint8_t *out, uint32_t n) {
  switch (t.op) {
    case comparison::gt: return full_loop<comparison::gt>(t, v, sampled, now_ns, keep, out, n);
    case comparison::gte: return full_loop<comparison::gte>(t, v, sampled, now_ns, keep, out, n);
    case comparison::lt: return full_loop<comparison::lt>(t, v, sampled, now_ns, keep, out, n);
    case comparison::lte: return full_loop<comparison::lte>(t, v, sampled, now_ns, keep, out, n);
  }
  return never_ns;
}

[[gnu::always_inline]] inline void drop_loop(const uint32_t *__restrict verdicts, uint32_t mask, uint8_t *__restrict keep,
                                             uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) keep[i] &= static_cast<uint8_t>((verdicts[i] & mask) == 0);
}

void keep_plain(comparison op, const double *v, uint8_t *keep, uint32_t n, double limit) { keep_all(op, v, keep, n, limit); }
void drop_plain(const uint32_t *v, uint32_t mask, uint8_t *keep, uint32_t n) { drop_loop(v, mask, keep, n); }

#if defined(__x86_64__)
[[gnu::target("avx2")]] void keep_avx2(comparison op, const double *v, uint8_t *keep, uint32_t n, double limit) {
  keep_all(op, v, keep, n, limit);
}
[[gnu::target("avx2")]] void drop_avx2(const uint32_t *v, uint32_t mask, uint8_t *keep, uint32_t n) {
  drop_loop(v, mask, keep, n);
}
const bool has_avx2 = __builtin_cpu_supports("avx2");
#endif

// Which of eight are kept, ascending, by their bits. 16 bits each: eight fill a register.
using eight_indexes = std::array<uint16_t, 8>;
constexpr auto kept_of = [] {
  std::array<eight_indexes, 256> all{};
  for (uint32_t bits = 0; bits < all.size(); ++bits) {
    size_t count = 0;
    for (uint16_t k = 0; k < 8; ++k)
      if ((bits >> k & 1) != 0) all[bits][count++] = k;
  }
  return all;
}();

}  // namespace

bool holds_at(comparison op, double v, double limit) {
  switch (op) {
    case comparison::gt: return v > limit;
    case comparison::gte: return v >= limit;
    case comparison::lt: return v < limit;
    case comparison::lte: return v <= limit;
  }
  return false;
}

bool too_old(const threshold &t, const uint64_t *sampled_ns, uint64_t now_ns, uint32_t i) {
  return t.max_age_ns && sampled_ns && sampled_ns[i] && now_ns > sampled_ns[i] && now_ns - sampled_ns[i] > t.max_age_ns;
}

bool violated(const threshold &t, const double *column, const uint64_t *sampled_ns, uint64_t now_ns, uint32_t i, bool kept_out) {
  if (!column || std::isnan(column[i]) || too_old(t, sampled_ns, now_ns, i)) return t.exclude_missing;
  return holds_at(t.op, column[i], kept_out ? t.leave.value_or(t.limit) : t.limit);
}

uint64_t apply(const threshold &t, const double *column, const uint64_t *sampled_ns, uint64_t now_ns, uint8_t *keep, uint8_t *out,
               uint32_t n) {
  if (!column) {
    if (t.exclude_missing && n > 0) std::memset(keep, 0, n);
    return never_ns;
  }
  if (t.exclude_missing || out || (t.max_age_ns && sampled_ns)) return full(t, column, sampled_ns, now_ns, keep, out, n);
#if defined(__x86_64__)
  if (has_avx2)
    keep_avx2(t.op, column, keep, n, t.limit);
  else
#endif
    keep_plain(t.op, column, keep, n, t.limit);
  return never_ns;
}

void both(uint8_t *__restrict keep, const uint8_t *__restrict also, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) keep[i] &= also[i];
}

uint32_t open_slots(const uint8_t *__restrict states, const uint8_t *__restrict fits, uint8_t *__restrict keep, uint32_t n) {
  constexpr uint64_t ones = 0x0101010101010101u;
  uint32_t held = 0;
  uint32_t i = 0;
  // Eight slots a step: no byte is above 3, so a shift brings the bit of a neighbour only where the mask drops it.
  for (; i + 8 <= n; i += 8) {
    uint64_t s, f;
    std::memcpy(&s, states + i, 8);
    std::memcpy(&f, fits + i, 8);
    const uint64_t open = f & (s >> 1) & ones;
    const uint64_t full = f & s & ~open & ones;
    std::memcpy(keep + i, &open, 8);
    held += static_cast<uint32_t>((full * ones) >> 56);
  }
  for (; i < n; ++i) {
    keep[i] = static_cast<uint8_t>(fits[i] & (states[i] >> 1));
    held += static_cast<uint32_t>(fits[i] & states[i] & ~keep[i] & 1);
  }
  return held;
}

void drop_marked(const uint32_t *verdicts, uint32_t mask, uint8_t *keep, uint32_t n) {
#if defined(__x86_64__)
  if (has_avx2) return drop_avx2(verdicts, mask, keep, n);
#endif
  drop_plain(verdicts, mask, keep, n);
}

uint32_t gather(const uint8_t *__restrict keep, uint32_t n, uint32_t *__restrict out) {
  uint32_t count = 0;
  uint32_t i = 0;
  // Eight at a time and without a branch: which ones pass is as good as random. The product's top byte is the eight bits in a row,
  // then their sum; what is written beyond those kept is written over, and stays below n.
  for (; i + 8 <= n; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, keep + i, 8);
    const eight_indexes &kept = kept_of[eight * 0x0102040810204080u >> 56];
    uint32_t *__restrict to = out + count;
    for (uint32_t k = 0; k < 8; ++k) to[k] = i + kept[k];
    count += static_cast<uint32_t>(eight * 0x0101010101010101u >> 56);
  }
  for (; i < n; ++i) {
    out[count] = i;
    count += keep[i];
  }
  return count;
}

uint32_t least_loaded(const double *load, const uint32_t *candidates, uint32_t count, uint64_t seed) {
  const auto cost = [load](uint32_t i) {
    return load && !std::isnan(load[i]) ? load[i] : std::numeric_limits<double>::infinity();
  };
  double best = std::numeric_limits<double>::infinity();
  for (uint32_t k = 0; k < count; ++k) best = std::fmin(best, cost(candidates[k]));
  uint64_t ties = 0;
  for (uint32_t k = 0; k < count; ++k) ties += cost(candidates[k]) == best;
  uint64_t pick = seed % ties;
  for (uint32_t k = 0; k < count; ++k)
    if (cost(candidates[k]) == best && pick-- == 0) return candidates[k];
  return candidates[0];
}

}  // namespace hive::routing::scan
