#include "routing/unpublished.hpp"

#include "routing/router.hpp"

namespace hive::routing {

void unpublished_columns::look_at(const route &r, uint64_t now_ns, found &out) {
  const fleet::pool &pool = *r.where->pool;
  const std::lock_guard lock(pool.mutex());
  const auto note = [&](hive_column id, const auto &reader) {
    if (id != 0 && pool.quiet_ns(id, now_ns) >= patience_ns) out.emplace(std::pair(pool.model(), id), reader());
  };
  const auto note_all = [&](const instance &one) {
    if (!one.plugin) return;
    for (const hive_column id : one.plugin->columns()) note(id, [&] { return one.name; });
  };
  for (const auto &each : r.steps) {
    for (const bound_rule &rule : each->rules())
      note(rule.column, [&] { return "field '" + rule.field + "' of step '" + each->name() + "'"; });
    for (const custom_gate &gate : each->gates()) note_all(*gate.gate);
    note_all(each->strategy());
  }
}

void unpublished_columns::look(const snapshot &of, const fleet::column_table &columns, uint64_t now_ns, outcome_recorder &log) {
  found quiet;
  for (const auto &[model, one] : of.routes()) look_at(*one, now_ns, quiet);
  if (quiet.empty() && told_.empty()) return;
  std::vector<unpublished_column> list;
  for (const auto &[where, reader] : quiet) {
    list.push_back({where.first, columns.name(where.second), reader});
    if (!told_.contains(where))
      log.warn("no agent of model '" + where.first + "' has published '" + list.back().column + "' for " +
               std::to_string(patience_ns / ns_per_s) + " s, which " + reader +
               " reads: it counts as missing. Their engines may not have it, or their agents cannot read it");
  }
  told_ = std::move(quiet);
  const std::lock_guard lock(mutex_);
  now_ = std::move(list);
}

std::vector<unpublished_column> unpublished_columns::list() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

}  // namespace hive::routing
