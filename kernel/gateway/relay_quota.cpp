// A relay and its key's quota: requests a minute before the body is judged, requests at once before admission, tokens of the day before
// an agent is looked for; and what it really cost, at its end. Keys without limits pass by.
#include <algorithm>

#include "gateway/relay.hpp"
#include "providers/api.hpp"
#include "tenancy/admission_terms.hpp"

namespace hive::gateway {

bool relay::take_request() {
  if (context_.quotas == nullptr || !tenancy::quota_book::concerns(*caller_)) return true;
  quota_.emplace(*context_.quotas, caller_);
  tenancy::refusal why;
  if (quota_->take_request(why)) return true;
  reject(why);
  return false;
}

// Outside a list it is forbidden; outside the models of a quota it is over a limit.
void relay::refuse_model(const api_error &error) {
  if (!caller_->per_model_quota) return refuse(ended::rejected_auth, error);
  if (quota_) quota_->no_quota();
  refused_by_ = tenancy::refused_by::b4_rpm;
  refuse(ended::rejected_admission, error);
}

// Times which a limit of the model's replicas counts: its healthy agents. Without any the provider that may answer in their place is one,
// or it would be asked, and paid, without a limit.
uint64_t relay::replicas() const {
  const auto now = context_.router.policies();
  const uint64_t agents = tenancy::healthy_agents(*now, scan_.model);
  if (agents != 0 || context_.providers == nullptr) return agents;
  const auto document = now->of(scan_.model).document;
  return document->provider && std::ranges::count(providers::engines_for(route_.path), document->provider->engine) != 0 ? 1 : 0;
}

// Before admission: a request that waits for another request of the same key must not hold what other keys could use.
bool relay::take_turn() {
  if (!quota_) return true;
  const tenancy::client_key &key = *caller_;
  tenancy::refusal why;
  if (!quota_->take_request(scan_.model, key.per_model_quota ? replicas() : 0, why)) return reject(why), false;
  if (key.max_parallel_requests == 0 && key.max_parallel_requests_per_model == 0) return true;
  turn_.emplace(*this);
  using answer = tenancy::parallel_limit::answer;
  switch (context_.quotas->parallel().take(*turn_, {key.id, scan_.model, key.max_parallel_requests, key.max_parallel_requests_per_model, key.parallel_waits})) {
    case answer::granted: return true;
    case answer::waits: return false;
    case answer::refused: break;
  }
  reject({tenancy::refused_by::b4_parallel, tenancy::over_rate, "as many requests of this key are under way as it may have at once", 1});
  return false;
}

bool relay::take_tokens() {
  if (!quota_ || route_.usage == usage_source::none) return true;
  tenancy::refusal why;
  if (quota_->take_tokens(scan_.model, estimate_.prompt, output_footprint().value_or(0), why)) return true;
  token_limited_ = "input";
  reject(why);
  return false;
}

// A whole answer that nothing has been sent of. It was made, so it is charged and recorded as it was; the client learns that its day
// is over.
bool relay::answer_in_budget() {
  settle_quota();
  if (token_limited_.empty()) return true;
  refuse(ended::rejected_admission, make_error("token_limit_exceeded", "the answer is longer than what was left of the key's tokens a day", "router",
                                               context_.quotas->days().seconds_left()));
  return false;
}

// From here on the prompt stays charged. Not yet when a stream is opened: the agent may refuse it and another never come. Who ends
// while the agent has not answered pays for it: it may be at work on the prompt.
void relay::agent_has_it() {
  if (way_in_) way_in_->reached_agent();
  if (quota_) quota_->reached();
}

// An engine that tells no prompt, or 0, has told nothing of it: the estimate stands.
void relay::settle_quota() {
  if (turn_) turn_->leave();
  if (!quota_) return;
  const auto prompt = usage_.prompt_tokens != 0 ? std::optional(usage_.prompt_tokens) : std::nullopt;
  if (!quota_->settle(prompt, usage_.output_tokens)) token_limited_ = "output";
}

}  // namespace hive::gateway
