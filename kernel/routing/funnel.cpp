#include "routing/funnel.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "routing/instance.hpp"
#include "routing/scan.hpp"

namespace hive::routing {

namespace {

constexpr uint32_t nowhere = UINT32_MAX;

uint32_t index_of(const fleet::pool &pool, const fleet::agent *who) { return pool.index_of(*who).value_or(nowhere); }

bool listed(const std::vector<const fleet::agent *> &list, const fleet::agent *who) {
  return std::find(list.begin(), list.end(), who) != list.end();
}

const double *column_of(const hive_pool &view, hive_column id) { return hive_column_at(&view, id); }
const uint64_t *age_of(const hive_pool &view, hive_column id) {
  return id < view.column_count && view.sampled_ns ? view.sampled_ns[id] : nullptr;
}

// Takes one of the list out of the candidates; a full one among them no longer counts as held.
void take_out(const fleet::pool &pool, const uint8_t *fits, const std::vector<const fleet::agent *> &list, uint8_t *keep,
              uint32_t &held) {
  for (const fleet::agent *who : list) {
    const uint32_t i = index_of(pool, who);
    if (i == nowhere || !fits[i]) continue;
    const fleet::pool_row &row = pool.row(i);
    if (keep[i])
      keep[i] = 0;
    else if ((row.standing & ~fleet::standing_busy) == 0)
      --held;
  }
}

// One that failed again and again is asked when its next probe is due, and before that only if there is nobody else.
uint32_t leave_suspects(const fleet::pool &pool, uint64_t now_ns, uint8_t *keep, uint32_t count) {
  const auto early = [&](uint32_t i) { return keep[i] && now_ns < pool.row(i).who->probe_at_ns.load(std::memory_order_relaxed); };
  const auto all = pool.suspects();
  const auto n = static_cast<uint32_t>(std::count_if(all.begin(), all.end(), early));
  if (n == count) return count;
  for (const uint32_t i : all)
    if (early(i)) keep[i] = 0;
  return count - n;
}

// Calls one gate; false when it failed or may not be called, then its verdicts mean nothing.
bool judge(const custom_gate &g, const hive_request &request, const hive_pool &view, uint32_t *verdicts) {
  g.gate->on_pool(view);
  if (!g.gate->begin(request.now_ns)) return false;
  std::fill_n(verdicts, view.count, 0u);
  const hive_status answer = g.gate->gate()->evaluate(g.gate->self(), &request, &view, verdicts);
  g.gate->end(answer);
  return answer == HIVE_OK;
}

void apply_custom(const step &s, const hive_request &request, hive_pool &view, lane::buffers &space) {
  // All gates of a step see the same eligible, so their verdicts are collected first.
  std::fill_n(space.marks.data(), view.count, 0u);
  for (const custom_gate &g : s.gates()) {
    if (!judge(g, request, view, space.verdicts.data())) {
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

// What the strategy said, checked; nowhere = it chose nobody.
uint32_t ask_strategy(instance &one, const hive_request &request, const hive_pool &view, lane::buffers &space,
                      const double *load) {
  if (const hive_strategy_vtable *table = one.strategy()) {
    one.on_pool(view);
    if (one.begin(request.now_ns)) {
      hive_choice choice{};
      choice.struct_size = sizeof choice;
      choice.index = nowhere;
      choice.scores = space.scores.data();
      choice.score_count = view.count;
      const hive_status answer = table->select(one.self(), &request, &view, &choice);
      const bool right = answer == HIVE_OK && choice.index < view.count && space.keep[choice.index];
      one.end(answer, !right && answer != HIVE_NO_CHOICE && answer >= 0);
      if (right) return choice.index;
      if (answer == HIVE_NO_CHOICE) return nowhere;
    }
  }
  return scan::least_loaded(load, view.candidates, view.candidate_count, request.tie_seed);
}

}  // namespace

funnel_result run_funnel(const fleet::pool &pool, lane &where, step &s, selection &sel) {
  const uint32_t n = pool.count();
  if (n == 0) return {};
  hive_pool view = pool.view();
  lane::buffers &space = where.space;
  space.fit(n);
  uint8_t *keep = space.keep.data();
  sel.request.now_ns = now_ns();
  sel.request.tie_seed = s.strategy().leases;

  const uint8_t *fits = s.fits(pool, sel.capability);
  uint32_t held = scan::open_slots(pool.slot_states(), fits, keep, n);
  take_out(pool, fits, sel.failed, keep, held);
  take_out(pool, fits, sel.barred, keep, held);
  sel.held = held;
  const funnel_result empty{held > 0 ? verdict::full : verdict::none, 0};

  for (const bound_rule &r : s.rules())
    scan::apply(r.bound, column_of(view, r.column), age_of(view, r.column), sel.request.now_ns, keep, n);
  view.eligible = keep;
  if (!s.gates().empty()) apply_custom(s, sel.request, view, space);

  uint32_t count = scan::gather(keep, n, space.candidates.data());
  if (count == 0) return empty;
  if (!pool.suspects().empty() && leave_suspects(pool, sel.request.now_ns, keep, count) != count)
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
  const uint32_t chosen = ask_strategy(s.strategy(), sel.request, view, space, column_of(view, s.load()));
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
  const hive_pool view = pool.view();
  return std::none_of(s.rules().begin(), s.rules().end(), [&](const bound_rule &r) {
    return scan::violated(r.bound, column_of(view, r.column), age_of(view, r.column), sel.request.now_ns, index);
  });
}

std::string_view to_string(funnel_gate g) {
  switch (g) {
    case funnel_gate::none: return "none";
    case funnel_gate::model_filter: return "model_filter";
    case funnel_gate::health: return "health";
    case funnel_gate::capability: return "capability";
    case funnel_gate::match: return "match";
    case funnel_gate::prev_failures: return "prev_failures";
    case funnel_gate::capacity: return "capacity";
    case funnel_gate::exclude_if: return "exclude_if";
    case funnel_gate::strategy: return "strategy";
  }
  return "none";
}

std::string emptiness::text() const {
  return "gate[" + std::to_string(static_cast<int>(last)) + "] " + std::string(to_string(last)) + " [" + detail + "]";
}

namespace {

// Reasons counted by gate and token. Bounded: a token beyond the limit counts as `other`.
class tally {
 public:
  void add(funnel_gate gate, std::string token) {
    for (entry &e : entries_)
      if (e.gate == gate && e.token == token) {
        ++e.count;
        return;
      }
    if (entries_.size() >= limit && token != "other") return add(gate, "other");
    entries_.push_back({gate, std::move(token), 1});
  }
  emptiness result() {
    emptiness out;
    std::stable_sort(entries_.begin(), entries_.end(), [](const entry &a, const entry &b) {
      return a.gate != b.gate ? a.gate < b.gate : a.token < b.token;
    });
    for (const entry &e : entries_) {
      if (!out.detail.empty()) out.detail += ", ";
      out.detail += e.token + "=" + std::to_string(e.count);
      out.last = e.gate;
    }
    return out;
  }

 private:
  static constexpr size_t limit = 16;
  struct entry {
    funnel_gate gate;
    std::string token;
    uint32_t count;
  };
  std::vector<entry> entries_;
};

std::string strategy_id(const instance &one) {
  return one.component ? std::string(one.component->id.ptr, one.component->id.len) : "built-in";
}

// Which fields an agent violates. Custom gates are asked again, once each and only if it comes to that.
class violations {
 public:
  violations(const fleet::pool &pool, lane &where, step &s, selection &sel)
      : pool_(pool), space_(where.space), step_(s), sel_(sel), view_(pool.view()) {}

  // Sorted: "gpu_temperature_c,kv_cache_utilization"; empty = none.
  std::string of(uint32_t i) {
    std::vector<std::string_view> names;
    for (const bound_rule &r : step_.rules())
      if (scan::violated(r.bound, column_of(view_, r.column), age_of(view_, r.column), sel_.request.now_ns, i))
        names.push_back(r.field);
    if (!step_.gates().empty()) ask();
    for (size_t g = 0; g < verdicts_.size(); ++g)
      for (const auto &[bit, field] : step_.gates()[g].fields)
        if (verdicts_[g][i] >> bit & 1u) names.push_back(field);
    std::sort(names.begin(), names.end());
    std::string out;
    for (const std::string_view name : names) (out += out.empty() ? "" : ",") += name;
    return out;
  }

 private:
  void ask() {
    if (!verdicts_.empty()) return;
    scan::open_slots(pool_.slot_states(), step_.fits(pool_, sel_.capability), space_.keep.data(), view_.count);
    for (const bound_rule &r : step_.rules())
      scan::apply(r.bound, column_of(view_, r.column), age_of(view_, r.column), sel_.request.now_ns, space_.keep.data(),
                  view_.count);
    view_.eligible = space_.keep.data();
    for (const custom_gate &g : step_.gates()) {
      const bool answered = judge(g, sel_.request, view_, space_.verdicts.data());
      if (!answered) std::fill_n(space_.verdicts.data(), view_.count, step_.exclude_on_error() ? g.mask : 0u);
      verdicts_.emplace_back(space_.verdicts.data(), space_.verdicts.data() + view_.count);
    }
  }

  const fleet::pool &pool_;
  lane::buffers &space_;
  step &step_;
  selection &sel_;
  hive_pool view_;
  std::vector<std::vector<uint32_t>> verdicts_;
};

}  // namespace

emptiness explain_empty(const fleet::pool &pool, lane &where, step &s, selection &sel) {
  constexpr uint32_t large = 256;
  const bool shared = pool.count() > large && sel.failed.empty() && sel.barred.empty();
  if (shared && s.explained.made_ns && sel.request.now_ns - s.explained.made_ns < 100 * ns_per_ms)
    return {static_cast<funnel_gate>(s.explained.gate), s.explained.detail};
  tally reasons;
  where.space.fit(pool.count());
  violations gates(pool, where, s, sel);
  uint32_t members = 0;
  for (uint32_t i = 0; i < pool.count(); ++i) {
    const fleet::pool_row &row = pool.row(i);
    if (!row.who) continue;
    ++members;
    if (row.standing & ~fleet::standing_busy)
      reasons.add(funnel_gate::health, "unhealthy");
    else if (!can_do(*row.info, sel.capability))
      reasons.add(funnel_gate::capability, "capability_mismatch");
    else if (std::string token = mismatch(s.match(), *row.info); !token.empty())
      reasons.add(funnel_gate::match, std::move(token));
    else if (listed(sel.failed, row.who.get()) || listed(sel.barred, row.who.get()))
      reasons.add(funnel_gate::prev_failures, "prev_failed");
    else if (row.standing || row.active >= row.capacity)
      reasons.add(funnel_gate::capacity, "at_capacity");
    else if (std::string fields = gates.of(i); !fields.empty())
      reasons.add(funnel_gate::exclude_if, std::move(fields));
    else
      reasons.add(funnel_gate::strategy, "strategy(" + strategy_id(s.strategy()) + ")");
  }
  if (members == 0) return {funnel_gate::model_filter, "model_not_registered"};
  emptiness out = reasons.result();
  if (shared) s.explained = {sel.request.now_ns, static_cast<uint8_t>(out.last), out.detail};
  return out;
}

}  // namespace hive::routing
