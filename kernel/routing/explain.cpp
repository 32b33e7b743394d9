#include "routing/explain.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "base/clock.hpp"
#include "base/number_text.hpp"
#include "base/text.hpp"
#include "routing/fate.hpp"
#include "routing/instance.hpp"
#include "routing/strategy_call.hpp"

namespace hive::routing {

namespace {

std::string standing_text(uint32_t standing) {
  static constexpr std::pair<uint32_t, std::string_view> names[] = {
      {fleet::standing_unlinked, "all its links must be up"},
      {fleet::standing_silent, "its heartbeats must come again"},
      {fleet::standing_engine_down, "its engine must answer"},
      {fleet::standing_draining, "it drains: the drain must be revoked"},
      {fleet::standing_removed, "it must register again"},
      {fleet::standing_expired, "its session must be renewed"}};
  std::string out;
  for (const auto &[bit, words] : names)
    if (standing & bit) (out += out.empty() ? "" : ", ") += words;
  return out;
}

std::string rule_text(const rule_fate &r) {
  if (r.now.missing) {
    if (r.now.age_ns > 0 && r.bound.max_age_ns > 0)
      return r.column + " must be younger than " + format_duration(r.bound.max_age_ns);
    return r.column + " must be published (on_missing: exclude)";
  }
  return r.column + " must not be " + std::string(to_string(r.bound.op)) + " " + shortest(r.now.limit) + " (it is " + shortest(r.now.value) +
         (r.now.kept_out ? "; kept out until it is past leave)" : ")");
}

// A row as it was under the lock.
struct seen_row {
  std::shared_ptr<const fleet::agent> who;
  std::shared_ptr<const fleet::agent_info> info;
  uint32_t index = 0, active = 0, capacity = 0, standing = 0;
  funnel_gate gate = funnel_gate::none;
  bool chosen = false;
  std::optional<double> score;
  uint64_t probe_in_ns = 0;   // it was left for others: its probe is due then
};

std::string change_for(const agent_fate &a, const seen_row &row, std::string_view capability) {
  switch (a.stopped) {
    case funnel_gate::health: return standing_text(row.standing & ~fleet::standing_busy);
    case funnel_gate::capability:
      return "it serves " + row.info->capability + " requests, this one needs " + std::string(capability);
    case funnel_gate::match: return "it must match the step: " + a.token;
    case funnel_gate::capacity:
      if (row.standing & fleet::standing_busy) return "it refused as busy: its next answer to a ping must show a free slot";
      return "one of its " + std::to_string(row.capacity) + " slots must get free";
    case funnel_gate::exclude_if: {
      std::string out;
      for (const rule_fate &r : a.rules)
        if (r.now.violated) (out += out.empty() ? "" : ", ") += rule_text(r);
      for (const std::string &field : a.custom) (out += out.empty() ? "" : ", ") += "gate field " + field + " must pass";
      return out;
    }
    case funnel_gate::strategy: return "the strategy must choose somebody";
    case funnel_gate::none:
      if (!a.left) break;
      return "on probation: its next probe must be due (in " + std::to_string((row.probe_in_ns + ns_per_ms - 1) / ns_per_ms) +
             " ms), or nobody else be a candidate";
    case funnel_gate::model_filter:
    case funnel_gate::prev_failures: break;
  }
  return {};
}

// One step: look with the lock, then tell without it. A thousand agents' texts take longer than anybody may wait for the lock.
class explained_step {
 public:
  explained_step(const route &of, step &s, const request_facts &facts, const fleet::column_table &columns)
      : lane_(*of.where), pool_(*lane_.pool), step_(s), columns_(columns), judged_(pool_, lane_, step_, sel_) {
    sel_.request = request_of(facts, of.needs());
    sel_.kind = kind_of(facts);
    sel_.capability = {sel_.request.capability.ptr, sel_.request.capability.len};
    sel_.request.now_ns = now_ns();
  }

  // Requires: the pool's lock.
  void look() {
    const uint32_t n = pool_.count();
    lane_.space.fit(n);
    sel_.request.tie_seed = step_.strategy().leases;
    judged_.see();
    rows_.reserve(n);
    states_.reserve(size_t{n} * rules().size());
    for (uint32_t i = 0; i < n; ++i) {
      const fleet::pool_row &row = pool_.row(i);
      if (!row.who) continue;
      rows_.push_back({row.who, row.info, i, row.active, row.capacity, row.standing, judged_.gate_of(i), false, {}});
      for (const bound_rule &r : rules()) states_.push_back(threshold_rules::judge(r, judged_.view(), sel_.request.now_ns, i));
      if (rows_.back().gate == funnel_gate::none) candidates_.push_back(i);
    }
    ask();
  }

  step_fate tell() const {
    step_fate out;
    out.name = step_.name();
    out.strategy = strategy_id(step_.strategy());
    out.max_tries = step_.max_tries();
    out.candidates = static_cast<uint32_t>(candidates_.size());
    std::vector<row_fate> all;
    bool served = false;
    for (size_t at = 0; at < rows_.size(); ++at) {
      const seen_row &row = rows_[at];
      served = served || row.chosen;
      out.would_wait = out.would_wait || row.gate == funnel_gate::capacity;
      all.push_back({row.gate, token(at)});
      if (out.agents.size() >= most_explained_agents && !row.chosen) ++out.left_out;
      else out.agents.push_back(tell(at, all.back().token));
    }
    out.would_wait = out.would_wait && !served;
    if (!served) out.empty = emptiness_of(std::move(all)).text();
    return out;
  }

 private:
  void ask() {
    strategy_answer answer;
    if (!candidates_.empty()) {
      hive_pool view = judged_.view();
      std::fill_n(lane_.space.keep.data(), view.count, uint8_t{0});
      for (const uint32_t i : candidates_) lane_.space.keep[i] = 1;
      leave_some();
      view.eligible = lane_.space.keep.data();
      view.candidates = candidates_.data();
      view.candidate_count = static_cast<uint32_t>(candidates_.size());
      answer = ask_strategy(step_.strategy(), sel_.request, view, lane_.space, hive_column_at(&view, step_.load()));
    }
    for (seen_row &row : rows_) {
      if (row.gate != funnel_gate::none) continue;
      row.chosen = row.index == answer.index;
      if (answer.index == nowhere) row.gate = funnel_gate::strategy;
      else if (answer.scored && row.probe_in_ns == 0) row.score = lane_.space.scores[row.index];
    }
  }

  // As the funnel does it: those on probation are not candidates as long as somebody else is.
  void leave_some() {
    uint8_t *keep = lane_.space.keep.data();
    const uint64_t now = sel_.request.now_ns;
    if (leave_suspects(pool_, now, keep, lane_.space.marks.data(), static_cast<uint32_t>(candidates_.size())) == candidates_.size()) return;
    std::erase_if(candidates_, [keep](uint32_t i) { return keep[i] == 0; });
    for (seen_row &row : rows_)
      if (row.gate == funnel_gate::none && keep[row.index] == 0)
        row.probe_in_ns = std::max(row.who->probe_at_ns.load(std::memory_order_relaxed), now + 1) - now;
  }

  std::string token(size_t at) const {
    const seen_row &row = rows_[at];
    switch (row.gate) {
      case funnel_gate::match: return mismatch(step_.match(), *row.info);
      case funnel_gate::strategy: return "strategy(" + strategy_id(step_.strategy()) + ")";
      case funnel_gate::exclude_if: {
        std::vector<std::string_view> fields = judged_.custom_violated(row.index);
        for (size_t r = 0; r < rules().size(); ++r)
          if (state(at, r).violated) fields.push_back(rules()[r].field);
        return joined(std::move(fields));
      }
      default: return std::string(token_of(row.gate));
    }
  }

  agent_fate tell(size_t at, const std::string &words) const {
    const seen_row &row = rows_[at];
    agent_fate a;
    a.peer_id = row.who->peer_id();
    a.machine = row.info->machine;
    a.active = row.active;
    a.capacity = row.capacity;
    a.stopped = row.gate;
    a.token = words;
    a.chosen = row.chosen;
    a.left = row.gate == funnel_gate::none && row.probe_in_ns != 0;
    a.score = row.score;
    for (size_t r = 0; r < rules().size(); ++r) {
      const bound_rule &rule = rules()[r];
      a.rules.push_back({rule.field, columns_.name(rule.column), rule.bound, state(at, r)});
    }
    if (row.gate == funnel_gate::exclude_if)
      for (const std::string_view field : judged_.custom_violated(row.index)) a.custom.emplace_back(field);
    a.change = change_for(a, row, sel_.capability);
    return a;
  }

  const std::vector<bound_rule> &rules() const { return step_.rules(sel_.kind); }
  const threshold_rules::state &state(size_t at, size_t rule) const { return states_[at * rules().size() + rule]; }

  lane &lane_;
  fleet::pool &pool_;
  step &step_;
  const fleet::column_table &columns_;
  selection sel_;
  fates judged_;
  std::vector<seen_row> rows_;
  std::vector<threshold_rules::state> states_;   // of each row, rule by rule
  std::vector<uint32_t> candidates_;
};

}  // namespace

explanation explain(const snapshot &now, const request_facts &facts, const fleet::column_table &columns) {
  explanation out;
  const auto found = now.route_for(facts.model);
  const auto &document = found ? found->document : now.document_for(facts.model);
  out.known = found != nullptr;
  out.policy = document->name;
  out.built_in = document->built_in;
  if (!found) return out;
  for (const auto &s : found->steps) {
    explained_step one(*found, *s, facts, columns);
    {
      const std::lock_guard lock(found->where->pool->mutex());
      one.look();
    }
    out.steps.push_back(one.tell());
  }
  for (size_t i = 0; i < out.steps.size() && !out.serves; ++i)
    if (out.steps[i].empty.empty() || out.steps[i].would_wait) out.serves = i;
  return out;
}

}  // namespace hive::routing
