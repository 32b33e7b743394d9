#include "routing/funnel.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "routing/instance.hpp"
#include "routing/scan.hpp"
#include "routing/strategy_call.hpp"

namespace hive::routing {

namespace {

uint32_t index_of(const fleet::pool &pool, const fleet::agent *who) { return pool.index_of(*who).value_or(nowhere); }

// Takes those that this request shall not have out of the candidates; a full one among them no longer counts as held.
void take_out(const fleet::pool &pool, const uint8_t *fits, const selection &sel, uint8_t *keep, uint32_t &held) {
  for (const auto *list : {&sel.failed, &sel.barred}) {
    for (const fleet::agent *who : *list) {
      const uint32_t i = index_of(pool, who);
      if (i == nowhere || !fits[i]) continue;
      const fleet::pool_row &row = pool.row(i);
      if (keep[i])
        keep[i] = 0;
      else if ((row.standing & ~fleet::standing_busy) == 0)
        --held;
    }
  }
}

void apply_custom(const step &s, const hive_request &request, hive_pool &view, lane::buffers &space) {
  // All gates of a step see the same eligible, so their verdicts are collected first.
  std::fill_n(space.marks.data(), view.count, 0u);
  for (const custom_gate &g : s.gates()) {
    if (!ask_gate(g, request, view, space.verdicts.data())) {
      if (s.exclude_on_error()) std::fill_n(space.marks.data(), view.count, 1u);
      continue;
    }
    const uint32_t mask = g.mask;
    const uint32_t *from = space.verdicts.data();
    uint32_t *to = space.marks.data();
    for (uint32_t i = 0; i < view.count; ++i) to[i] |= from[i] & mask;
  }
  scan::drop_marked(space.marks.data(), ~0u, space.keep.data(), view.count);
}

}  // namespace

uint32_t leave_suspects(const fleet::pool &pool, uint64_t now_ns, uint8_t *keep, uint32_t *early, uint32_t count) {
  uint32_t n = 0;
  for (const uint32_t i : pool.suspects()) {
    early[i] = keep[i] && now_ns < pool.row(i).who->probe_at_ns.load(std::memory_order_relaxed);
    n += early[i];
  }
  if (n == count) return count;
  for (const uint32_t i : pool.suspects())
    if (early[i]) keep[i] = 0;
  return count - n;
}

funnel_result run_funnel(const fleet::pool &pool, lane &where, step &s, selection &sel) {
  const uint32_t n = pool.count();
  if (n == 0) return {};
  hive_pool view = pool.view(sel.kind);
  lane::buffers &space = where.space;
  space.fit(n);
  uint8_t *keep = space.keep.data();
  sel.request.now_ns = now_ns();
  sel.request.tie_seed = s.strategy().leases;

  const uint8_t *fits = s.fits(pool, sel.capability);
  uint32_t held = scan::open_slots(pool.slot_states(), fits, keep, n);
  take_out(pool, fits, sel, keep, held);
  sel.held = held;
  const funnel_result empty{held > 0 ? verdict::full : verdict::none, 0};

  for (threshold_rules *rules : {&s.thresholds(), &s.thresholds(sel.kind)})
    if (!rules->empty()) scan::both(keep, rules->passes(pool, view, sel.request.now_ns), n);
  view.eligible = keep;
  if (!s.gates().empty()) apply_custom(s, sel.request, view, space);

  uint32_t count = scan::gather(keep, n, space.candidates.data());
  if (count == 0) return empty;
  if (!pool.suspects().empty() && leave_suspects(pool, sel.request.now_ns, keep, space.marks.data(), count) != count)
    count = scan::gather(keep, n, space.candidates.data());
  if (!sel.avoided.empty()) {
    for (const fleet::agent *who : sel.avoided) {
      const uint32_t i = count > 1 ? index_of(pool, who) : nowhere;
      if (i == nowhere || !keep[i]) continue;
      keep[i] = 0;
      --count;
    }
    count = scan::gather(keep, n, space.candidates.data());
  }
  view.candidates = space.candidates.data();
  view.candidate_count = count;
  const uint32_t chosen = ask_strategy(s.strategy(), sel.request, view, space, hive_column_at(&view, s.load())).index;
  if (chosen == nowhere) return empty;
  return {verdict::chosen, chosen};
}

void count_refused(fleet::pool &pool, lane &where, step &s, const selection &sel) {
  const uint32_t n = pool.count();
  where.space.fit(n);
  uint8_t *full = where.space.keep.data();
  const uint8_t *fits = s.fits(pool, sel.capability);
  const uint8_t *states = pool.slot_states();
  for (uint32_t i = 0; i < n; ++i) full[i] = static_cast<uint8_t>(fits[i] & (states[i] == fleet::slot_full));
  for (const auto *list : {&sel.failed, &sel.barred})
    for (const fleet::agent *who : *list)
      if (const uint32_t i = index_of(pool, who); i != nowhere) full[i] = 0;
  pool.note_refused(full);
}

bool fits_but_for_capacity(const fleet::pool &pool, step &s, const selection &sel, uint32_t index) {
  const fleet::pool_row &row = pool.row(index);
  if (!s.fits(pool, sel.capability)[index] || !row.usable()) return false;
  if (listed(sel.failed, row.who.get()) || listed(sel.barred, row.who.get())) return false;
  const hive_pool view = pool.view(sel.kind);
  const std::vector<bound_rule> &rules = s.rules(sel.kind);
  return std::none_of(rules.begin(), rules.end(), [&](const bound_rule &r) {
    return threshold_rules::judge(r, view, sel.request.now_ns, index).violated;
  });
}

}  // namespace hive::routing
