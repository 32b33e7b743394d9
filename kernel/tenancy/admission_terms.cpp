#include "tenancy/admission_terms.hpp"

#include <algorithm>

#include "fleet/pool.hpp"
#include "routing/pressure.hpp"

namespace hive::tenancy {

namespace {

uint64_t count_of(int64_t limit) { return limit > 0 ? static_cast<uint64_t>(limit) : 0; }

}  // namespace

uint64_t healthy_agents(const routing::snapshot &now, std::string_view model) {
  const auto route = now.route_for(model);
  return route ? route->where->pool->usable_members() : 0;
}

admission_terms terms_of(const routing::governed &by, uint64_t now_ns) {
  const auto &route = by.way;
  const routing::policy_document &d = *by.document;
  admission_terms t;
  t.known = route != nullptr || !d.name.empty();  // a document names it: a provider may serve it without any agent
  // The global document's provider serves any name. All of them count as one model, so that callers cannot get a budget a name.
  if (!t.known && d.provider) {
    t.known = true;
    t.counted_as = "provider:" + d.provider->engine;
  }
  t.max_input_tokens = count_of(d.max_input_tokens);
  t.images_max = count_of(d.images_max);
  t.budget_tokens = count_of(d.admit_budget_tokens);
  t.max_inflight = count_of(d.max_inflight);
  t.serverless = d.mode == "serverless";
  if (!route) return t;
  if (t.budget_tokens != 0 || t.max_inflight != 0) t.replicas = std::max<uint64_t>(1, route->where->pool->usable_members());
  if (route->shed) t.pressed = route->shed->violated(*route->where->pool, now_ns);
  return t;
}

void review_parked(admission_control &control, const routing::snapshot &now, uint64_t now_ns) {
  for (const std::string &model : control.room().crowded()) control.review(model, terms_of(now, model, now_ns));
}

}  // namespace hive::tenancy
