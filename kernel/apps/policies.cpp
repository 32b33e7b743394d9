#include "apps/policies.hpp"

#include <utility>

#include "routing/policy_trial.hpp"
#include "tenancy/policy_quota.hpp"

namespace hive::apps {

routing::policy_judge policy_judge_of(routing::component_source &components, fleet::column_table &columns, known_providers known) {
  return [&components, &columns, known = std::move(known)](const routing::policy_document &d) -> status {
    if (d.provider)
      if (status s = known->judge(d.provider->engine); !s) return s;
    return routing::try_policy(d, components, columns);
  };
}

routing::policy_places policy_places_of(const config::router_settings &s) { return {s.policy_file, s.policy_model_dir}; }

policies::policies(const parts &p)
    : stored_(p.storage, p.control),
      library_({.routing = p.routing,
                .places = policy_places_of(p.settings),
                .rules = {p.components, policy_judge_of(p.components, p.columns, p.providers), p.settings.strict_policy},
                .check_all = [&keys = p.keys](const routing::policy_set &set) { return tenancy::check_minute_quotas(set, *keys); },
                .store = p.settings.policy_store ? &stored_ : nullptr,
                .count = [&metrics = p.metrics](std::string_view trigger, bool good) { metrics.on_policy_reload(trigger, good); },
                .changed = p.changed}) {}

status policies::fits(const tenancy::keyring &keys) const { return tenancy::check_minute_quotas(library_.now(), keys); }

}  // namespace hive::apps
