#include "gateway/key_rules.hpp"

#include <string>

#include "tenancy/quota.hpp"

namespace hive::gateway {

api_error unauthorized(tenancy::denial why) {
  if (why == tenancy::denial::two_credentials)
    return make_error("unauthorized", "the request holds two different credentials; send one, in Authorization or in x-api-key");
  return make_error("unauthorized", "unauthorized");
}

api_error too_many_failures(uint64_t wait_s) {
  return make_error(tenancy::over_rate, "too many failed authentications from this address; this request's key was not looked at",
                    "router", wait_s);
}

std::optional<api_error> model_refusal(const tenancy::client_key &key, std::string_view model) {
  if (key.may_use(model)) return std::nullopt;
  const std::string name = "'" + std::string(model) + "'";
  if (key.per_model_quota) return make_error(tenancy::over_rate, "this key has no quota for the model " + name, "router",
                                             tenancy::no_quota_retry_s);
  return make_error("model_forbidden", "this key may not use the model " + name);
}

}  // namespace hive::gateway
