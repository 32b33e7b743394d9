// Settings of client keys' quotas. Environment names are those of the Go product.
#include "base/clock.hpp"
#include "config/router_settings.hpp"

namespace hive::config {

void add_quota_rows(table &t, router_settings &r) {
  t.section("Quotas");
  t.add("quota-backend", &r.quota_backend, "memory",
        "Where the tokens that tenants have used today are kept: memory = until the router ends; lmdb (or badger, its name in the Go product) = in "
        "the storage, where a kill loses less than a second of them.").choices({"memory", "badger", "lmdb"});
  t.add("rpm-burst-seconds", &r.rpm_burst_seconds, "0",
        "How many seconds' worth of a limit of requests a minute may come at once; 0, and 60 or more = a whole minute's.").range(0, 3600);
}

}  // namespace hive::config
