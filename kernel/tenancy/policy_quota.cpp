#include "tenancy/policy_quota.hpp"

#include <algorithm>

namespace hive::tenancy {

namespace {

bool reaches(const client_key &key, const routing::policy_document &d) {
  return d.name.empty() || key.models.empty() ||
         std::any_of(d.models.begin(), d.models.end(), [&](const std::string &model) { return key.may_use(model); });
}

status check(const routing::held_policy &held, const keyring &keys) {
  if (!held.document) return {};
  const routing::policy_document &d = *held.document;
  if (d.mode != "serverless" || d.max_input_tokens <= 0) return {};
  const auto most = static_cast<uint64_t>(d.max_input_tokens);
  for (const client_key &key : keys.keys()) {
    if (key.input_tokens_per_minute == 0 || key.input_tokens_per_minute >= most || !reaches(key, d)) continue;
    const std::string policy = d.name.empty() ? "the global policy" : "policy document '" + d.name + "'";
    return fail(errc::invalid, "quota.input_tokens_per_minute of key " + (key.preview.empty() ? key.id : key.preview) + " is " +
                                   std::to_string(key.input_tokens_per_minute) + ", less than the max_input_tokens " + std::to_string(most) +
                                   " of " + policy + " that the key reaches: a prompt of that length could never be served; raise the one or lower the other");
  }
  return {};
}

}  // namespace

status check_minute_quotas(const routing::policy_set &set, const keyring &keys) {
  if (status s = check(set.global, keys); !s) return s;
  for (const auto &[name, held] : set.named)
    if (status s = check(held, keys); !s) return s;
  return {};
}

}  // namespace hive::tenancy
