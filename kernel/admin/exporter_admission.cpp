// Admission's gauges, read at scrape time: what each model's requests hold of its budget.
#include "admin/exporter.hpp"

namespace hive::admin {

void exporter::collect_admission(observe::exposition &out) const {
  struct family {
    const char *name, *help;
    uint64_t (*value)(const tenancy::occupancy::row &);
  };
  using row = tenancy::occupancy::row;
  static constexpr family each_model[] = {
      {"admission_occupancy_tokens", "Tokens that a model's requests in flight hold", [](const row &r) { return r.tokens; }},
      {"admission_inflight_requests", "Requests that hold some of a model's budget", [](const row &r) { return r.requests; }},
      {"admission_budget_tokens", "Tokens they may hold together; 0 = no limit", [](const row &r) { return r.bounds.tokens; }},
      {"admission_max_inflight", "As many such requests may be in flight; 0 = no limit", [](const row &r) { return r.bounds.requests; }},
      {"admission_parked_requests", "Requests that wait for room in a model's budget", [](const row &r) { return r.parked; }}};
  const auto rows = on_.admission->room().rows();
  for (const family &f : each_model) {
    out.family(observe::metric_kind::gauge, f.name, f.help);
    for (const row &r : rows) out.series(observe::label_text({"model"}, {r.model}), f.value(r));
  }
}

}  // namespace hive::admin
