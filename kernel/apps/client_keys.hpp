// The client keys that a router's settings lead to, and what they must not share with its other secrets. Control thread.
#pragma once

#include "config/router_settings.hpp"
#include "tenancy/auth_file.hpp"

namespace hive::apps {

// Without an auth.yaml everybody may use the client API. `keys` is null when there are problems: nothing may start or change.
tenancy::auth_document load_client_keys(const config::router_settings &);

}  // namespace hive::apps
