// The quotas of a router process: opened when the storage is, told the keys at each load.
#include <set>
#include <string_view>

#include "apps/router_app.hpp"
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
  for (const tenancy::client_key &key : keys->keys()) gone.erase(key.tenant);
  for (const std::string_view tenant : gone) exporter_.forget_tenant(tenant);
  quotas_->set_keys(keys);
}

}  // namespace hive::apps
