#include "tenancy/admission_control.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace hive::tenancy {

namespace {

constexpr std::string_view over_concurrency = "concurrency_limit_exceeded";

std::string number(uint64_t n) { return std::to_string(n); }

bool has_limits(const client_key &key) {
  return key.max_occupancy_share > 0 || key.input_tokens_per_minute > 0 || key.output_tokens_per_minute > 0;
}

std::string model_name(std::string_view model) { return "model '" + std::string(model) + "'"; }

}  // namespace

std::string_view to_string(refused_by by) {
  switch (by) {
    case refused_by::none: return "";
    case refused_by::b1: return "b1";
    case refused_by::b3: return "b3";
    case refused_by::b2: return "b2";
    case refused_by::b4_occupancy: return "b4_occupancy";
    case refused_by::b4_otpm: return "b4_otpm";
    case refused_by::b4_itpm: return "b4_itpm";
    case refused_by::b4_rpm: return "b4_rpm";
    case refused_by::b4_parallel: return "b4_parallel";
    case refused_by::tokens_a_day: return "";
  }
  return "";
}

uint64_t share_of_budget(double fraction, const admission_terms &t) {
  const double product = fraction * static_cast<double>(t.budget_tokens) * static_cast<double>(t.replicas);
  constexpr double most = 9e18;  // what a count still holds
  return product > 0 ? std::max<uint64_t>(1, static_cast<uint64_t>(std::floor(std::min(product, most)))) : 0;
}

uint64_t requests_of(const admission_terms &t) {
  uint64_t all = 0;
  return __builtin_mul_overflow(t.max_inflight, t.replicas, &all) ? UINT64_MAX : all;
}

bool admission_control::concerns(const admission_terms &t, const client_key &key) {
  return t.max_input_tokens != 0 || t.images_max != 0 || t.budget_tokens != 0 || t.max_inflight != 0 || !t.pressed.empty() ||
         (t.serverless && has_limits(key));
}

void admission_control::review(std::string_view model, const admission_terms &t) {
  room_.rebound(model, {share_of_budget(settings_.fraction, t), requests_of(t)});
}

void admission_control::sweep() {
  room_.sweep();
  input_.sweep();
  output_.sweep();
}

admitted admittance::ask(const admission_ask &asked, const admission_terms &terms, refusal &why) {
  ask_ = asked;
  terms_ = terms;
  prompt_ = ask_.prompt_tokens;
  if (terms_.max_input_tokens != 0 && prompt_ > terms_.max_input_tokens) {
    why = {refused_by::b1, "input_too_long", "the input is about " + number(prompt_) + " tokens long; " + model_name(ask_.model) + " takes at most " +
                                                 number(terms_.max_input_tokens), 0};
    return admitted::no;
  }
  if (terms_.images_max != 0 && ask_.images > terms_.images_max) {
    why = {refused_by::b1, "input_too_long", "the request holds " + number(ask_.images) + " images; " + model_name(ask_.model) + " takes at most " +
                                                 number(terms_.images_max), 0};
    return admitted::no;
  }
  if (!terms_.pressed.empty()) {
    why = {refused_by::b3, over_concurrency, model_name(ask_.model) + " is under pressure (" + terms_.pressed + "); try again later", 1};
    return admitted::no;
  }
  const occupancy_bounds bounds{share_of_budget(control_.settings_.fraction, terms_), requests_of(terms_)};
  output_ = ask_.declared_output.value_or(0);
  // A guess never makes a request too large for its budget.
  if (!ask_.declared_output && !ask_.streaming && bounds.tokens > prompt_)
    output_ = std::min(control_.settings_.undeclared_output, bounds.tokens - prompt_);
  const uint64_t tokens = prompt_ + output_;
  // Nobody serves it: it is judged, and fails elsewhere. A caller's word must not make an entry.
  const bool bounded = bounds.tokens != 0 || bounds.requests != 0;
  if (bounded && !terms_.known && bounds.tokens != 0 && tokens > bounds.tokens) return why = no_room(), admitted::no;
  if (bounded && terms_.known) {
    switch (control_.room_.take(counted_as(), bounds, tokens, hold_, this, control_.settings_.park_ns)) {
      case occupancy::answer::granted: break;
      case occupancy::answer::parked: return admitted::parked;
      case occupancy::answer::refused: return why = no_room(), admitted::no;
    }
  }
  return key_allows(why) ? admitted::yes : admitted::no;
}

refusal admittance::no_room() const {
  return {refused_by::b2, over_concurrency, model_name(ask_.model) + " has no room for this request now: the tokens and requests in flight are at "
                                            "its limit", 1};
}

// B4. On a denial nothing is held any more.
bool admittance::key_allows(refusal &why) {
  const client_key &key = *ask_.who;
  if (!terms_.serverless || !terms_.known || !has_limits(key)) return true;
  bucket_ = key.id;
  bucket_ += '\0';
  bucket_ += counted_as();
  const auto deny = [&](refused_by by, std::string words, uint64_t retry_after_s = 1) {
    why = {by, over_rate, std::move(words), retry_after_s};
    hold_.release();
    return false;
  };
  if (key.max_occupancy_share > 0 && hold_ && terms_.budget_tokens != 0 &&
      !control_.room_.share(hold_, bucket_, share_of_budget(key.max_occupancy_share, terms_)))
    return deny(refused_by::b4_occupancy, "this key's share of " + model_name(ask_.model) + " is in use");
  if (control_.output_.exhausted(bucket_, key.output_tokens_per_minute))
    return deny(refused_by::b4_otpm, "this key's output tokens a minute on " + model_name(ask_.model) + " are used up",
                control_.output_.wait_s(bucket_, key.output_tokens_per_minute, 1));
  if (!control_.input_.take(bucket_, key.input_tokens_per_minute, ask_.prompt_tokens))
    return deny(refused_by::b4_itpm, "this key's input tokens a minute on " + model_name(ask_.model) + " are used up",
                control_.input_.wait_s(bucket_, key.input_tokens_per_minute, ask_.prompt_tokens));
  input_charged_ = true;
  return true;
}

void admittance::on_room(occupancy_hold hold) {
  hold_ = std::move(hold);
  refusal why;
  if (key_allows(why)) return on_admitted();
  on_refused(why);
}

void admittance::on_no_room() {
  const refusal why = no_room();
  on_refused(why);
}

void admittance::saw_output(uint64_t text_bytes) {
  if (!hold_ || ask_.declared_output) return;
  const uint64_t tokens = output_tokens(ask_.ratio, text_bytes);
  if (tokens <= output_) return;
  hold_.grow(tokens - output_);
  output_ = tokens;
}

void admittance::saw_usage(uint64_t prompt_tokens, uint64_t output_tokens) {
  if (!hold_) return;
  int64_t by = 0;
  if (prompt_tokens != 0 && prompt_tokens != prompt_) {
    by = static_cast<int64_t>(prompt_tokens) - static_cast<int64_t>(prompt_);
    prompt_ = prompt_tokens;
  }
  if (output_tokens != 0 && !ask_.declared_output && output_tokens > output_) {
    by += static_cast<int64_t>(output_tokens - output_);
    output_ = output_tokens;
  }
  hold_.correct(by);
}

void admittance::hand_over() {
  handed_over_ = true;
  hold_.release();
}

void admittance::settle(uint64_t output_tokens) {
  if (std::exchange(settled_, true)) return;
  leave();
  hold_.release();
  if (bucket_.empty()) return;
  const client_key &key = *ask_.who;
  if (output_tokens > 0 && !handed_over_) control_.output_.charge(bucket_, key.output_tokens_per_minute, output_tokens);
  if (input_charged_ && !reached_ && !handed_over_) control_.input_.give_back(bucket_, key.input_tokens_per_minute, ask_.prompt_tokens);
}

}  // namespace hive::tenancy
