#include "gateway/worker.hpp"

#include <memory>
#include <utility>

#include "base/digest.hpp"
#include "base/text.hpp"
#include "gateway/auth_throttle.hpp"
#include "gateway/key_rules.hpp"
#include "gateway/relay.hpp"
#include "gateway/request_material.hpp"
#include "tenancy/credential.hpp"

namespace hive::gateway {

namespace {

uint64_t wait_after_failures(const worker_context &c, const http::exchange &e) {
  const uint64_t now = now_ns();
  return c.throttle == nullptr || c.throttle->nobody_waits(now) ? 0 : c.throttle->wait_s(client_of(c, e), now);
}

void count_failure(const worker_context &c, const http::exchange &e) {
  if (c.throttle != nullptr) c.throttle->failed(client_of(c, e), now_ns());
}

// Nothing is left to do for an answer that was complete at once.
struct answered final : http::responder {};

// Collects an admin request's body, hands it to the control thread, and brings the answer back to this loop. Without a key that
// opens /admin no body is read; the control thread still answers, so that every refusal is made in one place.
class admin_relay final : public http::responder, private loop_timer {
 public:
  admin_relay(worker_context &context, http::exchange &exchange, admin_port &port, std::string request_id)
      : context_(context), exchange_(exchange), port_(port), started_ns_(exchange.arrived_ns()), started_unix_ms_(unix_ms()) {
    request_.method = exchange.head().method;
    request_.path = exchange.head().path;
    request_.query = exchange.head().query;
    request_.client = client_of(context, exchange);
    request_.request_id = std::move(request_id);
    // Which of two that differ counts would be a guess: none does.
    const bool conflicting = tenancy::credential_of(exchange.head().fields).conflicting;
    if (!conflicting)
      if (const auto *f = http::find_field(exchange.head().fields, "authorization")) request_.authorization = f->value;
    if (conflicting) denied_ = tenancy::denial::two_credentials;
    else if (tenancy::key_in(request_.authorization).value_or("").empty()) denied_ = tenancy::denial::no_key;
    if (const auto *f = http::find_field(exchange.head().fields, "if-match")) request_.if_match = f->value;
    if (request_.path == "/admin/explain")
      for (const http::field &f : exchange.head().fields)
        if (goes_to_components(f.name, exchange.head().fields)) request_.fields.emplace_back(f.name, f.value);
    context_.records.on_started(request_.method, "/admin");
  }

  ~admin_relay() override {
    *alive_ = nullptr;
    wipe(request_.authorization);
  }

  void start() {
    if (const uint64_t wait_s = wait_after_failures(context_, exchange_)) return refuse(too_many_failures(wait_s));
    context_.home.arm(*this, started_ns_ + context_.options.request_timeout_ns);
    if (auto who = port_.opens(request_.authorization)) {
      opened_ = true;
      request_.caller = *std::move(who);
      most_body_bytes_ = port_.most_body_bytes(request_.method, request_.path);
      return exchange_.read_body(most_body_bytes_);
    }
    if (denied_ == tenancy::denial::unknown_key) count_failure(context_, exchange_);
    wipe(request_.authorization);  // a key that is read in the meantime lets nobody in whose body was not
    ask();
  }

  void on_body(http::body_ptr body) override {
    ask(*body);
  }

  void on_body_failed(http::body_error why) override {
    admin_answer answer;
    answer.status = why == http::body_error::too_large ? 413 : why == http::body_error::timed_out ? 408 : 400;
    answer.body = plain_error_body(why == http::body_error::too_large
                                       ? "request body too large: the limit is " + std::to_string(most_body_bytes_ >> 20) + " MiB"
                                       : "the request body could not be read");
    finish(answer);
  }

  void on_gone(http::gone) override {
    disarm();
    record(499, "/admin", ended::client_gone);
  }

  std::string on_thrown(bool) override {
    disarm();
    *alive_ = nullptr;
    record(500, "/admin", ended::failed);
    return request_.request_id;
  }

 private:
  void ask(std::string_view body = {}) {
    auto reply = [home = &context_.home, alive = alive_](admin_answer answer) {
      home->post([alive, answer = std::move(answer)] {
        if (*alive != nullptr) (*alive)->finish(answer);
      });
    };
    admin_request asked = request_;
    asked.body = body;
    port_.handle(std::move(asked), std::move(reply));
  }

  // The control thread is busy or stuck. What was asked for may still happen.
  void on_timer() override {
    admin_answer answer;
    answer.status = 504;
    answer.body = plain_error_body("the request's deadline has passed before the router could answer; the change may still be made");
    finish(answer);
  }

  void refuse(const api_error &error) {
    admin_answer answer;
    answer.status = error.status;
    answer.body = plain_error_body(error.message);
    answer.fields.emplace_back("Retry-After", std::to_string(error.retry_after_s));
    finish(answer);
  }

  void finish(const admin_answer &answer) {
    disarm();
    *alive_ = nullptr;
    record(answer.status, answer.route.empty() ? "/admin" : answer.route,
           answer.status < 400     ? ended::completed
           : answer.status == 401 || answer.status == 429 ? ended::rejected_auth
           : answer.status < 500  ? ended::rejected_request
                                  : ended::failed);
    std::vector<http::field> fields = {{"Content-Type", answer.content_type}, {"X-Request-ID", request_.request_id}};
    for (const auto &[name, value] : answer.fields) fields.push_back({name, value});
    exchange_.respond({answer.status, fields}, answer.body);
  }

  void record(int status, std::string_view route, ended how) {
    request_record r;
    r.request_id = request_.request_id;
    r.method = request_.method;
    r.route = route;
    r.started_as = "/admin";
    r.at = surface::admin;
    r.client = request_.client;
    r.tenant = opened_ && how != ended::rejected_auth ? "admin" : "";
    r.status = status;
    r.how = how;
    if (status == 401) r.denied = denied_;
    r.started_unix_ms = started_unix_ms_;
    r.duration_ns = now_ns() - started_ns_;
    context_.records.on_finished(r);
  }

  worker_context &context_;
  http::exchange &exchange_;
  admin_port &port_;
  admin_request request_;      // without its body
  uint64_t most_body_bytes_ = 0;
  bool opened_ = false;        // /admin, by the port, for whoever asks here
  tenancy::denial denied_ = tenancy::denial::unknown_key;  // why a 401, if it comes to one
  const uint64_t started_ns_;
  const uint64_t started_unix_ms_;
  std::shared_ptr<admin_relay *> alive_ = std::make_shared<admin_relay *>(this);  // touched on this loop only
};

bool is_health(route_kind k) { return k == route_kind::health || k == route_kind::ready; }

std::string request_id_of(const http::request_head &head) {
  const http::field *f = http::find_field(head.fields, "x-request-id");
  return f != nullptr && is_uuid(f->value) ? std::string(f->value) : make_uuid();
}

}  // namespace

void worker::take(http::exchange &exchange, part which) {
  std::string request_id = request_id_of(exchange.head());
  if (which != part::admin) {
    if (const std::string lines = cors_.lines_for(exchange.head()); !lines.empty()) exchange.add_fields(lines);
    if (cors_.is_preflight(exchange.head())) return answer_preflight(exchange, request_id);
  }
  route_match match = find_route(exchange.head().method, exchange.head().path, extra_);
  // Where each has a listener of its own, the other's routes are not even known.
  const bool admin = match.found != nullptr && match.found->kind == route_kind::admin;
  if (which == part::clients && admin) match = {};
  if (which == part::admin && !admin && (match.found == nullptr || !is_health(match.found->kind))) match = {};
  // Some routes are shared by both kinds of clients; Anthropic's say who they are.
  const bool shared = match.found == nullptr || match.found->kind != route_kind::inference;
  const bool anthropic = shared && http::find_field(exchange.head().fields, "anthropic-version") != nullptr;
  const dialect speaks = anthropic ? dialect::anthropic : match.speaks;
  asked what{match.found == nullptr ? std::string_view("unmatched") : match.found->label, request_id, speaks};
  if (match.found == nullptr) {
    if (match.known_path)
      return refuse(exchange, what, make_error("method_not_allowed", "this path answers to " + std::string(match.allow)), match.allow);
    std::string message = "no such route";
    if (!match.suggestion.empty()) message += "; did you mean " + match.suggestion + "?";
    return refuse(exchange, what, make_error("not_found", std::move(message)));
  }
  const route &r = *match.found;
  tenancy::caller who;
  if (r.kind != route_kind::health && r.kind != route_kind::ready && r.kind != route_kind::admin) {
    if (const uint64_t wait_s = wait_after_failures(context_, exchange)) return refuse(exchange, what, too_many_failures(wait_s));
    tenancy::identified caller = keys_->identify(exchange.head().fields, unix_ms());
    if (!caller.who) {
      if (caller.looked_up) count_failure(context_, exchange);
      return refuse(exchange, what, unauthorized(caller.why), {}, caller.why);
    }
    who = std::move(caller.who);
    what.who = who.get();
  }
  switch (r.kind) {
    case route_kind::health: return answer(exchange, what, {200, "{\"status\":\"ok\"}"});
    case route_kind::ready: {
      const char *why = ready_.why_not();
      if (why == nullptr) return answer(exchange, what, {200, "{\"status\":\"ready\"}"});
      return answer(exchange, what, {503, std::string("{\"status\":\"not_ready\",\"reason\":\"") + why + "\"}"});
    }
    case route_kind::models: return answer(exchange, what, {200, models_.list(who.get(), anthropic)});
    case route_kind::model_detail: return show_model(exchange, what, match.argument);
    case route_kind::admin: {
      auto relay = std::make_unique<admin_relay>(context_, exchange, admin_, request_id);
      admin_relay &started = *relay;
      exchange.serve(std::move(relay));
      return started.start();
    }
    case route_kind::inference: break;
  }
  if (draining_) return refuse(exchange, what, make_error("shutting_down", "the router is shutting down", "router", 1));
  auto next = std::make_unique<relay>(context_, exchange, r, std::move(request_id), std::move(who));
  relay &started = *next;
  exchange.serve(std::move(next));
  started.start();
}

void worker::answer_preflight(http::exchange &exchange, const std::string &request_id) {
  request_record record;
  record.request_id = request_id;
  record.method = exchange.head().method;
  record.route = "unmatched";  // no route has the method; the path is whatever a page asked for
  const std::string client = client_of(context_, exchange);
  record.client = client;
  record.status = 204;
  record.how = ended::completed;
  record.started_unix_ms = unix_ms();
  record.duration_ns = now_ns() - exchange.arrived_ns();
  context_.records.on_started(record.method, record.route);
  context_.records.on_finished(record);
  auto fields = cors_.permissions(exchange.head());
  fields.push_back({"X-Request-ID", request_id});
  exchange.serve(std::make_unique<answered>());
  exchange.respond({204, fields}, {});
}

void worker::shut_down() {
  for (detail::hook *h = live_.next; h != &live_;) {
    relay &one = relay::of(*h);
    h = h->next;
    one.shut_down();
  }
}

void worker::relieve() {
  relay *largest = nullptr;
  size_t most = context_.options.short_stream_bytes;
  for (detail::hook *h = live_.next; h != &live_; h = h->next) {
    relay &one = relay::of(*h);
    if (one.over() || one.unsent() <= most) continue;
    most = one.unsent();
    largest = &one;
  }
  if (largest == nullptr) return;
  context_.memory->budget().slow_streams_ended.fetch_add(1, std::memory_order_relaxed);
  largest->end_slow();
}

void worker::show_model(http::exchange &exchange, const asked &what, const std::string &id) {
  const std::string body = models_.detail(id, what.who, what.speaks == dialect::anthropic);
  if (!body.empty()) return answer(exchange, what, {200, body});
  std::string message = "model not found";
  if (const std::string near = models_.near(id, what.who); !near.empty()) message += "; close matches: " + near;
  refuse(exchange, what, make_error("model_not_found", std::move(message)));
}

void worker::refuse(http::exchange &exchange, const asked &what, const api_error &error, std::string_view allow, tenancy::denial denied) {
  answer(exchange, what, {error.status, error_body(error, what.speaks, what.request_id), error.code, allow, error.retry_after_s, denied});
}

void worker::answer(http::exchange &exchange, const asked &what, const own_answer &a) {
  const std::string client = client_of(context_, exchange);
  request_record record;
  record.request_id = what.request_id;
  record.method = exchange.head().method;
  record.route = what.route;
  record.client = client;
  if (what.who != nullptr) {
    record.tenant = what.who->tenant;
    record.key_id = what.who->id;
  }
  record.status = a.status;
  record.error_code = a.code;
  record.denied = a.denied;
  const bool guess = a.status == 401 || (a.status == 429 && what.who == nullptr);
  record.how = a.status < 400 ? ended::completed : guess ? ended::rejected_auth : ended::rejected_request;
  record.started_unix_ms = unix_ms();
  record.duration_ns = now_ns() - exchange.arrived_ns();
  context_.records.on_started(record.method, record.route);
  context_.records.on_finished(record);
  std::vector<http::field> fields = {{"Content-Type", "application/json; charset=utf-8"}, {"X-Request-ID", what.request_id}};
  if (!a.allow.empty()) fields.push_back({"Allow", a.allow});
  if (a.status == 401) fields.push_back({"WWW-Authenticate", "Bearer realm=\"hivenet-router\""});
  const std::string wait = std::to_string(a.status == 503 ? 1 : a.retry_after_s);
  if (wait != "0") fields.push_back({"Retry-After", wait});
  exchange.serve(std::make_unique<answered>());
  exchange.respond({a.status, fields}, a.body);
}

// Nobody answers it, and nobody has a record of it yet.
std::string worker::on_thrown(http::exchange &exchange) {
  std::string request_id = request_id_of(exchange.head());
  const std::string client = client_of(context_, exchange);
  request_record record;
  record.request_id = request_id;
  record.method = exchange.head().method;
  record.route = "unmatched";
  record.client = client;
  record.status = 500;
  record.how = ended::failed;
  record.duration_ns = now_ns() - exchange.arrived_ns();
  record.started_unix_ms = unix_ms() - record.duration_ns / ns_per_ms;
  context_.records.on_started(record.method, record.route);
  context_.records.on_finished(record);
  return request_id;
}

// What it asked for is not known, so it is nobody's, of no method and of no route.
std::string worker::on_head_refused(int status, std::string_view client_address, uint64_t began_ns) {
  std::string request_id = make_uuid();
  const std::string client = context_.proxies.client_of(client_address, {});
  request_record record;
  record.request_id = request_id;
  record.route = "unmatched";
  record.client = client;
  record.status = status;
  record.error_code = "request_invalid";
  record.how = ended::rejected_request;
  record.duration_ns = now_ns() - began_ns;
  record.started_unix_ms = unix_ms() - record.duration_ns / ns_per_ms;
  context_.records.on_started(record.method, record.route);
  context_.records.on_finished(record);
  return request_id;
}

std::string worker::refusal_body(int status, std::string_view what) {
  api_error error = make_error(status == 500 ? "backend_error" : "request_invalid", std::string(what));
  error.status = status;
  return error_body(error, dialect::openai, {});
}

}  // namespace hive::gateway
