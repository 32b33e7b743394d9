#include "tenancy/quota.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace hive::tenancy {

namespace {

uint64_t seconds(uint64_t ns) { return ns / ns_per_s + (ns % ns_per_s != 0); }

std::string bucket_of(const client_key &key, std::string_view model) {
  std::string name = key.tenant;
  name += '\0';
  name += model;
  return name;
}

const model_quota *quota_of(const std::vector<model_quota> &all, std::string_view model) {
  const auto at = std::lower_bound(all.begin(), all.end(), model, [](const model_quota &q, std::string_view m) { return q.model < m; });
  return at != all.end() && at->model == model ? &*at : nullptr;
}

// A tenant's keys share a bucket. When their limits differ the largest sizes it, for all of them.
uint64_t shared(uint64_t own, uint64_t of_tenant) { return own == 0 ? 0 : std::max(own, of_tenant); }

struct model_limits {
  uint64_t requests_per_minute_per_replica, tokens_per_day;
};

// What the key may ask of the model: nothing if it does not name it, else its limits as the tenant's keys share them.
std::optional<model_limits> shared_quota(const client_key &key, std::string_view model) {
  const model_quota *own = quota_of(key.per_model, model);
  if (own == nullptr) return std::nullopt;
  model_limits out{own->requests_per_minute_per_replica, own->tokens_per_day};
  if (const auto &of_tenant = key.of_tenant.per_model)
    if (const model_quota *most = quota_of(*of_tenant, model)) {
      out.requests_per_minute_per_replica = shared(out.requests_per_minute_per_replica, most->requests_per_minute_per_replica);
      out.tokens_per_day = shared(out.tokens_per_day, most->tokens_per_day);
    }
  return out;
}

void add_line(std::string &out, std::string_view name, uint64_t value) {
  out += "X-RateLimit-";
  out += name;
  out += ": ";
  out += std::to_string(value);
  out += "\r\n";
}

}  // namespace

void quota_book::set_keys(std::shared_ptr<const keyring> keys) {
  // While a key is rotated two have one id; the wider limit holds then.
  const auto wider = [](uint32_t a, uint32_t b) { return a == 0 || b == 0 ? 0 : std::max(a, b); };
  std::unordered_map<std::string_view, parallel_limit::bounds> limits;
  for (const client_key &key : keys->keys()) {
    if (!key.usable_at(keys->made_unix_ms())) continue;
    const parallel_limit::bounds own{key.max_parallel_requests, key.max_parallel_requests_per_model};
    const auto [at, fresh] = limits.try_emplace(key.id, own);
    if (!fresh) at->second = {wider(at->second.most, own.most), wider(at->second.most_of_model, own.most_of_model)};
  }
  parallel_.rebound([keys, limits = std::move(limits)](std::string_view key_id) -> std::optional<parallel_limit::bounds> {
    const auto found = limits.find(key_id);
    if (found == limits.end()) return std::nullopt;
    return found->second;
  });
  const std::lock_guard guard(mutex_);
  keys_ = std::move(keys);
}

std::shared_ptr<const keyring> quota_book::keys() const {
  const std::lock_guard guard(mutex_);
  return keys_;
}

void quota_book::sweep() {
  requests_.sweep();
  days_.sweep();
}

std::vector<quota_book::tenant_usage> quota_book::usage() {
  std::map<std::string_view, tenant_usage> by_tenant;
  const auto now = keys();
  if (!now || now->mode() == auth_mode::none) return {};
  for (const client_key &key : now->keys()) {
    if (!key.usable_at(now->made_unix_ms())) continue;
    tenant_usage &t = by_tenant[key.tenant];
    t.tenant = key.tenant;
    t.requests_a_minute = key.of_tenant.requests_per_minute;  // the same for all its keys, as the next two
    t.tokens_a_day = key.of_tenant.tokens_per_day;
    t.models = key.of_tenant.per_model;
  }
  const auto counts_tokens = [](const model_quota &q) { return q.tokens_per_day != 0; };
  for (auto &[name, t] : by_tenant)
    t.counts_tokens = t.tokens_a_day != 0 || (t.models && std::any_of(t.models->begin(), t.models->end(), counts_tokens));
  for (const day_record &r : days_.rows())
    if (const auto t = by_tenant.find(std::string_view(r.budget).substr(0, r.budget.find('\0'))); t != by_tenant.end()) {
      uint64_t &used = t->second.used_today;
      if (__builtin_add_overflow(used, r.used, &used)) used = UINT64_MAX;
    }
  std::vector<tenant_usage> out;
  out.reserve(by_tenant.size());
  for (auto &[name, t] : by_tenant) out.push_back(std::move(t));
  return out;
}

bool quota_use::take_request(refusal &why) {
  const client_key &key = *who_;
  if (key.per_model_quota || key.requests_per_minute == 0) return true;
  return take_request_of(key.tenant, shared(key.requests_per_minute, key.of_tenant.requests_per_minute), "", why);
}

bool quota_use::take_request(std::string_view model, uint64_t agents, refusal &why) {
  if (!who_->per_model_quota || agents == 0) return true;
  const std::optional<model_limits> q = shared_quota(*who_, model);
  if (!q || q->requests_per_minute_per_replica == 0) return true;
  uint64_t all = 0;
  if (__builtin_mul_overflow(q->requests_per_minute_per_replica, agents, &all)) all = UINT64_MAX;
  return take_request_of(bucket_of(*who_, model), all, model, why);
}

bool quota_use::take_request_of(std::string_view bucket, uint64_t a_minute, std::string_view model, refusal &why) {
  const request_rate::answer a = book_.requests().take(bucket, a_minute);
  requests_ = {a_minute, a.remaining, seconds(a.full_ns)};
  if (a.allowed) return true;
  std::string words = "the limit of " + std::to_string(a_minute) + " requests a minute";
  if (!model.empty()) words += " to the model '" + std::string(model) + "'";
  why = {refused_by::b4_rpm, over_rate, words + " is reached", std::max<uint64_t>(1, seconds(a.retry_ns))};
  return false;
}

void quota_use::no_quota() { requests_ = {0, 0, no_quota_retry_s}; }

bool quota_use::take_tokens(std::string_view model, uint64_t prompt, uint64_t declared, refusal &why) {
  const client_key &key = *who_;
  if (key.per_model_quota) {
    const std::optional<model_limits> q = shared_quota(key, model);
    if (!q || q->tokens_per_day == 0) return true;
    budget_ = bucket_of(key, model);
    day_limit_ = q->tokens_per_day;
  } else {
    if (key.tokens_per_day == 0) return true;
    budget_ = key.tenant;
    day_limit_ = shared(key.tokens_per_day, key.of_tenant.tokens_per_day);
  }
  charged_ = book_.days().take(budget_, day_limit_, prompt, declared, charge_);
  if (charged_) return true;
  std::string words = "of " + std::to_string(day_limit_) + " tokens a day " + std::to_string(book_.days().remaining(budget_, day_limit_)) +
                      " are left; this request's input is about " + std::to_string(prompt);
  if (declared != 0) words += " and it may generate " + std::to_string(declared);
  why = {refused_by::tokens_a_day, over_tokens, words + "; the next day begins at 00:00 UTC", book_.days().seconds_left()};
  return false;
}

bool quota_use::settle(std::optional<uint64_t> prompt, uint64_t output) {
  if (std::exchange(settled_, true) || !charged_) return in_budget_;
  if (!reached_) book_.days().give_back(budget_, charge_);
  else if (prompt || output != 0) in_budget_ = book_.days().settle(budget_, day_limit_, charge_, prompt, output);
  return in_budget_;
}

std::string quota_use::header_lines() {
  std::string out;
  if (requests_) {
    add_line(out, "Limit-Requests", requests_->limit);
    add_line(out, "Remaining-Requests", requests_->remaining);
    add_line(out, "Reset-Requests", requests_->reset_s);
  }
  if (!budget_.empty()) {
    add_line(out, "Limit-Tokens", day_limit_);
    add_line(out, "Remaining-Tokens", book_.days().remaining(budget_, day_limit_));
    add_line(out, "Reset-Tokens", book_.days().seconds_left());
  }
  return out;
}

}  // namespace hive::tenancy
