// A strategy in C++: a class with `id`, `summary` and
//   std::optional<uint32_t> select(const request &, const pool &[, scores]) const;
// and, where it keeps state, any of
//   void on_choice(const request &, const pool &, uint32_t index);
//   void on_outcome(const hive_outcome &);
//   void on_pool(const pool &);
// All of them are [pool]. select changes nothing: explain calls it too, hence const.
#pragma once

#include <cmath>
#include <optional>

#include "hive/sdk/views.hpp"

namespace hive::sdk {

// The host's buffer of one score a slot, lower is better; free scratch, and shown by explain once `publish`ed.
class scores {
 public:
  explicit scores(hive_choice *c) noexcept : c_(c) {}
  double *data() const noexcept { return c_->scores; }
  void publish() const noexcept { c_->scored = 1; }

 private:
  hive_choice *c_;
};

namespace detail {

// No branch depends on a cost: which one costs least is random to a predictor. `c < best ? c : best` is one instruction and passes over
// NaN; four minima at once, since one would wait on itself, and each a variable of its own, since compilers keep an array in
// memory. `cost` is called once for each, in ascending order.
template <class Cost>
double lowest(std::span<const uint32_t> candidates, Cost &&cost) {
  const size_t n = candidates.size();
  double a = HUGE_VAL, b = HUGE_VAL, c = HUGE_VAL, d = HUGE_VAL;
  const auto take = [](double one, double &best) { best = one < best ? one : best; };
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    take(cost(candidates[i]), a);
    take(cost(candidates[i + 1]), b);
    take(cost(candidates[i + 2]), c);
    take(cost(candidates[i + 3]), d);
  }
  for (; i < n; ++i) take(cost(candidates[i]), a);
  take(b, a);
  take(d, c);
  take(c, a);
  return a;
}

// Which of those that cost no more than `low` it is. Those of one block are laid in a row, which counts them as well: looking for
// the one whose turn it is would cost a branch a candidate. Many are counted first, four at once, and only the winner's block laid.
template <class Cost>
std::optional<uint32_t> pick(std::span<const uint32_t> candidates, uint64_t seed, double low, Cost &&cost) {
  constexpr size_t block = 64;
  const size_t n = candidates.size();
  if (n == 0) return std::nullopt;
  if (low == HUGE_VAL) return candidates[seed % n];  // none known: all tie
  uint32_t tied[block];
  const auto lay = [&](std::span<const uint32_t> of) {
    size_t count = 0;
    const auto next = [&](uint32_t i) {
      tied[count] = i;
      count += cost(i) <= low;
    };
    size_t k = 0;
    for (; k + 4 <= of.size(); k += 4) {
      next(of[k]);
      next(of[k + 1]);
      next(of[k + 2]);
      next(of[k + 3]);
    }
    for (; k < of.size(); ++k) next(of[k]);
    return count;
  };
  const auto ties_in = [&](std::span<const uint32_t> of) {
    uint64_t a = 0, b = 0, c = 0, d = 0;
    size_t k = 0;
    for (; k + 4 <= of.size(); k += 4) {
      a += cost(of[k]) <= low;
      b += cost(of[k + 1]) <= low;
      c += cost(of[k + 2]) <= low;
      d += cost(of[k + 3]) <= low;
    }
    for (; k < of.size(); ++k) a += cost(of[k]) <= low;
    return a + b + c + d;
  };
  // A cost that changes while it is asked may leave no tie: still an answer.
  const uint64_t ties = n <= block ? lay(candidates) : ties_in(candidates);
  if (ties == 0) return candidates[seed % n];
  uint64_t skip = ties == 1 ? 0 : seed % ties;
  if (n <= block) return tied[skip];
  for (size_t from = 0; from < n; from += block) {
    const auto part = candidates.subspan(from, from + block < n ? block : n - from);
    const uint64_t here = ties_in(part);
    if (skip < here) return lay(part) > skip ? tied[skip] : part[0];
    skip -= here;
  }
  return candidates[seed % n];
}
}  // namespace detail

// The candidate with the least cost(index); ties go to seed % ties, NaN is last, none known still chooses. `cost` is
// called up to four times a candidate and must answer the same each time. Empty when there is no candidate.
template <class Cost>
std::optional<uint32_t> least(const pool &p, uint64_t seed, Cost &&cost) {
  return detail::pick(p.candidates(), seed, detail::lowest(p.candidates(), cost), cost);
}

// The same, calling `cost` once a candidate and leaving the costs in `out` for explain.
template <class Cost>
std::optional<uint32_t> least_scored(const pool &p, uint64_t seed, scores out, Cost &&cost) {
  double *const table = out.data();
  if (table == nullptr) return least(p, seed, cost);
  const double low = detail::lowest(p.candidates(), [&](uint32_t i) { return table[i] = cost(i); });
  out.publish();
  return detail::pick(p.candidates(), seed, low, [table](uint32_t i) { return table[i]; });
}

template <class T>
concept strategy_class = described<T> && (requires(const T &t, const request &r, const pool &p) {
  { t.select(r, p) } -> std::same_as<std::optional<uint32_t>>;
} || requires(const T &t, const request &r, const pool &p, scores s) {
  { t.select(r, p, s) } -> std::same_as<std::optional<uint32_t>>;
});

// The component of T, for HIVE_PLUGIN.
template <strategy_class T>
struct strategy {
  static hive_status select(void *self, const hive_request *r, const hive_pool *p, hive_choice *choice) noexcept {
    return guarded(nullptr, [&]() -> hive_status {
      const T &t = *static_cast<const T *>(self);
      std::optional<uint32_t> pick;
      if constexpr (requires(scores s) { t.select(request(r), pool(p), s); }) pick = t.select(request(r), pool(p), scores(choice));
      else pick = t.select(request(r), pool(p));
      if (!pick) return HIVE_NO_CHOICE;
      choice->index = *pick;
      return HIVE_OK;
    });
  }
  static void on_choice(void *self, const hive_request *r, const hive_pool *p, uint32_t index) noexcept {
    guarded(nullptr, [&]() -> hive_status { static_cast<T *>(self)->on_choice(request(r), pool(p), index); return HIVE_OK; });
  }
  static void on_outcome(void *self, const hive_outcome *outcome) noexcept {
    guarded(nullptr, [&]() -> hive_status { static_cast<T *>(self)->on_outcome(*outcome); return HIVE_OK; });
  }
  static void on_pool(void *self, const hive_pool *p) noexcept {
    guarded(nullptr, [&]() -> hive_status { static_cast<T *>(self)->on_pool(pool(p)); return HIVE_OK; });
  }

  static constexpr hive_strategy_vtable make() {
    hive_strategy_vtable v{};
    v.struct_size = sizeof v;
    v.select = &select;
    if constexpr (requires(T &t, const request &r, const pool &p) { t.on_choice(r, p, 0u); }) v.on_choice = &on_choice;
    if constexpr (requires(T &t, const hive_outcome &o) { t.on_outcome(o); }) v.on_outcome = &on_outcome;
    if constexpr (requires(T &t, const pool &p) { t.on_pool(p); }) v.on_pool = &on_pool;
    return v;
  }
  static constexpr hive_strategy_vtable vtable = make();
  static constexpr hive_component component = detail::component<T>(HIVE_KIND_STRATEGY, &vtable);
};

}  // namespace hive::sdk
