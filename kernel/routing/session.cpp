#include <algorithm>
#include <functional>
#include <utility>

#include "base/clock.hpp"
#include "routing/retry_pause.hpp"
#include "routing/session_impl.hpp"
#include "routing/turnover.hpp"

namespace hive::routing {

namespace {

hive_str borrow(std::string_view s) { return {s.data(), s.size()}; }

// Text of clients and agents in a log line: bounded, one line.
std::string clean(std::string_view text) {
  std::string out(text.substr(0, 256));
  for (char &c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return out;
}

hive_status outcome_status(attempt_result what) {
  switch (what) {
    case attempt_result::completed: return HIVE_OK;
    case attempt_result::terminal: return HIVE_E_ARGUMENT;
    case attempt_result::refused:
    case attempt_result::overloaded: return HIVE_E_EXHAUSTED;
    case attempt_result::link_lost: return HIVE_E_UNAVAILABLE;
    case attempt_result::retryable: return HIVE_E_INTERNAL;
    case attempt_result::broken: return HIVE_E_CORRUPT;
    case attempt_result::cancelled: return HIVE_GONE;
    case attempt_result::timed_out: return HIVE_E_TIMEOUT;
  }
  return HIVE_E_INTERNAL;
}

standing_effect effect_of(const attempt_report &r) {
  switch (r.what) {
    case attempt_result::completed: return standing_effect::success;
    case attempt_result::terminal:
    case attempt_result::refused:
    case attempt_result::overloaded:
    case attempt_result::cancelled: return standing_effect::neutral;
    case attempt_result::timed_out: return r.had_its_time ? standing_effect::failure : standing_effect::neutral;
    default: return standing_effect::failure;
  }
}

// An estimate; what is unknown counts as nothing.
uint64_t tokens_of(const request_facts &f) {
  uint64_t tokens = 0;
  if (f.prompt_tokens != HIVE_TOKENS_UNKNOWN) tokens += f.prompt_tokens;
  if (f.output_tokens != HIVE_TOKENS_UNKNOWN) tokens += f.output_tokens;
  return tokens;
}

}  // namespace

fleet::request_kind kind_of(const request_facts &f) {
  if (f.streaming) return fleet::request_kind::stream;
  const bool text = f.capability.empty() || f.capability == "llm";
  return text && f.generates ? fleet::request_kind::chat : fleet::request_kind::other;
}

hive_request request_of(const request_facts &facts, uint32_t needs) {
  hive_request r{};
  r.struct_size = sizeof r;
  r.flags = facts.streaming ? HIVE_REQUEST_STREAM : 0;
  r.request_id = borrow(facts.request_id);
  r.model = borrow(facts.model);
  r.capability = borrow(facts.capability.empty() ? std::string_view("llm") : facts.capability);
  r.route = borrow(facts.route);
  r.tenant = borrow(facts.tenant);
  r.session = borrow(facts.session_id);
  r.priority = facts.priority;
  r.deadline_ns = facts.deadline_ns ? facts.deadline_ns : never_ns;
  r.prompt_tokens = facts.prompt_tokens;
  r.output_tokens = facts.output_tokens;
  if (facts.on_demand == nullptr) return r;
  if (needs & HIVE_NEEDS_PREFIX_BLOCKS) {
    const auto blocks = facts.on_demand->prefix_blocks();
    r.prefix_blocks = blocks.data();
    r.prefix_block_count = blocks.size();
  }
  if (needs & HIVE_NEEDS_HEADERS) {
    const auto headers = facts.on_demand->headers();
    r.headers = headers.data();
    r.header_count = headers.size();
  }
  return r;
}

session_impl::session_impl(loop &on, const request_facts &facts, session_events &events, outcome_recorder &recorder,
                           const router_options &options, std::shared_ptr<const route> found,
                           std::shared_ptr<const policy_document> document)
    : loop_(on), facts_(facts), events_(events), recorder_(recorder), options_(options), route_(std::move(found)),
      document_(std::move(document)) {
  class_.priority = facts_.priority;
  class_.tenant = facts_.tenant;
  class_.tokens = tokens_of(facts_);
  class_.cost = std::max<uint64_t>(1, class_.tokens);
  class_.deadline_ns = facts_.deadline_ns;
  selection_.request = request_of(facts_, route_ ? route_->needs() : 0);
  selection_.kind = kind_of(facts_);
  selection_.capability = {selection_.request.capability.ptr, selection_.request.capability.len};
  if (route_) route_->where->live.fetch_add(1, std::memory_order_relaxed);
}

session_impl::~session_impl() {
  if (taken_) report({attempt_result::cancelled, 0, 0, false});
  ticket_.reset();
  if (!route_) return;
  if (holds_retry_) route_->where->end_retry();
  route_->where->live.fetch_sub(1, std::memory_order_relaxed);
}

std::string_view session_impl::step() const {
  return at_ < document_->steps.size() ? std::string_view(document_->steps[at_].name) : std::string_view();
}

void session_impl::next() {
  if (finished_ || waiting_ || taken_ || pausing_) return;
  loop_.at_turn_end(turn_);
}

void session_impl::begin() {
  const uint64_t pause = std::exchange(pause_ns_, 0);
  if (pause == 0 || nobody_is_left() || past_deadline(now_ns() + pause)) return walk();
  pausing_ = true;
  loop_.arm_in(alarm_, pause);
  events_.on_parked();
}

// The request is over then, and its answer need not wait.
bool session_impl::nobody_is_left() const {
  return out_of_retries_ || (at_ + 1 >= document_->steps.size() && tries_ >= route_->steps[at_]->max_tries());
}

void session_impl::walk() {
  if (past_deadline(now_ns())) return on_deadline();
  const size_t steps = document_->steps.size();
  while (at_ < steps && !out_of_retries_) {
    if (!route_) {
      leave_step(emptiness{funnel_gate::model_filter, "model_not_registered"}.text());
      continue;
    }
    if (tries_ >= route_->steps[at_]->max_tries()) {
      only_unregistered_ = false;
      leave_step("max_tries exhausted");
      continue;
    }
    if (!ticket_) ticket_.emplace();
    const entered e = route_->where->line.enter(*ticket_, *this, class_, facts_.body_bytes,
                                                [on = &loop_](std::function<void()> f) { on->post(std::move(f)); }, true);
    if (settle(e)) return;
  }
  finish_exhausted();
}

bool session_impl::settle(entered e) {
  switch (e) {
    case entered::taken:
      stop_waiting(true);
      deliver();
      return true;
    case entered::waiting:
      if (!waiting_) start_waiting();
      return true;
    case entered::advance:
      break;
  }
  stop_waiting(false);
  if (last_ == verdict::none) {
    leave_step(std::move(why_none_));
  } else {
    saw_full_ = true;
    only_unregistered_ = false;
    if (const uint64_t after = ticket_->retry_after_ns(); after != 0) retry_after_ns_ = retry_after_ns_ == 0 ? after : std::min(retry_after_ns_, after);
    // None held: somebody was free for those ahead in the line, and the line is full.
    const bool late = ticket_->refused() == line_refusal::late;
    leave_step(emptiness{funnel_gate::capacity, late              ? "queue_too_slow"
                                                : selection_.held ? "at_capacity=" + std::to_string(selection_.held)
                                                                  : std::string("queue_full")}.text());
  }
  return false;
}

void session_impl::start_waiting() {
  waiting_ = true;
  wait_start_ns_ = now_ns();
  const uint64_t most = route_->steps[at_]->max_queue_wait_ns();
  uint64_t until = facts_.deadline_ns == 0 ? never_ns : facts_.deadline_ns;
  if (most != 0) until = std::min(until, wait_start_ns_ + most);
  if (until != never_ns) loop_.arm(alarm_, until);
  events_.on_parked();
}

// The step's max_queue_wait is over, or the request's time, or the pause before a retry.
void session_impl::on_alarm() {
  if (std::exchange(pausing_, false)) return walk();
  if (past_deadline(now_ns())) return on_deadline();
  stop_waiting(false);
  saw_full_ = true;
  only_unregistered_ = false;
  leave_step(emptiness{funnel_gate::capacity, "max_queue_wait"}.text());
  walk();
}

void session_impl::deliver() {
  const uint64_t now = now_ns();
  fleet::lease slot(taken_, taken_info_, route_->where->pool, class_.tokens);
  told_first_ = false;
  if (past_deadline(now)) {
    tell_end(HIVE_E_TIMEOUT, {});
    taken_.reset();
    slot.reset();
    return on_deadline();
  }
  ++forwards_;
  selection_.request.attempt = forwards_;
  // The owner may destroy this session in the call.
  events_.on_lease(std::move(slot), step());
}

void session_impl::on_wake(uint64_t generation) {
  if (!waiting_) return;
  if (settle(route_->where->line.run(*ticket_, generation))) return;
  walk();
}

void session_impl::stop_waiting(bool with_slot) {
  if (!waiting_) return;
  waiting_ = false;
  alarm_.disarm();
  const uint64_t waited = now_ns() - wait_start_ns_;
  queue_ns_ += waited;
  if (with_slot) recorder_.on_queue_wait(facts_.model, waited);
}

void session_impl::leave_step(std::string reason) {
  ticket_.reset();
  reasons_.push_back(document_->steps[at_].name + ": " + std::move(reason));
  ++at_;
  tries_ = 0;
  selection_.failed.clear();
  selection_.avoided.clear();
}

funnel_result session_impl::find(fleet::pool &pool) {
  routing::step &s = *route_->steps[at_];
  const funnel_result r = run_funnel(pool, *route_->where, s, selection_);
  last_ = r.what;
  if (r.what == verdict::none) {
    const emptiness why = explain_empty(pool, *route_->where, s, selection_);
    only_unregistered_ = only_unregistered_ && why.last == funnel_gate::model_filter;
    why_none_ = why.text();
  }
  return r;
}

void session_impl::on_taken(fleet::pool &pool, uint32_t index) {
  const fleet::pool_row &row = pool.row(index);
  taken_ = row.who;
  taken_info_ = row.info;
  taken_generation_ = row.who->generation();
  taken_ns_ = selection_.request.now_ns;  // what on_choice is told, so that an outcome names the moment of its lease
  route_->where->tell_choice(selection_.request, pool.view(selection_.kind), index);
  ++route_->steps[at_]->strategy().leases;
}

void session_impl::on_full(fleet::pool &pool) { count_refused(pool, *route_->where, *route_->steps[at_], selection_); }

bool session_impl::fits(fleet::pool &pool, uint32_t index) {
  return fits_but_for_capacity(pool, *route_->steps[at_], selection_, index);
}

bool session_impl::reads(hive_column id) const { return route_->steps[at_]->reads(id); }
bool session_impl::reads_rise(hive_column id) const { return route_->steps[at_]->reads_rise(id); }
std::span<const aged_column> session_impl::ages() const { return route_->steps[at_]->thresholds().ages(); }

void session_impl::sample(double rtt_ms) {
  if (taken_ && rtt_ms > 0) recorder_.on_sample({taken_, taken_generation_, facts_.request_id, selection_.kind, rtt_ms});
}

void session_impl::first_content() {
  if (!taken_ || told_first_) return;
  told_first_ = true;
  recorder_.on_content(taken_, taken_generation_);
  hive_outcome o{};
  o.struct_size = sizeof o;
  o.phase = HIVE_PHASE_FIRST_TOKEN;
  o.agent_key = taken_->key();
  o.since_lease_ns = now_ns() - taken_ns_;
  o.prompt_tokens = o.output_tokens = o.cached_tokens = HIVE_TOKENS_UNKNOWN;
  route_->where->outcome(o, *taken_);
}

void session_impl::tell_end(hive_status status, const attempt_report &r) {
  hive_outcome o{};
  o.struct_size = sizeof o;
  o.phase = HIVE_PHASE_END;
  o.agent_key = taken_->key();
  o.status = status;
  o.since_lease_ns = now_ns() - taken_ns_;
  o.prompt_tokens = r.prompt_tokens ? r.prompt_tokens : HIVE_TOKENS_UNKNOWN;
  o.output_tokens = r.output_tokens ? r.output_tokens : HIVE_TOKENS_UNKNOWN;
  o.cached_tokens = r.cached_tokens;
  route_->where->outcome(o, *taken_);
}

session_impl::history &session_impl::history_of(const std::shared_ptr<fleet::agent> &who) {
  for (history &h : agents_)
    if (h.who == who) return h;
  agents_.push_back({who, false, 0});
  return agents_.back();
}

void session_impl::fail_here(const std::shared_ptr<fleet::agent> &who) {
  history_of(who);
  selection_.failed.push_back(who.get());
  ++tries_;
  charge_retry();
}

void session_impl::charge_retry() {
  pause_ns_ = retry_pause_ns(options_.retry_delay_ns, ++charged_, std::hash<std::string_view>{}(facts_.request_id));
  // What was already charged once in this request keeps its retry; only the first asks the model's budget.
  if (holds_retry_) return;
  holds_retry_ = route_->where->start_retry(options_.retry_share, options_.retry_floor);
  out_of_retries_ = !holds_retry_;
}

void session_impl::report(const attempt_report &r) {
  if (!taken_) return;
  tell_end(outcome_status(r.what), r);
  const std::shared_ptr<fleet::agent> who = std::move(taken_);
  taken_.reset();
  recorder_.on_attempt({who, taken_generation_, facts_.request_id, facts_.model, facts_.tenant, facts_.key_id, facts_.streaming, r.what, effect_of(r),
                        r.prompt_tokens, r.output_tokens});
  switch (r.what) {
    case attempt_result::completed:
      recorder_.on_served(facts_.model, at_ > 0);
      finished_ = true;
      break;
    case attempt_result::terminal:
    case attempt_result::broken:
    case attempt_result::cancelled:
    case attempt_result::timed_out:  // nobody is asked after it, so it takes nothing from the model's retries
      finished_ = true;
      break;
    case attempt_result::retryable:
      fail_here(who);
      break;
    case attempt_result::overloaded:
      history_of(who);
      selection_.barred.push_back(who.get());
      charge_retry();
      break;
    case attempt_result::refused: {
      // Busy and draining show in the agent's standing and keep it out by themselves. One that looks fine and refused is
      // taken again only if there is nobody else, and after the second time not at all.
      history &h = history_of(who);
      if (r.exclude || (++h.refusals > 1 && who->routable()))
        selection_.barred.push_back(who.get());
      else
        selection_.avoided.push_back(who.get());
      break;
    }
    case attempt_result::link_lost: {
      history &h = history_of(who);
      if (h.redialled) {
        fail_here(who);
      } else {
        h.redialled = true;
        selection_.avoided.push_back(who.get());
      }
      break;
    }
  }
  if (forwards_ >= options_.max_forwards) out_of_retries_ = true;
}

void session_impl::on_deadline() {
  stop_waiting(false);
  ticket_.reset();
  finish({"request_timeout", "the request's deadline passed before an agent answered", 0});
}

std::string session_impl::chain() const {
  std::string out;
  for (const policy_step &s : document_->steps) out += (out.empty() ? "" : "→") + s.name;
  return out;
}

void session_impl::finish_exhausted() {
  if (out_of_retries_ && at_ < document_->steps.size())
    reasons_.push_back(document_->steps[at_].name + (forwards_ >= options_.max_forwards ? ": max_forwards exhausted"
                                                                                       : ": retry budget exhausted"));
  ticket_.reset();
  exhaustion e;
  const std::string model = clean(facts_.model);
  if (saw_full_) {
    e = {"no_capacity", "all agents that could serve model '" + model + "' are at capacity", retry_after_s(retry_after_ns_)};
  } else if (forwards_ == 0 && only_unregistered_) {
    e = {"model_not_found", "no agent serves model '" + model + "'", 0};
  } else {
    e = {"no_agents_available", "no agent can serve model '" + model + "' right now", 1};
  }
  if (document_->provider && std::ranges::count(facts_.provider_engines, document_->provider->engine) != 0) e.provider = &*document_->provider;
  e.model_claimed = std::ranges::count(document_->models, facts_.model) != 0;
  std::string why;
  for (const std::string &r : reasons_) why += (why.empty() ? "" : " | ") + clean(r);
  recorder_.warn("policy_exhausted request_id=" + clean(facts_.request_id) + " model=" + model + " capability=" +
                 clean(selection_.capability) + " tenant=" + clean(facts_.tenant) + " chain=[" + chain() + "] tried=" +
                 std::to_string(reasons_.size()) + "/" + std::to_string(document_->steps.size()) + " reason=" + why);
  finish(std::move(e));
}

void session_impl::finish(exhaustion e) {
  finished_ = true;
  if (e.provider == nullptr) recorder_.on_exhausted(facts_.model, facts_.tenant, e.code);  // else it is not over yet
  // The owner may destroy this session in the call.
  events_.on_exhausted(e);
}

}  // namespace hive::routing
