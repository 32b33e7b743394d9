// The client keys that a router's settings lead to, and what they must not share with its other secrets. Control thread.
#pragma once

#include <string>
#include <vector>

#include "base/digest.hpp"
#include "config/router_settings.hpp"
#include "tenancy/auth_file.hpp"

namespace hive::apps {

// Without an auth.yaml everybody may use the client API, or nobody until keys come through the admin API. `keys` is null when there are
// problems: nothing may start or change. `admin_keys` and `secrets` are those that would hold beside it.
tenancy::auth_document load_client_keys(const config::router_settings &, const std::vector<config::admin_key> &admin_keys,
                                        const std::vector<digest32> &secrets);

// The secrets shared with the agents, as what they are compared by.
std::vector<digest32> hashes_of(const std::vector<std::string> &secrets);

// No value may serve two roles: a client key that is an admin key or the agents' secret is refused, and so is an admin key that is
// the secret.
status keys_apart(const tenancy::keyring &, const std::vector<config::admin_key> &admin_keys, const std::vector<digest32> &secrets);
status admin_keys_apart(const std::vector<config::admin_key> &, const std::vector<digest32> &secrets);

}  // namespace hive::apps
