#include "tenancy/admission_terms.hpp"

#include <algorithm>
#include <mutex>

#include "fleet/pool.hpp"
#include "routing/pressure.hpp"

namespace hive::tenancy {

namespace {

uint64_t usable_agents(const fleet::pool &pool) {
  const std::lock_guard held(pool.mutex());
  const uint8_t *states = pool.slot_states();
  uint64_t usable = 0;
  for (uint32_t i = 0; i < pool.count(); ++i) usable += states[i] & 1u;
  return usable;
}

uint64_t count_of(int64_t limit) { return limit > 0 ? static_cast<uint64_t>(limit) : 0; }

}  // namespace

uint64_t healthy_agents(const routing::snapshot &now, std::string_view model) {
  const auto route = now.route_for(model);
  return route ? usable_agents(*route->where->pool) : 0;
}

admission_terms terms_of(const routing::snapshot &now, std::string_view model, uint64_t now_ns) {
  const auto route = now.route_for(model);
  const routing::policy_document &d = route ? *route->document : *now.document_for(model);
  admission_terms t;
  t.known = route != nullptr || !d.name.empty();  // a document names it: a provider may serve it without any agent
  t.max_input_tokens = count_of(d.max_input_tokens);
  t.images_max = count_of(d.images_max);
  t.budget_tokens = count_of(d.admit_budget_tokens);
  t.max_inflight = count_of(d.max_inflight);
  t.serverless = d.mode == "serverless";
  if (!route) return t;
  if (t.budget_tokens != 0 || t.max_inflight != 0) t.replicas = std::max<uint64_t>(1, usable_agents(*route->where->pool));
  if (route->shed) t.pressed = route->shed->violated(*route->where->pool, now_ns);
  return t;
}

}  // namespace hive::tenancy
