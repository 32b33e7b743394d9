// A relay and admission: between the scan and the forward line on the way in, and what it tells of itself until its end.
#include <algorithm>

#include "gateway/relay.hpp"
#include "tenancy/admission_terms.hpp"

namespace hive::gateway {

bool relay::let_in() {
  if (context_.tokens != nullptr && route_.capability == "llm") estimate_ = estimate_of(context_.tokens->ratio(scan_.model), scan_);
  else estimate_ = estimate_of({}, scan_);
  if (context_.admission == nullptr || !route_.admitted) return true;
  governed_ = context_.router.look_up(scan_.model);
  const tenancy::admission_terms terms = tenancy::terms_of(*governed_, now_ns());
  if (!tenancy::admission_control::concerns(terms, *caller_)) return true;
  tenancy::admission_ask ask;
  ask.model = scan_.model;
  ask.who = caller_;
  ask.prompt_tokens = estimate_.prompt;
  ask.images = scan_.images;
  ask.declared_output = output_footprint();
  ask.streaming = scan_.stream;
  ask.ratio = estimate_.ratio;
  tenancy::refusal why;
  way_in_.emplace(*this);
  switch (way_in_->ask(ask, terms, why)) {
    case tenancy::admitted::yes: return true;
    case tenancy::admitted::parked: return false;
    case tenancy::admitted::no: break;
  }
  reject(why);
  return false;
}

void relay::reject(const tenancy::refusal &why) {
  refused_by_ = why.by;
  const ended how = why.by == tenancy::refused_by::b1 ? ended::rejected_request : ended::rejected_admission;
  refuse(how, make_error(why.code, why.message, "router", why.retry_after_s));
}

// After each piece of a stream.
void relay::tell_progress() {
  const http::stream_facts &facts = scanner_->facts();
  way_in_->saw_output(facts.delta_bytes);
  if (facts.usage.present && !usage_in_characters_) way_in_->saw_usage(facts.usage.prompt, facts.usage.completion);
}

void relay::settle_admission() {
  if (way_in_) way_in_->settle(usage_.output_tokens);
}

// Only what the engine itself counted, of text alone.
void relay::learn_tokens() {
  if (context_.tokens == nullptr || route_.capability != "llm" || route_.usage == usage_source::none) return;
  if (provider_ || !usage_.known || estimated_ || usage_in_characters_ || scan_.images != 0 || scan_.token_ids != 0) return;
  context_.tokens->learn(scan_.model, scan_.text_bytes, usage_.prompt_tokens);
}

}  // namespace hive::gateway
