#include "routing/fate.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "routing/scan.hpp"
#include "routing/strategy_call.hpp"

namespace hive::routing {

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

}  // namespace

fates::fates(const fleet::pool &pool, lane &where, step &s, const selection &sel)
    : pool_(pool), space_(where.space), step_(s), sel_(sel) {}

std::string_view token_of(funnel_gate g) {
  switch (g) {
    case funnel_gate::model_filter: return "model_not_registered";
    case funnel_gate::health: return "unhealthy";
    case funnel_gate::capability: return "capability_mismatch";
    case funnel_gate::prev_failures: return "prev_failed";
    case funnel_gate::capacity: return "at_capacity";
    case funnel_gate::none:
    case funnel_gate::match:
    case funnel_gate::exclude_if:
    case funnel_gate::strategy: break;
  }
  return {};
}

std::string joined(std::vector<std::string_view> fields) {
  std::sort(fields.begin(), fields.end());
  std::string out;
  for (const std::string_view name : fields) (out += out.empty() ? "" : ",") += name;
  return out;
}

funnel_gate fates::gate_of(uint32_t i) {
  const fleet::pool_row &row = pool_.row(i);
  if (row.standing & ~fleet::standing_busy) return funnel_gate::health;
  if (!can_do(*row.info, sel_.capability)) return funnel_gate::capability;
  if (!matches(step_.match(), *row.info)) return funnel_gate::match;
  if (listed(sel_.failed, row.who.get()) || listed(sel_.barred, row.who.get())) return funnel_gate::prev_failures;
  if (row.standing || row.active >= row.capacity) return funnel_gate::capacity;
  return passes(i) ? funnel_gate::none : funnel_gate::exclude_if;
}

row_fate fates::of(uint32_t i) {
  const funnel_gate gate = gate_of(i);
  if (gate == funnel_gate::match) return {gate, mismatch(step_.match(), *pool_.row(i).info)};
  if (gate != funnel_gate::exclude_if) return {gate, std::string(token_of(gate))};
  std::vector<std::string_view> fields = custom_violated(i);
  for (const bound_rule &r : step_.rules(sel_.kind))
    if (threshold_rules::judge(r, view_, sel_.request.now_ns, i).violated) fields.push_back(r.field);
  return {gate, joined(std::move(fields))};
}

bool fates::passes(uint32_t i) {
  if (!step_.gates().empty()) ask_gates();
  for (const bound_rule &r : step_.rules(sel_.kind))
    if (threshold_rules::judge(r, view_, sel_.request.now_ns, i).violated) return false;
  for (size_t g = 0; g < verdicts_.size(); ++g)
    if (verdicts_[g][i] & step_.gates()[g].mask) return false;
  return true;
}

std::vector<std::string_view> fates::custom_violated(uint32_t i) const {
  std::vector<std::string_view> names;
  for (size_t g = 0; g < verdicts_.size(); ++g)
    for (const auto &[bit, field] : step_.gates()[g].fields)
      if (verdicts_[g][i] >> bit & 1u) names.push_back(field);
  return names;
}

// Once each, and only if it comes to that.
void fates::ask_gates() {
  if (!verdicts_.empty()) return;
  scan::open_slots(pool_.slot_states(), step_.fits(pool_, sel_.capability), space_.keep.data(), view_.count);
  for (const bound_rule &r : step_.rules(sel_.kind))
    for (uint32_t i = 0; i < view_.count; ++i)
      space_.keep[i] &= static_cast<uint8_t>(!threshold_rules::judge(r, view_, sel_.request.now_ns, i).violated);
  view_.eligible = space_.keep.data();
  for (const custom_gate &g : step_.gates()) {
    const bool answered = ask_gate(g, sel_.request, view_, space_.verdicts.data());
    if (!answered) std::fill_n(space_.verdicts.data(), view_.count, step_.exclude_on_error() ? g.mask : 0u);
    verdicts_.emplace_back(space_.verdicts.data(), space_.verdicts.data() + view_.count);
  }
}

emptiness emptiness_of(std::vector<row_fate> all) {
  if (all.empty()) return {funnel_gate::model_filter, std::string(token_of(funnel_gate::model_filter))};
  tally reasons;
  for (row_fate &each : all) reasons.add(each.gate, std::move(each.token));
  return reasons.result();
}

emptiness explain_empty(const fleet::pool &pool, lane &where, step &s, selection &sel) {
  constexpr uint32_t large = 256;
  // Custom gates, and strategies that choose nobody, may judge by anything of the request.
  const bool shared = pool.count() > large && sel.failed.empty() && sel.barred.empty() && s.gates().empty();
  if (shared) {
    const step::explanation &last = s.explained(sel.capability);
    if (last.made_ns && last.kind == sel.kind && sel.request.now_ns - last.made_ns < 100 * ns_per_ms)
      return {static_cast<funnel_gate>(last.gate), last.detail};
  }
  where.space.fit(pool.count());
  fates judged(pool, where, s, sel);
  judged.see();
  tally reasons;
  uint32_t members = 0;
  for (uint32_t i = 0; i < pool.count(); ++i) {
    if (!pool.row(i).who) continue;
    ++members;
    row_fate fate = judged.of(i);
    if (fate.gate == funnel_gate::none) fate = {funnel_gate::strategy, "strategy(" + strategy_id(s.strategy()) + ")"};
    reasons.add(fate.gate, std::move(fate.token));
  }
  if (members == 0) return emptiness_of({});
  emptiness out = reasons.result();
  if (shared && out.last != funnel_gate::strategy)
    s.explained(sel.capability) = {sel.request.now_ns, sel.kind, static_cast<uint8_t>(out.last), out.detail};
  return out;
}

}  // namespace hive::routing
