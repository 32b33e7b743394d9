// The quotas of a router process: opened when the storage is, told the keys at each load.
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "apps/router_app.hpp"
#include "base/clock.hpp"
#include "observe/log.hpp"

namespace hive::apps {

// Before anybody is served. A storage that does not answer keeps nobody out.
void router_app::open_quotas(const std::shared_ptr<const tenancy::keyring> &keys) {
  tenancy::quota_settings q;
  q.rpm_burst_seconds = static_cast<uint64_t>(settings_.rpm_burst_seconds);
  q.most_waiting = static_cast<size_t>(settings_.queue_depth);
  quotas_ = std::make_unique<tenancy::quota_book>(q, clock_);
  quotas_->set_keys(keys);
  if (settings_.quota_backend == "memory") return;
  if (settings_.storage == "memory")
    observe::log("storage").warn("--quota-backend {} keeps nothing over a restart with --storage memory", settings_.quota_backend);
  quota_store_ = std::make_unique<tenancy::quota_store>(*storage_, quotas_->days(), clock_);
  quota_store_->load();
}

// Whenever there are other keys. The series of tenants without any go.
void router_app::set_quota_keys(const std::shared_ptr<const tenancy::keyring> &keys) {
  std::set<std::string_view> gone;
  const auto before = quotas_->keys();
  for (const tenancy::client_key &key : before->keys()) gone.insert(key.tenant);
  for (const tenancy::client_key &key : keys->keys()) {
    gone.erase(key.tenant);
    if (const auto back = gone_tenants_.find(key.tenant); back != gone_tenants_.end()) gone_tenants_.erase(back);
  }
  const uint64_t ended_ns = now_ns() + settings_.request_timeout.ns + settings_.stream_timeout.ns;
  for (const std::string_view tenant : gone) {
    exporter_.forget_tenant(tenant);
    gone_tenants_[std::string(tenant)] = ended_ns;
  }
  quotas_->set_keys(keys);
}

// Once more, when nothing is left of them: requests that were under way have brought their series back as they ended.
void router_app::forget_gone_tenants(uint64_t now) {
  std::erase_if(gone_tenants_, [&](const auto &each) {
    if (now < each.second) return false;
    exporter_.forget_tenant(each.first);
    return true;
  });
}

}  // namespace hive::apps
