#include "routing/pressure.hpp"

#include <cmath>

#include "base/number_text.hpp"
#include "routing/scan.hpp"

namespace hive::routing {

std::optional<double> mean_signal(const fleet::pool &pool, hive_column column) {
  double sum = 0;
  uint32_t reported = 0;
  for (uint32_t i = 0; i < pool.count(); ++i) {
    if (!pool.row(i).usable()) continue;
    const double v = pool.value(column, i);
    if (std::isnan(v)) continue;
    sum += v;
    ++reported;
  }
  if (reported == 0) return std::nullopt;
  return sum / reported;
}

result<std::shared_ptr<const pressure>> pressure::compile(const policy_document &document, const component_catalog &catalog,
                                                          fleet::column_table &columns) {
  if (document.shed_if.empty()) return std::shared_ptr<const pressure>();
  auto made = std::make_shared<pressure>();
  for (const field_rule &r : document.shed_if) {
    const auto served = catalog.field(r.field);
    if (!served) return fail(errc::not_found, "no enabled plugin serves field '" + r.field + "'", "shed_if");
    const hive_str name = served->field->column;
    if (!r.bound || name.len == 0) return fail(errc::invalid, "field '" + r.field + "' has no signal to take the mean of", "shed_if");
    const hive_column column = columns.intern({name.ptr, name.len});
    if (column == 0) return fail(errc::exhausted, "field '" + r.field + "': the router's limit of signal names is reached", "shed_if");
    made->rules_.push_back({column, *r.bound, r.field + " " + std::string(to_string(r.bound->op)) + " " + shortest(r.bound->limit)});
  }
  return std::shared_ptr<const pressure>(std::move(made));
}

std::string pressure::violated(const fleet::pool &pool, uint64_t now_ns) const {
  const std::lock_guard guard(mutex_);
  if (now_ns >= until_ns_) {
    found_ = nullptr;
    const std::lock_guard held(pool.mutex());
    for (const rule &r : rules_) {
      const auto mean = mean_signal(pool, r.column);
      if (!mean || !scan::holds_at(r.bound.op, *mean, r.bound.limit)) continue;
      found_ = &r;
      break;
    }
    until_ns_ = now_ns + keep_ns;
  }
  return found_ == nullptr ? std::string() : found_->words;
}

}  // namespace hive::routing
