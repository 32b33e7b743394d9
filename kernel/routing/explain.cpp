#include "routing/explain.hpp"

#include <algorithm>
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

std::string change_for(const agent_fate &a, const fleet::pool_row &row, std::string_view capability) {
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
    case funnel_gate::model_filter:
    case funnel_gate::prev_failures: break;
  }
  return {};
}

class explained_step {
 public:
  explained_step(const route &of, step &s, const request_facts &facts, const fleet::column_table &columns)
      : lane_(*of.where), pool_(*lane_.pool), step_(s), columns_(columns) {
    sel_.request = request_of(facts, of.needs());
    sel_.capability = {sel_.request.capability.ptr, sel_.request.capability.len};
    sel_.request.now_ns = now_ns();
  }

  // Requires: the pool's lock.
  step_fate look() {
    step_fate out;
    out.name = step_.name();
    out.strategy = strategy_id(step_.strategy());
    out.max_tries = step_.max_tries();
    const uint32_t n = pool_.count();
    lane_.space.fit(n);
    sel_.request.tie_seed = step_.strategy().leases;
    fates judged(pool_, lane_, step_, sel_);
    std::vector<row_fate> rows(n);
    std::vector<uint32_t> candidates;
    bool full = false;
    for (uint32_t i = 0; i < n; ++i) {
      if (!pool_.row(i).who) continue;
      rows[i] = judged.of(i);
      if (rows[i].gate == funnel_gate::none) candidates.push_back(i);
      full = full || rows[i].gate == funnel_gate::capacity;
    }
    out.candidates = static_cast<uint32_t>(candidates.size());
    const strategy_answer answer = ask(judged.view(), candidates);
    const bool nobody = answer.index == nowhere;
    if (nobody)
      for (const uint32_t i : candidates) rows[i] = {funnel_gate::strategy, "strategy(" + out.strategy + ")"};
    out.would_wait = nobody && full;
    if (nobody) {
      const step::explanation before = std::exchange(step_.explained, {});  // what live requests share is not ours to write
      out.empty = explain_empty(pool_, lane_, step_, sel_).text();
      step_.explained = before;
    }
    for (uint32_t i = 0; i < n; ++i) {
      if (!pool_.row(i).who) continue;
      if (out.agents.size() >= most_explained_agents && i != answer.index) {
        ++out.left_out;
        continue;
      }
      out.agents.push_back(tell(judged, i, std::move(rows[i])));
      agent_fate &a = out.agents.back();
      a.chosen = i == answer.index;
      if (answer.scored && a.stopped == funnel_gate::none) a.score = scores_[i];
    }
    return out;
  }

 private:
  strategy_answer ask(const hive_pool &seen, const std::vector<uint32_t> &candidates) {
    if (candidates.empty()) return {};
    hive_pool view = seen;
    std::fill_n(lane_.space.keep.data(), view.count, uint8_t{0});
    for (const uint32_t i : candidates) lane_.space.keep[i] = 1;
    view.eligible = lane_.space.keep.data();
    view.candidates = candidates.data();
    view.candidate_count = static_cast<uint32_t>(candidates.size());
    const strategy_answer answer = ask_strategy(step_.strategy(), sel_.request, view, lane_.space, hive_column_at(&view, step_.load()));
    if (answer.scored) scores_.assign(lane_.space.scores.data(), lane_.space.scores.data() + view.count);
    return answer;
  }

  agent_fate tell(fates &judged, uint32_t i, row_fate &&fate) {
    const fleet::pool_row &row = pool_.row(i);
    agent_fate a;
    a.peer_id = row.who->peer_id();
    a.machine = row.info->machine;
    a.active = row.active;
    a.capacity = row.capacity;
    a.stopped = fate.gate;
    a.token = std::move(fate.token);
    for (const bound_rule &r : step_.rules())
      a.rules.push_back({r.field, columns_.name(r.column), r.bound, step_.thresholds().judge(r, judged.view(), sel_.request.now_ns, i)});
    if (a.stopped == funnel_gate::exclude_if)
      for (const std::string_view field : judged.violated(i))
        if (std::none_of(a.rules.begin(), a.rules.end(), [&](const rule_fate &r) { return r.field == field; })) a.custom.emplace_back(field);
    a.change = change_for(a, row, sel_.capability);
    return a;
  }

  lane &lane_;
  fleet::pool &pool_;
  step &step_;
  const fleet::column_table &columns_;
  selection sel_;
  std::vector<double> scores_;
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
    const std::lock_guard lock(found->where->pool->mutex());
    out.steps.push_back(one.look());
  }
  for (size_t i = 0; i < out.steps.size() && !out.serves; ++i)
    if (out.steps[i].empty.empty() || out.steps[i].would_wait) out.serves = i;
  return out;
}

}  // namespace hive::routing
