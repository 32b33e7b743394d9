// What a key's quota allows (docs/quotas.md): requests a minute, tokens a day, requests at once. A quota_book is of all
// requests of a router, whatever the number of its workers, and any thread's; a quota_use is of one request and its loop. Keys without
// limits need neither.
//
// A flat limit is of the tenant: all its keys and all models share it. One of the shape per_model is of the tenant and that model.
// Of either the largest among the tenant's usable keys counts for each key that has one.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "tenancy/admission_control.hpp"
#include "tenancy/day_budgets.hpp"
#include "tenancy/keyring.hpp"
#include "tenancy/parallel_limit.hpp"
#include "tenancy/request_rate.hpp"

namespace hive::tenancy {

struct quota_settings {
  uint64_t rpm_burst_seconds = 0;          // --rpm-burst-seconds
  size_t most_waiting = 30;                // of one key, for its own limit
};

class quota_book {
 public:
  quota_book(const quota_settings &s, const clock_source &clock) : requests_(clock, s.rpm_burst_seconds), days_(clock), parallel_(s.most_waiting) {}

  static bool concerns(const client_key &key) {
    return key.requests_per_minute != 0 || key.tokens_per_day != 0 || key.per_model_quota || key.max_parallel_requests != 0 ||
           key.max_parallel_requests_per_model != 0;
  }

  // The keys of this moment, for whoever shows their limits; what has been used is kept whatever they are.
  void set_keys(std::shared_ptr<const keyring>);
  std::shared_ptr<const keyring> keys() const;

  request_rate &requests() { return requests_; }
  day_budgets &days() { return days_; }
  parallel_limit &parallel() { return parallel_; }
  void sweep();                            // every few minutes: what is idle is forgotten

  struct tenant_usage {
    std::string tenant;
    uint64_t requests_a_minute = 0, tokens_a_day = 0;      // flat ones; 0 = no limit
    uint64_t used_today = 0;                               // over all its models
    bool counts_tokens = false;                            // some limit of tokens a day is set
    std::shared_ptr<const std::vector<model_quota>> models;  // of all its keys, each once with its largest limits; null = none
  };
  // By tenant, of the keys that were usable when their ring was made; a tenant whose keys have gone is not there.
  std::vector<tenant_usage> usage();

 private:
  request_rate requests_;
  day_budgets days_;
  parallel_limit parallel_;
  mutable std::mutex mutex_;               // guards keys_
  std::shared_ptr<const keyring> keys_;
};

class quota_use {
 public:
  quota_use(quota_book &book, caller who) : book_(book), who_(std::move(who)) {}
  ~quota_use() { settle(std::nullopt, 0); }
  quota_use(const quota_use &) = delete;

  // Before the body is judged: a flat limit of requests. Nothing comes back of it. False = refused, as everywhere here.
  bool take_request(refusal &why);
  // When the model is known and allowed: the limit of a key of the shape per_model, `agents` times. Without agents nothing is asked:
  // routing tells the true cause.
  bool take_request(std::string_view model, uint64_t agents, refusal &why);
  void no_quota();                                         // the key does not name the model
  // What the request will cost: its prompt is taken, the output it declares must fit beside it.
  bool take_tokens(std::string_view model, uint64_t prompt, uint64_t declared, refusal &why);
  void reached() { reached_ = true; }                      // an agent or a provider has it: its prompt stays charged
  // What it did cost, once; further calls change nothing and answer the same. False = more than was left of the day.
  bool settle(std::optional<uint64_t> prompt, uint64_t output);

  // X-RateLimit-Limit-, -Remaining- and -Reset- of what is limited: whole lines, each with its CRLF.
  std::string header_lines();

 private:
  bool take_request_of(std::string_view bucket, uint64_t a_minute, std::string_view model, refusal &why);  // model: "" = a flat limit

  quota_book &book_;
  const caller who_;
  struct told {
    uint64_t limit, remaining, reset_s;
  };
  std::optional<told> requests_;
  std::string budget_;                                     // of tokens; empty = none is limited
  uint64_t day_limit_ = 0;
  day_charge charge_;
  bool charged_ = false, reached_ = false, settled_ = false, in_budget_ = true;
};

// A quota that a key does not have will not come by waiting; what an SDK does not wait for it gives up soon.
inline constexpr uint64_t no_quota_retry_s = 3600;

}  // namespace hive::tenancy
