// A relay when no agent can serve and the policy names a provider: its answer takes the way of an agent's (relay_answer.cpp), with
// the same commit point. One call, and never back to the agents.
#include <utility>

#include "gateway/relay.hpp"
#include "observe/log.hpp"

namespace hive::gateway {

// The forward slot is free for others meanwhile, as it is while a request is parked.
void relay::ask_provider(const routing::exhaustion &e) {
  if (way_in_) way_in_->hand_over();
  provider_ = *e.provider;
  model_claimed_ = e.model_claimed;
  context_.forwards.release(*this);
  set_stage(&context_.stages.forwarding);
  forget_attempt();
  agent_ = "provider:" + provider_->engine;
  step_ = "fallback_provider";
  attempt_open_ = true;

  providers::call_order order;
  order.asked = *providers::api_of(route_.path);
  order.engine = provider_->engine;
  order.model = provider_->model;
  request_scan where;  // the body may have been spliced since it was scanned
  if (const auto error = context_.scanner->scan(*body_, where)) return provider_failed(make_error("backend_error", error->message));
  order.model_offset = where.model_at.offset;
  order.model_length = where.model_at.length;
  order.body = std::move(body_);  // nobody else will be asked
  order.streaming = scan_.stream;
  order.request_id = request_id_;
  order.client_fields = exchange_.head().fields;
  order.memory = context_.memory;
  status why;
  stream_ = context_.providers->open(order, *this, why);
  if (stream_ && quota_) quota_->reached();
  if (!stream_) provider_failed(make_error("backend_error", "provider " + provider_->engine + " cannot be asked: " + why.text()));
}

// Whatever it was, 502 (docs/providers.md); what the agents did before is told, too.
void relay::provider_failed(api_error error) {
  end_attempt(routing::attempt_result::retryable);
  api_error told = make_error("backend_error", std::move(error.message), "backend", error.retry_after_s);
  if (last_error_) told.message += "; before that: " + last_error_->message;
  refuse(ended::engine_error, told);
}

// A provider's own words may tell of the router's account with it: they stay in the log.
api_error relay::stream_error(const http::stream_facts &facts) const {
  std::string words = "the engine reported an error: " + facts.error_text;
  if (provider_) {
    observe::log("provider").warn("{} request_id={}: {}", agent_, request_id_, context_.providers->for_log(provider_->engine, words));
    words = "provider " + provider_->engine + " reported an error";
  }
  return make_error("backend_error", std::move(words), "backend");
}

}  // namespace hive::gateway
