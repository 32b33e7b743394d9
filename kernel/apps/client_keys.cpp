#include "apps/client_keys.hpp"

#include <algorithm>

#include "base/clock.hpp"

namespace hive::apps {

std::vector<digest32> hashes_of(const std::vector<std::string> &secrets) {
  std::vector<digest32> out;
  for (const std::string &secret : secrets) out.push_back(sha256(secret));
  return out;
}

status keys_apart(const tenancy::keyring &keys, const std::vector<config::admin_key> &admin_keys, const std::vector<digest32> &secrets) {
  if (keys.mode() == tenancy::auth_mode::none) return {};
  for (const config::admin_key &key : admin_keys)
    if (keys.find(key.hash) != nullptr) return fail(errc::invalid, "a client key is also an admin key; use another value");
  for (const digest32 &secret : secrets)
    if (keys.find(secret) != nullptr) return fail(errc::invalid, "a client key is also the agents' shared secret; use another value");
  return {};
}

status admin_keys_apart(const std::vector<config::admin_key> &admin_keys, const std::vector<digest32> &secrets) {
  for (const config::admin_key &key : admin_keys)
    if (std::any_of(secrets.begin(), secrets.end(), [&](const digest32 &one) { return equal_secret(one, key.hash); }))
      return fail(errc::invalid, "an admin key is also the agents' shared secret; use another value");
  return {};
}

tenancy::auth_document load_client_keys(const config::router_settings &settings, const std::vector<config::admin_key> &admin_keys,
                                        const std::vector<digest32> &secrets) {
  tenancy::auth_document found;
  const std::string &file = settings.auth_config_file;
  if (!file.empty()) {
    found = tenancy::read_auth_file(file, {settings.strict_auth, unix_ms()});
    if (!found.keys) return found;
  } else if (settings.dynamic_keys) {
    found.keys = tenancy::keyring::of({}, tenancy::auth_mode::dynamic);
    found.admin_key_required = true;
  } else {
    found.keys = tenancy::keyring::open_to_all();
  }
  const std::string place = file.empty() ? "HIVENET_ROUTER_AUTH_MODE" : file;
  const bool dynamic = found.keys->mode() == tenancy::auth_mode::dynamic;
  if (found.admin_key_required && admin_keys.empty())
    found.problems.push_back(fail(errc::invalid, std::string(dynamic ? "api.mode is dynamic" : "admin.mode is api-key") +
                                                     ", but there is no admin key; set HIVENET_ROUTER_ADMIN_API_KEYS or --admin-api-keys-file", place));
  if (const status s = keys_apart(*found.keys, admin_keys, secrets); !s) found.problems.push_back(s.at(place));
  if (!found.problems.empty()) found.keys = nullptr;
  return found;
}

}  // namespace hive::apps
