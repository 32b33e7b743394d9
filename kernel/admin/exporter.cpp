#include "admin/exporter.hpp"

#include <algorithm>

#include "admin/unnamed.hpp"
#include "hive/abi/base.h"

namespace hive::admin {

namespace {

constexpr const char *methods[] = {"GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"};

const char *method_label(std::string_view method) {
  for (const char *m : methods)
    if (method == m) return m;
  return "OTHER";
}

constexpr size_t most_served_series = 4096;

std::string abi_text() { return std::to_string(HIVE_ABI_MAJOR) + "." + std::to_string(HIVE_ABI_MINOR); }

}  // namespace

exporter::exporter(const std::string &version)
    : process_({version, "", __VERSION__, abi_text()}),
      http_seconds_(metrics_.histograms("http_server_request_duration_seconds", "Requests by the time they took, streams to their end",
                                        {.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}, {"method", "route", "status_code"})),
      http_active_(metrics_.gauges("http_server_active_requests", "Requests under way", {"method", "route"})),
      refused_by_(metrics_.counters("admission_rejections_total", "Requests that admission refused, by the check that did", {"reason", "model"})),
      finished_(metrics_.counters("routing_requests_finished_total", "Inference requests of clients by how they ended", {"model", "outcome"})),
      routed_(metrics_.counters("routing_requests_routed_total", "Attempts that an agent answered", {"region", "engine", "model", "tenant_id"})),
      failed_(metrics_.counters("routing_requests_failed_total", "Attempts that failed, and one for each exhausted request",
                                {"region", "engine", "model", "tenant_id"})),
      attempts_failed_(metrics_.counters("routing_attempts_failed_total", "Attempts that did not end in an answer, by cause", {"model", "cause"})),
      primary_(metrics_.counters("policy_primary_routed_total", "Requests served by the policy's first step", {"model"})),
      fallback_(metrics_.counters("policy_fallback_routed_total", "Requests served by a later step", {"model"})),
      provider_fallback_(metrics_.counters("policy_provider_fallback_total", "Requests that no agent could serve and a provider answered", {"model"})),
      exhausted_(metrics_.counters("policy_exhausted_total", "Requests that no step could serve", {"model"})),
      reloads_(metrics_.counters("policy_reload_total", "Policies read again or written, by what started it and how it ended", {"trigger", "result"})),
      tenant_rate_limited_(metrics_.counters("tenant_rate_limited_total", "Requests refused by a limit of requests a minute", {"tenant_id", "key_id"})),
      tenant_token_limited_(metrics_.counters("tenant_token_limited_total",
                                              "Requests that a limit of tokens refused (phase input), and answers beyond the day's (phase output)",
                                              {"tenant_id", "key_id", "deployment_id", "phase"})),
      tenant_success_(metrics_.counters("tenant_requests_success_total", "Requests of a tenant that an agent answered",
                                        {"tenant_id", "key_id", "deployment_id", "model"})),
      tenant_failed_(metrics_.counters("tenant_requests_failed_total", "Requests of a tenant that failed, each once",
                                       {"tenant_id", "key_id", "deployment_id", "model"})),
      tenant_input_(metrics_.counters("tenant_input_tokens_total", "Prompt tokens of answered requests",
                                      {"tenant_id", "key_id", "deployment_id", "model"})),
      tenant_output_(metrics_.counters("tenant_output_tokens_total", "Completion tokens of answered requests",
                                       {"tenant_id", "key_id", "deployment_id", "model"})),
      queue_wait_(metrics_.histograms("queue_wait_seconds", "Time in the capacity queue of waits that ended with a slot",
                                      observe::exponential_bounds(0.01, 2, 13), {"model"})),
      first_byte_(metrics_.histograms("request_time_to_first_byte_seconds", "From the request's head to the first byte of its answer",
                                      {.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}, {"model"})),
      provider_seconds_(metrics_.histograms("http_client_request_duration_seconds",
                                            "Calls of providers up to the head of the answer; status_code 0: there was none",
                                            {.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}, {"provider", "status_code"})),
      tenant_last_(metrics_.gauges("tenant_last_request_timestamp", "When a tenant's last request that was let in began, Unix seconds",
                                   {"tenant_id", "key_id", "deployment_id"})),
      tenant_seconds_(metrics_.histograms("tenant_request_duration_seconds",
                                          "Answered requests of a tenant, to the first byte of a stream or the end of an answer",
                                          {.1, .25, .5, 1, 2, 5, 10, 30, 60}, {"tenant_id", "key_id", "deployment_id", "model"})),
      agent_seconds_(metrics_.histograms("request_duration_seconds", "The same by agent", {.1, .25, .5, 1, 2, 5, 10, 30, 60},
                                         {"tenant_id", "peer_id", "model", "status_code"})) {
  const observe::counter_family refused = metrics_.counters("auth_failures_total", "Requests answered 401, by why nobody was let in", {"surface", "reason"});
  for (size_t why = 1; why < tenancy::denials; ++why) {
    const std::string_view reason = to_string(static_cast<tenancy::denial>(why));
    auth_failed_client_[why] = refused.with({"client", reason});
    auth_failed_admin_[why] = refused.with({"admin", reason});
  }
  const observe::counter_family throttled =
      metrics_.counters("auth_throttled_total", "Requests answered 429 for the failed authentications of their address", {"surface"});
  auth_throttled_client_ = throttled.with({"client"});
  auth_throttled_admin_ = throttled.with({"admin"});
  auth_reloads_ = metrics_.counters("auth_reload_total", "Files of client and admin keys read again, by how it ended", {"result"});
  auth_reloads_.with({"success"});
  auth_reloads_.with({"error"});
  audit_write_seconds_ = metrics_.histograms("audit_write_seconds", "Writes to the audit log's file", observe::exponential_bounds(0.00001, 4, 10)).with({});
  plugin_series_.reserve(most_plugin_series);
  metrics_.add(process_);
  metrics_.add(*this);
}

exporter::~exporter() {
  metrics_.remove(*this);
  metrics_.remove(process_);
}

void exporter::attach(const exported &what) { on_ = what; }

// In this order: what is looked up from here on brings its series back to life, so no handle outlives its burial.
void exporter::forget_model(std::string_view model) {
  metrics_.forget("model", model);
  const std::lock_guard guard(mutex_);
  served_cache_.clear();
  answer_cache_.clear();
}

void exporter::forget_tenant(std::string_view tenant) {
  metrics_.forget("tenant_id", tenant);
  const std::lock_guard guard(mutex_);
  served_cache_.clear();
  answer_cache_.clear();
  last_request_cache_.clear();
}

std::string_view exporter::model_label(std::string_view model) const {
  return on_.router != nullptr && on_.router->knows(model) ? model : std::string_view("__unknown__");
}

observe::histogram exporter::seconds_of(const char *method, std::string_view route, int status) {
  const auto same = [&](const http_series &s) { return s.method == method && s.route == route.data() && s.status == status; };
  if (const http_series *known = http_cache_.find(same)) return known->seconds;
  const std::lock_guard guard(mutex_);
  if (const http_series *known = http_cache_.find(same)) return known->seconds;
  const observe::histogram made = http_seconds_.with({method, route, std::to_string(status)});
  http_cache_.add({method, route.data(), status, made});
  return made;
}

observe::gauge exporter::active_of(const char *method, std::string_view route) {
  const auto same = [&](const active_series &s) { return s.method == method && s.route == route.data(); };
  if (const active_series *known = active_cache_.find(same)) return known->now;
  const std::lock_guard guard(mutex_);
  if (const active_series *known = active_cache_.find(same)) return known->now;
  const observe::gauge made = http_active_.with({method, route});
  active_cache_.add({method, route.data(), made});
  return made;
}

void exporter::on_started(std::string_view method, std::string_view route) { active_of(method_label(method), route).add(1); }

void exporter::on_finished(const gateway::request_record &r) {
  const char *method = method_label(r.method);
  active_of(method, r.started_as.empty() ? r.route : r.started_as).add(-1);
  seconds_of(method, r.route, r.status).observe(static_cast<double>(r.duration_ns) / static_cast<double>(ns_per_s));
  const bool admin = r.at == gateway::surface::admin;
  if (r.denied != tenancy::denial::none) (admin ? auth_failed_admin_ : auth_failed_client_)[static_cast<size_t>(r.denied)].add();
  if (r.status == 429 && r.how == gateway::ended::rejected_auth && !r.inference)
    (admin ? auth_throttled_admin_ : auth_throttled_client_).add();
  if (!r.inference) return;
  const std::string_view model = r.model_known ? r.model : std::string_view("__unknown__");
  finished_.with({model, gateway::to_string(r.how)}).add();
  if (!r.refused_by.empty()) refused_by_.with({r.refused_by, model}).add();
  count_failed(r, model);
  count_limited(r);
  count_tenant(r, model);
  if (!r.provider.empty()) count_provider(r, model);
  if (r.first_byte_ns != 0) first_byte_.with({model}).observe(static_cast<double>(r.first_byte_ns) / static_cast<double>(ns_per_s));
}

void exporter::on_attempt_failed(std::string_view, std::string_view model, std::string_view cause) {
  attempts_failed_.with({model_label(model), cause}).add();
}

void exporter::on_attempt(const routing::attempt_outcome &o) {
  if (o.effect == routing::standing_effect::neutral) return;
  if (o.effect == routing::standing_effect::failure) {
    const auto info = o.who->info();
    return failed_.with({info->region, info->engine, o.model, or_anonymous(o.tenant)}).add();
  }
  const std::lock_guard guard(mutex_);
  const served_series &s = served_of(o);
  s.routed.add();
  s.success.add();
  s.input_tokens.add(static_cast<double>(o.prompt_tokens));
  s.output_tokens.add(static_cast<double>(o.output_tokens));
}

const exporter::served_series &exporter::served_of(const routing::attempt_outcome &o) {
  static thread_local std::string name;
  const uint64_t numbers[] = {o.who->key(), o.generation};
  name.assign(reinterpret_cast<const char *>(numbers), sizeof numbers);
  for (const std::string_view part : {o.model, o.tenant, o.key_id}) name.append(part).push_back('\0');
  if (const auto found = served_cache_.find(name); found != served_cache_.end()) return found->second;
  if (served_cache_.size() >= most_served_series) served_cache_.clear();
  const auto info = o.who->info();
  const std::string_view tenant = or_anonymous(o.tenant);
  const std::string_view t4[] = {tenant, or_anonymous(o.key_id), or_unset(info->deployment_id), o.model};
  served_series made{routed_.with({info->region, info->engine, o.model, tenant}), tenant_success_.with(t4), tenant_input_.with(t4), tenant_output_.with(t4)};
  return served_cache_.emplace(name, made).first->second;
}

void exporter::count_failed(const gateway::request_record &r, std::string_view model) {
  using gateway::ended;
  switch (r.how) {
    case ended::deadline: case ended::agent_lost: case ended::engine_error: case ended::rejected_by_engine:
    case ended::rejected_no_agent: case ended::rejected_capacity: case ended::failed: break;
    // Of the key's own limits those that count; the others are the model's.
    case ended::rejected_admission:
      if (r.token_limited.empty() && r.refused_by != "b4_rpm" && r.refused_by != "b4_itpm" && r.refused_by != "b4_otpm") return;
      break;
    default: return;
  }
  tenant_failed_.with({or_anonymous(r.tenant), or_anonymous(r.key_id), or_unset(deployment_of(r.agent)), model}).add();
}

std::string exporter::deployment_of(std::string_view peer_id) const {
  const auto agent = on_.fleet == nullptr || peer_id.empty() ? nullptr : on_.fleet->find(peer_id);
  return agent ? agent->info()->deployment_id : std::string();
}

void exporter::on_provider_call(std::string_view engine, int status, uint64_t duration_ns) {
  provider_seconds_.with({engine, std::to_string(status)}).observe(static_cast<double>(duration_ns) / static_cast<double>(ns_per_s));
}

// The counterpart of on_attempt and on_exhausted for what a provider did; its region is `cloud`.
void exporter::count_provider(const gateway::request_record &r, std::string_view model) {
  using gateway::ended;
  const std::string_view tenant = or_anonymous(r.tenant);
  if (r.how == ended::completed || r.first_byte_ns != 0) provider_fallback_.with({model}).add();
  else if (r.how == ended::engine_error) exhausted_.with({model}).add();
  if (r.how == ended::completed) {
    routed_.with({"cloud", r.provider, r.provider_model, tenant}).add();
    const std::string_view t4[] = {tenant, or_anonymous(r.key_id), "unset", model};
    tenant_success_.with(t4).add();
    tenant_input_.with(t4).add(static_cast<double>(r.usage.prompt_tokens));
    tenant_output_.with(t4).add(static_cast<double>(r.usage.output_tokens));
  } else if (r.how == ended::engine_error) {
    failed_.with({"cloud", r.provider, r.provider_model, tenant}).add();
  }
}

void exporter::on_queue_wait(std::string_view model, uint64_t ns) {
  queue_wait_.with({model_label(model)}).observe(static_cast<double>(ns) / static_cast<double>(ns_per_s));
}

void exporter::on_served(std::string_view model, bool by_fallback) { (by_fallback ? fallback_ : primary_).with({model}).add(); }

void exporter::on_exhausted(std::string_view model, std::string_view tenant, std::string_view code) {
  if (code == "request_timeout") return;
  exhausted_.with({model_label(model)}).add();
  failed_.with({"", "", model_label(model), or_anonymous(tenant)}).add();
}

hive_metric exporter::declare(int32_t kind, const std::string &name, const std::string &help) {
  for (size_t i = 0; i < plugin_series_.size(); ++i)
    if (plugin_series_[i].name == name) return static_cast<hive_metric>(i + 1);
  constexpr std::string_view prefix = "hivenet_router_";
  const bool counts = kind == HIVE_METRIC_COUNTER;
  std::string short_name = name.compare(0, prefix.size(), prefix) == 0 ? name.substr(prefix.size()) : name;
  const bool fits = std::all_of(short_name.begin(), short_name.end(), [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
  if (!fits || short_name.empty() || plugin_series_.size() == most_plugin_series) return 0;
  if (counts && (short_name.size() < 6 || short_name.compare(short_name.size() - 6, 6, "_total") != 0)) short_name += "_total";
  plugin_series s{kind, name, {}, {}};
  if (counts) s.counter = metrics_.counters(short_name, help).with({});
  else s.gauge = metrics_.gauges(short_name, help).with({});
  plugin_series_.push_back(std::move(s));
  plugin_count_.store(plugin_series_.size(), std::memory_order_release);
  return static_cast<hive_metric>(plugin_series_.size());
}

void exporter::add(hive_metric metric, double delta) {
  if (metric == 0 || metric > plugin_count_.load(std::memory_order_acquire)) return;
  const plugin_series &s = plugin_series_[metric - 1];
  if (s.kind != HIVE_METRIC_COUNTER) s.gauge.add(delta);
  else if (delta > 0) s.counter.add(delta);
}

void exporter::collect(observe::exposition &out) {
  if (on_.fleet != nullptr) collect_agents(out);
  if (on_.router != nullptr) collect_lines(out);
  if (on_.admission != nullptr) collect_admission(out);
  if (on_.quotas != nullptr) collect_quotas(out);
  if (on_.plugins != nullptr) collect_plugins(out);
  if (!on_.links.empty()) collect_links(out);
  if (!on_.servers.empty()) collect_servers(out);
  if (on_.edge != nullptr) collect_edge(out);
  collect_storage(out);
  if (on_.memory != nullptr) collect_memory(out);
  if (on_.audit != nullptr) collect_audit(out);
  collect_log(out);
}

}  // namespace hive::admin
