#include "apps/client_keys.hpp"

#include "base/clock.hpp"

namespace hive::apps {

tenancy::auth_document load_client_keys(const config::router_settings &settings) {
  tenancy::auth_document found;
  if (settings.auth_config_file.empty()) {
    found.keys = tenancy::keyring::open_to_all();
    return found;
  }
  found = tenancy::read_auth_file(settings.auth_config_file, {settings.strict_auth, unix_ms()});
  if (!found.keys) return found;
  const auto refuse = [&](std::string why) { found.problems.push_back(fail(errc::invalid, std::move(why), settings.auth_config_file)); };
  if (found.admin_key_required && settings.admin_keys.empty())
    refuse("admin.mode is api-key, but there is no admin key; set HIVENET_ROUTER_ADMIN_API_KEYS or --admin-api-keys-file");
  for (const std::string &key : settings.admin_keys)
    if (found.keys->find(sha256(key)) != nullptr) refuse("a client key is also an admin key; use another value");
  for (const std::string &secret : settings.secrets)
    if (found.keys->find(sha256(secret)) != nullptr) refuse("a client key is also the agents' shared secret; use another value");
  if (!found.problems.empty()) found.keys = nullptr;
  return found;
}

}  // namespace hive::apps
