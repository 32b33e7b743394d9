// Quotas (docs/metrics.md): what their limits refused, and, read at scrape time from the keys that there are, what they allow
// and how much of it was used. So a tenant's gauges go with its last key.
#include "admin/exporter.hpp"
#include "admin/unnamed.hpp"
#include "tenancy/admission_terms.hpp"

namespace hive::admin {

namespace {

// A registry of keys may hold tens of thousands of tenants; a page of them all would be of use to nobody.
constexpr size_t most_tenants = observe::default_max_series;
constexpr size_t most_model_rows = observe::default_max_series;  // tenants times models

}  // namespace

void exporter::count_limited(const gateway::request_record &r) {
  if (r.refused_by == "b4_rpm") tenant_rate_limited_.with({or_anonymous(r.tenant), or_anonymous(r.key_id)}).add();
  const bool minute = r.refused_by == "b4_itpm" || r.refused_by == "b4_otpm";
  const std::string_view phase = minute ? std::string_view("input") : r.token_limited;
  if (phase.empty()) return;
  tenant_token_limited_.with({or_anonymous(r.tenant), or_anonymous(r.key_id), or_unset(deployment_of(r.agent)), phase}).add();
}

void exporter::collect_quotas(observe::exposition &out) const {
  using observe::label_text;
  using usage = tenancy::quota_book::tenant_usage;
  out.family(observe::metric_kind::counter, "quota_backend_errors_total", "Records of tokens used today that could not be read or written");
  out.series("", on_.quota_store == nullptr ? uint64_t(0) : on_.quota_store->errors());
  out.family(observe::metric_kind::gauge, "admission_key_waiting_requests", "Requests that wait until another of the same key ends");
  out.series("", static_cast<uint64_t>(on_.quotas->parallel().waiting()));

  std::vector<usage> tenants = on_.quotas->usage();
  if (tenants.size() > most_tenants) tenants.resize(most_tenants);
  struct family {
    const char *name, *help;
    uint64_t (*value)(const usage &);
  };
  static constexpr family each_tenant[] = {
      {"tenant_quota_rpm_limit", "Requests a minute of a tenant's keys; 0 = no limit", [](const usage &t) { return t.requests_a_minute; }},
      {"tenant_quota_tpd_limit", "Tokens a day of a tenant's keys; 0 = no limit", [](const usage &t) { return t.tokens_a_day; }}};
  for (const family &f : each_tenant) {
    out.family(observe::metric_kind::gauge, f.name, f.help);
    for (const usage &t : tenants) out.series(label_text({"tenant_id"}, {t.tenant}), f.value(t));
  }
  out.family(observe::metric_kind::gauge, "tenant_tokens_used_today", "Tokens a tenant with a limit has used since 00:00 UTC, of all its models");
  for (const usage &t : tenants)
    if (t.counts_tokens) out.series(label_text({"tenant_id"}, {t.tenant}), t.used_today);

  const auto policies = on_.router == nullptr ? nullptr : on_.router->policies();
  out.family(observe::metric_kind::gauge, "tenant_per_model_quota_rpm_limit", "Requests a minute of a tenant to a model, of all its healthy agents");
  const auto each_model = [&tenants](const auto &tell) {
    size_t rows = 0;
    for (const usage &t : tenants) {
      if (!t.models) continue;
      for (const tenancy::model_quota &q : *t.models) {
        if (rows++ == most_model_rows) return;
        tell(label_text({"tenant_id", "model"}, {t.tenant, q.model}), q);
      }
    }
  };
  each_model([&](const std::string &labels, const tenancy::model_quota &q) {
    out.series(labels, static_cast<double>(q.requests_per_minute_per_replica) *
                           static_cast<double>(policies ? tenancy::healthy_agents(*policies, q.model) : 0));
  });
  out.family(observe::metric_kind::gauge, "tenant_per_model_quota_tpd_limit", "Tokens a day of a tenant on a model; 0 = no limit");
  each_model([&](const std::string &labels, const tenancy::model_quota &q) { out.series(labels, q.tokens_per_day); });
}

}  // namespace hive::admin
