#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "gateway/answer_shape.hpp"
#include "gateway/answer_usage.hpp"
#include "gateway/error.hpp"
#include "gateway/field_rules.hpp"
#include "gateway/forward_line.hpp"
#include "gateway/routes.hpp"

namespace hive::gateway {
namespace {

TEST(error, every_code_of_the_sheet_has_its_status) {
  const std::pair<const char *, int> cases[] = {
      {"request_invalid", 400},     {"context_length_exceeded", 400}, {"invalid_parameter", 400}, {"unauthorized", 401},
      {"model_forbidden", 403},     {"model_not_found", 404},         {"rate_limit_exceeded", 429}, {"token_limit_exceeded", 429},
      {"no_agents_available", 503}, {"no_capacity", 503},             {"agent_disconnected", 503}, {"backend_unavailable", 503},
      {"queue_full", 503},          {"backend_error", 502},           {"request_timeout", 504},   {"nonsense", 500}};
  for (const auto &[code, status] : cases) EXPECT_EQ(make_error(code, "").status, status) << code;
}

TEST(error, the_envelope_is_json_in_both_dialects_whatever_the_message_holds) {
  const api_error error = make_error("backend_error", "bad \xff \"quote\"\n", "backend");
  const auto openai = boost::json::parse(error_body(error, dialect::openai, "id-1"));
  EXPECT_EQ(openai.at("error").at("code").as_string(), "backend_error");
  EXPECT_EQ(openai.at("error").at("message").as_string(), "bad \xef\xbf\xbd \"quote\"\n");
  EXPECT_EQ(openai.at("error").at("source").as_string(), "backend");
  const auto anthropic = boost::json::parse(error_body(make_error("no_capacity", "x"), dialect::anthropic, ""));
  EXPECT_EQ(anthropic.at("type").as_string(), "error");
  EXPECT_EQ(anthropic.at("error").at("type").as_string(), "overloaded_error");
}

TEST(error, a_stream_ends_with_an_event_of_its_routes_dialect) {
  const api_error error = make_error("agent_disconnected", "gone\nfor good");
  const struct { dialect speaks; const char *start; const char *message_at; } cases[] = {
      {dialect::openai, "data: {\"error\":", "/error/message"},
      {dialect::anthropic, "event: error\ndata: {\"type\":\"error\",\"error\":", "/error/message"},
      {dialect::responses, "event: error\ndata: {\"type\":\"error\",\"code\":\"agent_disconnected\",", "/message"}};
  for (const auto &c : cases) {
    const std::string event = error_event(error, c.speaks, "id-1");
    EXPECT_EQ(event.rfind(c.start, 0), 0u) << event;
    EXPECT_TRUE(event.ends_with("}\n\n"));
    const auto data = boost::json::parse(std::string_view(event).substr(event.find("data: ") + 6));
    EXPECT_EQ(data.at_pointer(c.message_at).as_string(), "gone\nfor good");
    EXPECT_EQ(data.at_pointer("/error/type").as_string(), "overloaded_error");
  }
}

TEST(error, of_two_waits_for_the_same_reason_the_longer_one_counts) {
  api_error busy = make_error("no_capacity", "busy", "router", 1);
  keep_longer_wait(busy, "no_agents_available", 30);
  EXPECT_EQ(busy.retry_after_s, 1u) << "another reason says nothing of this one";
  keep_longer_wait(busy, "no_capacity", 7);
  EXPECT_EQ(busy.retry_after_s, 7u);
  keep_longer_wait(busy, "no_capacity", 2);
  EXPECT_EQ(busy.retry_after_s, 7u);
}

TEST(routes, every_route_to_an_engine_may_be_asked_by_an_agent_and_no_other) {
  size_t reach = 0;
  for (const route &r : route_table()) {
    if (r.kind != route_kind::inference) continue;
    ++reach;
    EXPECT_TRUE(config::engine_path_allowed(r.path, {})) << r.path;
    EXPECT_EQ(r.method, "POST");
    EXPECT_FALSE(r.capability.empty()) << r.path;
  }
  EXPECT_EQ(reach, config::built_in_engine_paths().size());
}

TEST(routes, what_an_operator_allows_by_name_is_a_route_and_nothing_beside_it) {
  const std::vector<config::allowed_route> allowed = {*config::parse_allowed_route("tokenize"),
                                                      *config::parse_allowed_route("images/generations=llm")};
  const auto extra = extra_rows(allowed);
  const route_match m = find_route("POST", "/v1//tokenize/", extra);
  ASSERT_NE(m.found, nullptr);
  EXPECT_EQ(m.found->engine_path, "/tokenize");
  EXPECT_EQ(m.found->capability, "any");
  EXPECT_EQ(find_route("GET", "/v1/tokenize", extra).allow, "POST");
  EXPECT_EQ(find_route("POST", "/images/generations", extra).suggestion, "/v1/images/generations");
  for (const char *path : {"/v1/detokenize", "/tokenize", "/v1/tokenize/x", "/v1/images", "/v1/sleep"})
    EXPECT_EQ(find_route("POST", path, extra).found, nullptr) << path;
  EXPECT_EQ(find_route("POST", "/v1/tokenize").found, nullptr);
}

TEST(routes, the_dialect_of_a_path_is_known_also_when_it_is_refused) {
  EXPECT_EQ(find_route("GET", "/v1/messages").speaks, dialect::anthropic);
  EXPECT_EQ(find_route("POST", "/v1/messages/nothing").speaks, dialect::anthropic);
  EXPECT_EQ(find_route("POST", "/v1/messages/count_tokens").speaks, dialect::anthropic);
  EXPECT_EQ(find_route("POST", "/v1/responses").speaks, dialect::responses);
  EXPECT_EQ(find_route("POST", "/v1/nothing").speaks, dialect::openai);
}

TEST(answer_usage, is_found_at_either_end_of_a_large_answer_and_not_inside_its_text) {
  const std::string usage = "\"usage\": {\"prompt_tokens\":7,\"total_tokens\":7,\"completion_tokens\":3,\"details\":{\"x\":\"}\"}}";
  for (const std::string &part : {"0.1,0.2]}]," + usage + "}", "{\"model\":\"m\"," + usage + ",\"data\":[{\"emb",
                                  usage + ",\"x\":\"\\\"usage\\\":{\\\"prompt_tokens\\\":99}\"}"}) {
    const auto found = usage_of_part(part);
    EXPECT_TRUE(found.present) << part;
    EXPECT_EQ(found.prompt, 7u);
    EXPECT_EQ(found.completion, 3u);
  }
  for (const char *part : {"", "\"usage\"", "\"usage\":", "\"usage\":null}", "\"usage\":{\"prompt_tokens\":7", "\"usage\":{}}"})
    EXPECT_FALSE(usage_of_part(part).present) << part;
}

TEST(answer_shape, a_cut_anywhere_leaves_no_whole_object) {
  const std::string whole = R"({"a":{"b":[1,{}]},"text":"}\"} \\","c":"{"})";
  EXPECT_TRUE(is_one_object(whole));
  EXPECT_TRUE(is_one_object("\xEF\xBB\xBF \r\n" + whole + "\n\t "));
  for (size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(is_one_object(whole.substr(0, n))) << whole.substr(0, n);
  for (const char *other : {"[]", "{}{}", "{} x", "null", "\"{}\"", "x{}", "}", "{\"a\":\"}"}) EXPECT_FALSE(is_one_object(other)) << other;
}

TEST(answer_shape, first_and_last_byte_tell_an_object_from_everything_else_that_is_whole) {
  for (const char *object : {"{}", " {\"a\":1}\n", "\xEF\xBB\xBF{}"}) EXPECT_TRUE(looks_like_object(object)) << object;
  for (const char *other : {"", "{", "}", "[{}]", "<html>", "null", "{\"a\":1"}) EXPECT_FALSE(looks_like_object(other)) << other;
}

TEST(routes, paths_are_forgiving_under_v1_and_exact_under_admin) {
  const struct { const char *method, *path, *label, *argument; } found[] = {
      {"GET", "/health", "/health", ""},
      {"HEAD", "/health", "/health", ""},
      {"POST", "/v1/chat/completions", "/v1/chat/completions", ""},
      {"POST", "//v1///chat/completions/", "/v1/chat/completions", ""},
      {"GET", "/v1/models/", "/v1/models", ""},
      {"GET", "/v1/models/meta%2Fllama 3%25", "/v1/models/*model", "meta/llama 3%"},
      {"GET", "/v1/models/a//b/../c", "/v1/models/*model", "a//b/../c"},
      {"PUT", "/admin/policy", "/admin", "policy"},
  };
  for (const auto &c : found) {
    const route_match m = find_route(c.method, c.path);
    ASSERT_NE(m.found, nullptr) << c.path;
    EXPECT_EQ(m.found->label, c.label) << c.path;
    EXPECT_EQ(m.argument, c.argument) << c.path;
  }
}

TEST(routes, what_is_not_there_says_what_was_meant) {
  EXPECT_TRUE(find_route("GET", "/v1/chat/completions").known_path);
  EXPECT_EQ(find_route("GET", "/v1/chat/completions").allow, "POST");
  EXPECT_EQ(find_route("POST", "/chat/completions").suggestion, "/v1/chat/completions");
  EXPECT_EQ(find_route("POST", "/v1/v1/chat/completions").suggestion, "/v1/chat/completions");
  for (const char *path : {"/", "/v1", "/metrics", "/v1/load_lora_adapter", "/admin", "//admin/health", "/v1/../admin/health"})
    EXPECT_EQ(find_route("GET", path).found, nullptr) << path;
}

TEST(field_rules, credentials_and_hop_by_hop_fields_stop_here) {
  const http::field client[] = {{"Connection", "close"}, {"connection", "X-Other, X-Hop"}, {"X-Hop", "1"}};
  for (const char *name : {"Authorization", "x-API-key", "Api-Key", "COOKIE", "Proxy-Authorization", "Connection", "Transfer-Encoding", "Host",
                           "Content-Length", "Accept-Encoding", "X-Request-Id", "X-Forwarded-For", "x-forwarded-proto", "X-Forwarded-Port", "Proxy-Connection",
                           "proxy-anything",
                           "X-Real-IP", "Forwarded", "x-hop"})
    EXPECT_FALSE(goes_to_engine(name, client)) << name;
  for (const char *name : {"Content-Type", "anthropic-version", "traceparent", "X-OpenWebUI-User-Id", "User-Agent"})
    EXPECT_TRUE(goes_to_engine(name, client)) << name;
  for (const char *name : {"Server", "date", "Content-Length", "Access-Control-Allow-Origin", "X-RateLimit-Limit", "x-request-id",
                           "Set-Cookie", "set-cookie2", "WWW-Authenticate", "Location", "Strict-Transport-Security", "Alt-Svc", "Clear-Site-Data",
                           "X-Hivenet-Agent", "x-hivenet-anything", "X-Accel-Redirect", "x-accel-buffering", "X-Sendfile", "X-Reproxy-URL", "Refresh",
                           "Content-Security-Policy", "Proxy-Authenticate"})
    EXPECT_FALSE(goes_to_client(name)) << name;
  for (const char *name : {"Content-Type", "Cache-Control", "openai-processing-ms", "X-Accelerator", "Retry-After", "Content-Location"})
    EXPECT_TRUE(goes_to_client(name)) << name;
}

struct waiter : forward_waiter {
  waiter(loop &l, std::vector<int> &o, int i) : forward_waiter(l), order(o), id(i) {}
  void on_forward_slot() override { order.push_back(id); }
  void on_forward_refused() override { order.push_back(-id); }
  std::vector<int> &order;
  int id;
};

void run_ready(loop &l) {
  l.io().restart();
  l.io().poll();
}

// waiting.md P12 and property 9.
TEST(forward_line, slots_go_in_order_and_those_with_a_lease_first) {
  loop l;
  std::vector<int> order;
  forward_line line(1, 10);
  waiter a(l, order, 1), b(l, order, 2), c(l, order, 3), d(l, order, 4);
  EXPECT_EQ(line.acquire(a, false), forward_line::answer::granted);
  EXPECT_EQ(line.acquire(b, false), forward_line::answer::waiting);
  EXPECT_EQ(line.acquire(c, true), forward_line::answer::waiting);
  EXPECT_EQ(line.acquire(d, true), forward_line::answer::waiting);
  for (waiter *w : {&a, &c, &d, &b}) {
    EXPECT_TRUE(w->holds_slot());
    line.release(*w);
    run_ready(l);
  }
  EXPECT_EQ(order, (std::vector<int>{3, 4, 2}));
  EXPECT_EQ(line.in_use(), 0u);
}

TEST(forward_line, a_newcomer_does_not_pass_those_who_wait) {
  loop l;
  std::vector<int> order;
  forward_line line(1, 10);
  waiter a(l, order, 1), b(l, order, 2), c(l, order, 3);
  line.acquire(a, false);
  line.acquire(b, false);
  line.release(a);  // the slot is on its way to b
  EXPECT_EQ(line.acquire(c, false), forward_line::answer::waiting);
  run_ready(l);
  EXPECT_TRUE(b.holds_slot());
  EXPECT_FALSE(c.holds_slot());
}

TEST(forward_line, a_slot_on_its_way_to_one_who_left_is_passed_on) {
  loop l;
  std::vector<int> order;
  forward_line line(1, 10);
  waiter a(l, order, 1), c(l, order, 3);
  {
    waiter b(l, order, 2);
    line.acquire(a, false);
    line.acquire(b, false);
    line.acquire(c, false);
    line.release(a);
  }
  run_ready(l);
  run_ready(l);
  EXPECT_EQ(order, (std::vector<int>{3}));
  EXPECT_EQ(line.in_use(), 1u);
}

TEST(forward_line, the_line_is_bounded_and_the_overflow_waits_only_a_while) {
  loop l;
  std::vector<int> order;
  forward_line line(1, 1, 20 * ns_per_ms);
  waiter a(l, order, 1), b(l, order, 2), c(l, order, 3), d(l, order, 4);
  line.acquire(a, false);
  EXPECT_EQ(line.acquire(b, false), forward_line::answer::waiting);
  EXPECT_EQ(line.acquire(c, false), forward_line::answer::waiting);
  EXPECT_EQ(line.acquire(d, false), forward_line::answer::full);
  for (const uint64_t end = now_ns() + 10 * ns_per_s; order.empty() && now_ns() < end;) l.io().run_one_for(std::chrono::milliseconds(5));
  run_ready(l);
  EXPECT_EQ(order, (std::vector<int>{-3}));
  EXPECT_EQ(line.waiting(), 1u);
}

// Whoever is refused is told to come back after that.
TEST(forward_line, knows_its_own_speed_by_those_who_waited) {
  loop l;
  manual_clock clock;
  std::vector<int> order;
  forward_line line(1, 10, 5 * ns_per_s, &clock);
  waiter a(l, order, 1), b(l, order, 2), c(l, order, 3), d(l, order, 4), e(l, order, 5), leased(l, order, 6);
  for (waiter *w : {&a, &b, &c, &d, &e}) line.acquire(*w, false);
  for (waiter *w : {&a, &b}) {
    clock.advance(3 * ns_per_s);
    line.release(*w);
    run_ready(l);
  }
  EXPECT_EQ(line.gap_ns(), 0u) << "two are no measurement";
  clock.advance(3 * ns_per_s);
  line.release(c);
  run_ready(l);
  ASSERT_TRUE(d.holds_slot());
  EXPECT_EQ(line.gap_ns(), 3 * ns_per_s);
  line.acquire(leased, true);
  clock.advance(ns_per_s);
  line.release(d);
  run_ready(l);
  ASSERT_TRUE(leased.holds_slot());
  EXPECT_EQ(line.gap_ns(), 3 * ns_per_s) << "a slot that goes past the line moves nobody in it";
  clock.advance(2 * ns_per_s);
  line.release(leased);
  run_ready(l);
  ASSERT_TRUE(e.holds_slot());
  EXPECT_EQ(line.gap_ns(), 3 * ns_per_s);
  // An hour in which nobody waited is no gap.
  clock.advance(3600 * ns_per_s);
  EXPECT_EQ(line.gap_ns(), 0u) << "old";
  line.acquire(a, false);
  clock.advance(3 * ns_per_s);
  line.release(e);
  run_ready(l);
  EXPECT_EQ(line.gap_ns(), 3 * ns_per_s);
}

}  // namespace
}  // namespace hive::gateway
