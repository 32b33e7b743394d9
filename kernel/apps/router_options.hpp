// From the settings of a router to what its rooms take. Pure.
#pragma once

#include <vector>

#include "admin/api.hpp"
#include "apps/provider_settings.hpp"
#include "config/router_settings.hpp"
#include "fleet/registry.hpp"
#include "gateway/model_names.hpp"
#include "gateway/worker_context.hpp"
#include "link/router_hub.hpp"
#include "observe/audit_log.hpp"
#include "routing/router.hpp"
#include "tenancy/admission_control.hpp"

namespace hive::apps {

fleet::registry_settings registry_settings_of(const config::router_settings &);
routing::router_options router_options_of(const config::router_settings &, const known_providers &);
tenancy::admission_settings admission_settings_of(const config::router_settings &);
gateway::gateway_options gateway_options_of(const config::router_settings &, const gateway::model_names &);  // which outlive them
admin::api_options api_options_of(const config::router_settings &, const std::vector<config::admin_key> &);
// Without what is of one process or one worker: keys, boot id, number. The secrets are a copy, for whoever takes them to wipe.
link::hub_options hub_options_of(const config::router_settings &);
observe::audit_options audit_options_of(const config::router_settings &, const observe::histogram &write_seconds);

}  // namespace hive::apps
