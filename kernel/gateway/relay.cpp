#include "gateway/relay.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "gateway/field_rules.hpp"
#include "gateway/form_scan.hpp"
#include "gateway/key_rules.hpp"
#include "gateway/worker.hpp"
#include "hive/abi/views.h"

namespace hive::gateway {

namespace {

using routing::attempt_result;

// Bytes are free again when a request ends: about as often as the line moves.
api_error no_memory(const forward_line &line) {
  return make_error("queue_full", "the router holds as many bytes of requests and answers as --memory-budget allows", "router",
                    routing::retry_after_s(line.gap_ns()));
}

}  // namespace

relay::relay(worker_context &context, http::exchange &exchange, const route &r, std::string request_id, tenancy::caller caller)
    : forward_waiter(context.home),
      context_(context),
      exchange_(exchange),
      route_(r),
      request_id_(std::move(request_id)),
      caller_(std::move(caller)),
      method_(exchange.head().method),
      client_(client_of(context, exchange)),
      started_ns_(exchange.arrived_ns()),
      started_unix_ms_(unix_ms()),
      request_deadline_ns_(started_ns_ + context.options.request_timeout_ns),
      deadline_ns_(request_deadline_ns_),
      held_claim_(context.memory) {
  place_.owner = this;
  if (context_.live != nullptr) context_.live->push_back(place_);
  context_.records.on_started(method_, route_.label);
}

relay::~relay() {
  take_lease();
  if (!recorded_) record(ended::shutdown, 499, "shutting_down");
  set_stage(nullptr);
}

void relay::set_stage(std::atomic<int64_t> *stage) {
  if (stage_ != nullptr) stage_->fetch_sub(1, std::memory_order_relaxed);
  stage_ = stage;
  if (stage_ != nullptr) stage_->fetch_add(1, std::memory_order_relaxed);
}

fleet::lease relay::take_lease() {
  if (lease_) context_.stages.leases.fetch_sub(1, std::memory_order_relaxed);
  return std::move(lease_);
}

void relay::start() {
  set_stage(&context_.stages.reading_body);
  context_.home.arm(*this, deadline_ns_);
  const uint64_t most = context_.options.max_body_bytes == 0 ? UINT64_MAX : context_.options.max_body_bytes;
  // Before the body is read, and before 100 Continue. What is too long anyway is told so.
  if (const uint64_t length = exchange_.head().content_length.value_or(0);
      length <= most && context_.memory != nullptr && !context_.memory->budget().fits(length)) {
    context_.memory->budget().shed_before_body.fetch_add(1, std::memory_order_relaxed);
    return refuse(ended::rejected_memory, no_memory(context_.forwards));
  }
  exchange_.read_body(most, true);
}

void relay::on_body_failed(http::body_error why) {
  switch (why) {
    case http::body_error::too_large: {
      api_error error = make_error("request_invalid", "request body too large: the limit is " +
                                                          std::to_string(context_.options.max_body_bytes) + " bytes");
      error.status = 413;
      return refuse(ended::rejected_request, error);
    }
    case http::body_error::malformed:
      return refuse(ended::rejected_request, make_error("request_invalid", "the request body's framing is malformed"));
    case http::body_error::timed_out: {
      api_error error = make_error("request_invalid", "the request body did not arrive in time");
      error.status = 408;
      return refuse(ended::rejected_request, error);
    }
    case http::body_error::over_budget:
      context_.memory->budget().shed_in_body.fetch_add(1, std::memory_order_relaxed);
      return refuse(ended::rejected_memory, no_memory(context_.forwards));
  }
}

bool relay::is_form_body() const {
  const http::field *type = http::find_field(exchange_.head().fields, "content-type");
  return route_.forms && type != nullptr && is_form(type->value);
}

std::optional<scan_error> relay::scan_body() {
  if (route_.forms)
    if (auto error = read_otherwise(exchange_.head().fields, exchange_.head().query, *body_)) return error;
  if (is_form_body()) return scan_form(http::find_field(exchange_.head().fields, "content-type")->value, *body_, scan_);
  return context_.scanner->scan(*body_, scan_);
}

void relay::on_body(http::body_ptr body) {
  body_ = std::move(body);
  if (!take_request()) return;
  auto error = scan_body();
  if (!error) error = resolve_alias();
  if (error) return refuse(ended::rejected_request, make_error("request_invalid", error->message));
  if (const auto denied = model_refusal(*caller_, scan_.model)) return refuse_model(*denied);
  if (!route_.streams) scan_.stream = false;
  if (route_.usage == usage_source::asked && context_.options.ask_usage)
    if (auto asked = with_usage_asked(*body_, scan_, context_.memory)) {
      scan_.inserted(scan_.stream_options_given ? scan_.stream_options_at.offset : scan_.object_at, asked->size() - body_->size());
      body_ = std::move(asked);
      usage_asked_ = true;
    }
  set_stage(&context_.stages.selecting);
  if (take_turn() && let_in()) enter_line();
}

void relay::enter_line() {
  if (!take_tokens()) return;
  switch (context_.forwards.acquire(*this, false)) {
    case forward_line::answer::granted: return look_for_agent();
    case forward_line::answer::waiting: return governed_.reset();
    case forward_line::answer::full: return on_forward_refused();
  }
}

void relay::on_forward_refused() {
  refuse(ended::rejected_queue, make_error("queue_full", "the router's request queue is full", "router",
                                           routing::retry_after_s(context_.forwards.gap_ns())));
}

void relay::on_forward_slot() {
  if (lease_) return dispatch();
  look_for_agent();
}

void relay::look_for_agent() {
  set_stage(&context_.stages.selecting);
  if (!session_) {
    routing::request_facts facts;
    facts.request_id = request_id_;
    facts.model = scan_.model;
    facts.capability = route_.capability;
    facts.route = route_.label;
    facts.tenant = caller_->tenant;
    facts.key_id = caller_->id;
    facts.streaming = scan_.stream;
    facts.generates = route_.usage != usage_source::none;
    if (context_.providers != nullptr) facts.provider_engines = providers::engines_for(route_.path);
    facts.deadline_ns = deadline_ns_;
    facts.priority = caller_->priority;
    facts.prompt_tokens = estimate_.prompt;
    facts.output_tokens = output_footprint().value_or(HIVE_TOKENS_UNKNOWN);
    facts.body_bytes = body_->size();
    facts.session_id = session_of(exchange_.head().fields);
    facts.on_demand = &material_.emplace(*body_, scan_, exchange_.head().fields);
    session_ = context_.router.open(context_.home, facts, *this, governed_ ? *std::move(governed_) : context_.router.look_up(scan_.model));
    governed_.reset();
  }
  session_->next();
}

// Parked in the pool's capacity queue, or in the pause before a retry: the forward slot goes to somebody who can use it.
void relay::on_parked() {
  context_.forwards.release(*this);
}

void relay::on_lease(fleet::lease lease, std::string_view step) {
  lease_ = std::move(lease);
  context_.stages.leases.fetch_add(1, std::memory_order_relaxed);
  step_ = step;
  agent_ = lease_.who()->peer_id();
  attempt_open_ = true;
  if (!holds_slot() && context_.forwards.acquire(*this, true) != forward_line::answer::granted) return;
  dispatch();
}

void relay::dispatch() {
  struct slot_keeper final : link::held {
    explicit slot_keeper(fleet::lease l) : lease(std::move(l)) {}
    fleet::lease lease;
  };

  set_stage(&context_.stages.forwarding);
  forget_attempt();

  std::vector<http::field> fields;
  const auto client_fields = exchange_.head().fields;
  fields.reserve(client_fields.size() + 3);
  bool typed = false;
  for (const http::field &f : client_fields) {
    if (!goes_to_engine(f.name, client_fields)) continue;
    typed = typed || iequals(f.name, "content-type");
    fields.push_back(f);
  }
  if (!typed) fields.push_back({"content-type", "application/json"});
  fields.push_back({"x-request-id", request_id_});
  fields.push_back({"accept-encoding", "identity"});

  link::open_request open;
  open.target = route_.engine_path.empty() ? route_.path : route_.engine_path;
  std::string with_query;
  if (!exchange_.head().query.empty()) {
    with_query.append(open.target).append("?").append(exchange_.head().query);
    open.target = with_query;
  }
  open.request_id = request_id_;
  open.model = scan_.model;
  open.route = route_.label;
  open.streaming = scan_.stream;
  open.buffered_head = route_.buffered_head && !scan_.stream;
  open.deadline_ns = deadline_ns_;
  open.fields = fields;
  open.body = body_;

  link::stream_failure why;
  stream_ = context_.hub->open(agent_, open, *this, std::make_unique<slot_keeper>(take_lease()), why);
  if (stream_) return;
  if (why.why != link::cause::protocol) return on_failed(why);
  // The client's own header fields do not fit the link: nobody else could take them either.
  end_attempt(attempt_result::terminal);
  api_error error = make_error("request_invalid", std::move(why.message));
  error.status = 431;
  refuse(ended::rejected_request, error);
}

void relay::forget_attempt() {
  mode_ = mode::none;
  let_go();
  engine_fields_.clear();
  engine_class_.clear();
  engine_message_.clear();
  usage_in_characters_ = until_close_ = error_cut_ = encoded_ = false;
  encoded_bytes_ = 0;
  exclude_ = true;
  sampled_ = false;
  dispatched_ns_ = now_ns();
}

void relay::retry(attempt_result result, api_error error, std::string_view cause) {
  stream_.reset();
  context_.records.on_attempt_failed(agent_, scan_.model, cause);
  if (provider_) return provider_failed(std::move(error));
  last_error_ = std::move(error);
  end_attempt(result);
  scanner_.reset();
  filter_.reset();
  usage_ = {};
  estimated_ = false;
  mode_ = mode::none;
  let_go();
  if (deadline_ns_ != request_deadline_ns_) {  // no stream has begun any more
    deadline_ns_ = request_deadline_ns_;
    context_.home.arm(*this, deadline_ns_);
  }
  if (holds_slot()) return look_for_agent();
  // A stream gave its forward slot back at HEAD; the next attempt needs one again.
  set_stage(&context_.stages.selecting);
  switch (context_.forwards.acquire(*this, true)) {
    case forward_line::answer::granted: return look_for_agent();
    default: return;
  }
}

// Some engines count characters where others count tokens; a quota must see one kind.
void relay::take_usage(link::usage told) {
  constexpr uint64_t characters_a_token = 4;
  if (!told.known) return;
  usage_ = told;
  if (!usage_in_characters_) return;
  for (uint64_t *n : {&usage_.prompt_tokens, &usage_.output_tokens}) *n = (*n + characters_a_token - 1) / characters_a_token;
  if (usage_.cached_tokens) *usage_.cached_tokens /= characters_a_token;
}

// More tokens than an engine may generate for the request and than the text holds that passed by: it counts something else, or lies.
// By the request alone a client could have its answers for nothing, with a limit that its engine knows by another name.
std::optional<uint64_t> relay::most_output(uint64_t counted) const {
  if (route_.speaks == dialect::responses) return std::nullopt;
  const auto most = scan_.most_output(one_prompt(route_));
  return most ? std::optional(std::max(*most, counted)) : std::nullopt;
}

void relay::end_attempt(attempt_result result, bool had_its_time) {
  if (!attempt_open_) return;
  attempt_open_ = false;
  if (committed_ || result == attempt_result::completed) settle_usage();
  if (result == attempt_result::completed) learn_tokens();
  routing::attempt_report report;
  report.what = result;
  report.exclude = exclude_;
  report.had_its_time = had_its_time;
  report.prompt_tokens = usage_.prompt_tokens;
  report.output_tokens = usage_.output_tokens;
  report.cached_tokens = usage_.cached_tokens.value_or(HIVE_TOKENS_UNKNOWN);
  session_->report(report);
}

// Once, when an answer is over or was cut: what the engine told, else what can be counted of it.
void relay::settle_usage() {
  if (route_.usage == usage_source::none) return;
  uint64_t text_bytes = 0;
  bool whole = true;
  if (mode_ == mode::stream) {
    const http::stream_facts &facts = scanner_->facts();
    take_usage({facts.usage.prompt, facts.usage.completion, facts.usage.cached, facts.usage.present});
    text_bytes = facts.delta_bytes;
    whole = facts.finished || facts.done;
  } else if (!committed_ && !encoded_ && route_.capability == "llm" && (!usage_.known || usage_.output_tokens > most_output(0).value_or(UINT64_MAX))) {
    text_bytes = answer_text_bytes(held_);
  }
  // Of a compressed answer only the size is known. What repeats from event to event costs next to nothing in it, so that its
  // bytes are about those of the text.
  if (encoded_ && route_.capability == "llm") text_bytes = encoded_bytes_;
  const uint64_t counted = estimate_.output(text_bytes);
  // A whole answer that was too large to be held has no text to compare with.
  const bool comparable = mode_ == mode::stream || encoded_ || !committed_;
  if (const auto most = most_output(counted); usage_.known && comparable && most && usage_.output_tokens > *most) {
    usage_.output_tokens = *most;
    estimated_ = true;  // nothing is learned of it
  }
  if (usage_.known && whole) return;
  // Some engines tell the prompt first and a count that grows: of a cut stream the larger is nearer.
  estimated_ = estimated_ || !usage_.known || counted > usage_.output_tokens;
  if (!usage_.known) usage_.prompt_tokens = estimate_.counted_prompt;
  usage_.output_tokens = std::max(usage_.output_tokens, counted);
}

void relay::on_exhausted(const routing::exhaustion &e) {
  if (e.provider != nullptr) return ask_provider(e);
  // What really happened says more than "nobody is left".
  if (last_error_ && e.code != "request_timeout") {
    const bool lost = last_error_->code == "agent_disconnected";
    const bool full = last_error_->code == "no_capacity";
    keep_longer_wait(*last_error_, e.code, e.retry_after_s);
    return refuse(lost ? ended::agent_lost : full ? ended::rejected_capacity : ended::engine_error, *last_error_);
  }
  if (e.code == "no_agents_available" && session_->attempts() == 0 && !context_.router.serves(scan_.model, route_.capability)) {
    std::string words = "model '" + scan_.model + "' cannot serve " + std::string(route_.path) + ": no agent offers it as ";
    words += route_.capability;
    return refuse(ended::rejected_request, make_error("request_invalid", std::move(words)));
  }
  std::string words(e.message);
  if (e.code == "model_not_found")
    if (const std::string near = context_.models->near(scan_.model, caller_.get()); !near.empty()) words += "; close matches: " + near;
  const api_error error = make_error(e.code, std::move(words), "router", e.retry_after_s);
  const ended how = e.code == "request_timeout" ? ended::deadline
                    : e.code == "no_capacity"   ? ended::rejected_capacity
                                                : ended::rejected_no_agent;
  refuse(how, error);
}

void relay::on_timer() {
  if (!body_ && !session_) return on_body_failed(http::body_error::timed_out);  // the client's own slowness
  // Blamed is only an agent that had the request and has not answered; a stream that runs is merely cut. One that was asked late
  // is not to blame for what was left to it, and that is no measure of it.
  const bool blame = stream_ && !committed_;
  const uint64_t had_ns = now_ns() - dispatched_ns_;
  const bool had_its_time = 2 * had_ns >= context_.options.request_timeout_ns;
  if (blame) context_.records.on_attempt_failed(agent_, scan_.model, to_string(link::cause::deadline));
  if (stream_ && !sampled_ && had_its_time) session_->sample(static_cast<double>(had_ns) / static_cast<double>(ns_per_ms));
  drop_stream(link::cause::deadline);
  end_attempt(blame ? attempt_result::timed_out : attempt_result::cancelled, had_its_time);
  const api_error error = make_error("request_timeout", "the request's deadline has passed");
  if (committed_) return break_off(ended::deadline, error);
  refuse(ended::deadline, error);
}

// For reasons of the request's own: the agent has done nothing wrong, and keeps what it was asked.
void relay::drop_stream(link::cause why) {
  if (stream_) {
    agent_has_it();
    stream_->cancel(why);
  }
  stream_.reset();
  take_lease();
}

void relay::on_gone(http::gone why) {
  const bool slow = why == http::gone::client_slow;
  drop_stream(slow ? link::cause::client_slow : link::cause::client_gone);
  end_attempt(attempt_result::cancelled);
  record(why == http::gone::shutdown ? ended::shutdown : slow ? ended::client_slow : ended::client_gone,
         committed_ && why != http::gone::client_left ? engine_status_ : 499, slow ? "client_slow" : "client_gone");
}

std::string relay::on_thrown(bool begun) {
  record(ended::failed, begun && engine_status_ != 0 ? engine_status_ : 500, "backend_error");
  return request_id_;
}

void relay::refuse(ended how, const api_error &error) {
  record(how, error.status, error.code);
  const std::string retry_after = std::to_string(error.retry_after_s);
  std::vector<http::field> fields = {{"Content-Type", "application/json; charset=utf-8"}, {"X-Request-ID", request_id_}};
  expose_routing(fields);
  session_.reset();
  context_.forwards.leave(*this);
  context_.forwards.release(*this);
  if (error.retry_after_s > 0) fields.push_back({"Retry-After", retry_after});
  if (quota_) exchange_.add_fields(quota_->header_lines());
  const std::string body = error_body(error, route_.speaks, request_id_);
  exchange_.respond({error.status, fields}, body);
}

void relay::record(ended how, int status, std::string_view code) {
  if (recorded_) return;
  recorded_ = true;
  disarm();
  if (stream_) agent_has_it();
  settle_admission();
  settle_quota();
  request_record r;
  r.request_id = request_id_;
  r.method = method_;
  r.route = route_.label;
  r.inference = true;
  r.client = client_;
  r.tenant = caller_->tenant;
  r.key_id = caller_->id;
  r.model = scan_.model;
  r.alias = alias_;
  r.model_known = provider_ ? model_claimed_ || context_.router.knows(scan_.model) : !agent_.empty() || context_.router.knows(scan_.model);
  r.agent = agent_;
  r.step = step_;
  if (provider_) {
    r.provider = provider_->engine;
    r.provider_model = provider_->model;
  }
  r.error_code = code;
  r.refused_by = to_string(refused_by_);
  r.token_limited = token_limited_;
  r.status = status;
  r.how = how;
  r.streaming = mode_ == mode::stream;
  r.attempts = session_ ? session_->attempts() : 0;
  r.queue_ns = session_ ? session_->queue_ns() : 0;
  r.started_unix_ms = started_unix_ms_;
  const uint64_t now = now_ns();
  r.duration_ns = now - started_ns_;
  r.first_byte_ns = first_byte_ns_ == 0 ? 0 : first_byte_ns_ - started_ns_;
  r.estimated_prompt_tokens = estimate_.prompt;
  r.declared_output_tokens = scan_.declared_output().value_or(0);
  r.output_footprint = output_footprint().value_or(0);
  r.usage = usage_;
  r.estimated = estimated_;
  context_.records.on_finished(r);
}

}  // namespace hive::gateway
