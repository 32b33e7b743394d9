// Every request that reaches a worker leaves one record, whatever becomes of it, and nothing behind.
#include <gmock/gmock.h>

#include "gateway/edge_bed.hpp"

namespace hive::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct edge : ::testing::Test {
  static std::string with_body(const std::string &head, const std::string &body) {
    return head + "Host: x\r\nAuthorization: Bearer " + testing::client_secret + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  static std::string chat(const std::string &words, bool stream = false) {
    return with_body("POST /v1/chat/completions HTTP/1.1\r\nCookie: a=b\r\nX-Api-Key: " + std::string(testing::client_secret) + "\r\n",
                     R"({"model":"m","stream":)" + std::string(stream ? "true" : "false") + R"(,"messages":[{"role":"user","content":")" + words + "\"}]}");
  }
  static std::string get(const std::string &path, const std::string &fields = "") {
    return "GET " + path + " HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n";
  }
  testing::edge_bed bed;
};

// The same with every byte counted against a budget of 1 MiB, and an alias.
struct edge_in_budget : ::testing::Test {
  static constexpr size_t kib = 1024;
  edge_in_budget() {
    names.set({{"alias", "m"}});
    bed.options.names = &names;
    bed.options.max_body_bytes = 1024 * kib;
    bed.core.limits.memory = bed.context.memory = &share;
    bed.open_gateway(bed.key());
  }
  // All of it, however little the socket takes at once.
  bool send(int fd, std::string_view wire) {
    for (int i = 0; i < 10'000 && !wire.empty(); ++i) {
      if (const ssize_t n = ::send(fd, wire.data(), wire.size(), MSG_NOSIGNAL); n > 0) wire.remove_prefix(static_cast<size_t>(n));
      bed.settle();
    }
    return wire.empty();
  }
  model_names names;
  byte_budget budget{1024 * kib};
  byte_share share{budget};
  testing::edge_bed bed;
};

TEST_F(edge, each_request_has_one_record_with_the_status_that_was_sent) {
  const std::string key = std::string("Authorization: Bearer ") + testing::client_secret + "\r\n";
  const std::string admin = std::string("Authorization: Bearer ") + testing::admin_secret + "\r\n";
  const struct { std::string wire; int status; ended how; const char *route, *tenant; } cases[] = {
      {get("/health"), 200, ended::completed, "/health", ""},
      {get("/v1/models", key), 200, ended::completed, "/v1/models", "edge"},
      {get("/v1/models"), 401, ended::rejected_auth, "/v1/models", ""},
      {get("/v1/models", admin), 401, ended::rejected_auth, "/v1/models", ""},
      {get("/admin/x", key), 401, ended::rejected_auth, "/admin/edge", ""},
      {get("/admin/x", admin), 200, ended::completed, "/admin/edge", "admin"},
      {get("/admin/x", admin + "Authorization: Bearer another\r\n"), 401, ended::rejected_auth, "/admin/edge", ""},
      {get("/admin/x", "X-Api-Key: another\r\n" + admin), 401, ended::rejected_auth, "/admin/edge", ""},
      {get("/admin/x", admin + "X-Api-Key: " + testing::admin_secret + "\r\n" + admin), 200, ended::completed, "/admin/edge", "admin"},
      {get("/nothing"), 404, ended::rejected_request, "unmatched", ""},
      {"PATCH /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", 405, ended::rejected_request, "unmatched", ""},
      {"no request\r\n\r\n", 400, ended::rejected_request, "unmatched", ""},
      {chat("hello"), 200, ended::completed, "/v1/chat/completions", "edge"},
      {chat("hello", true), 200, ended::completed, "/v1/chat/completions", "edge"},
      {chat("engine-fails"), 502, ended::engine_error, "/v1/chat/completions", "edge"},
      {chat("engine-refuses"), 400, ended::rejected_by_engine, "/v1/chat/completions", "edge"},
      {chat("engine-cuts", true), 200, ended::engine_error, "/v1/chat/completions", "edge"},
      {chat(std::string(5000, 'x')), 413, ended::rejected_request, "/v1/chat/completions", "edge"},
      {with_body("POST /v1/chat/completions HTTP/1.1\r\n", "{"), 400, ended::rejected_request, "/v1/chat/completions", "edge"},
  };
  for (const auto &c : cases) {
    bed.forget();
    const std::string answer = bed.ask(c.wire);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 " + std::to_string(c.status) + " ")) << c.wire;
    ASSERT_EQ(bed.records.all.size(), 1u) << c.wire;
    const auto &r = bed.records.all[0];
    EXPECT_EQ(bed.records.started, 1u) << c.wire;
    EXPECT_EQ(r.status, c.status) << c.wire;
    EXPECT_EQ(to_string(r.how), to_string(c.how)) << c.wire;
    EXPECT_EQ(r.route, c.route) << c.wire;
    EXPECT_EQ(r.tenant, c.tenant) << c.wire;
    EXPECT_EQ(r.client, "192.0.2.1");
    EXPECT_THAT(answer, HasSubstr("X-Request-ID: " + r.request_id + "\r\n"));
    EXPECT_TRUE(bed.at_rest()) << c.wire;
  }
  EXPECT_FALSE(bed.behind.saw_credential) << "a client's credentials end here";
}

TEST_F(edge, a_record_says_why_nobody_was_let_in) {
  const auto bearer = [](const std::string &key) { return "Authorization: Bearer " + key + "\r\n"; };
  std::vector<tenancy::client_key> keys(3);
  for (tenancy::client_key &key : keys) key.tenant = "edge";
  keys[0].hash = sha256(testing::client_secret);
  keys[1].hash = sha256("off");
  keys[1].enabled = false;
  keys[2].hash = sha256("old");
  keys[2].expires_unix_ms = 1;
  bed.gateway->set_keys(tenancy::keyring::of(keys));
  const std::string good = bearer(testing::client_secret), admin = bearer(testing::admin_secret), both = "X-Api-Key: another\r\n";
  const struct { std::string path, fields, why; } cases[] = {
      {"/v1/models", good, ""},           {"/v1/models", "", "no_key"},
      {"/v1/models", admin, "unknown_key"}, {"/v1/models", bearer("off"), "disabled_key"},
      {"/v1/models", bearer("old"), "expired_key"}, {"/v1/models", good + both, "two_credentials"},
      {"/nothing", "", ""},               {"/admin/x", admin, ""},
      {"/admin/x", "", "no_key"},         {"/admin/x", "Authorization: Bearer \r\n", "no_key"},
      {"/admin/x", good, "unknown_key"},  {"/admin/x", admin + both, "two_credentials"},
      {"/admin/x", "Authorization: Basic eDp5\r\n", "no_key"}};
  for (const auto &c : cases) {
    bed.forget();
    (void)bed.ask(get(c.path, c.fields));
    ASSERT_EQ(bed.records.all.size(), 1u) << c.path;
    EXPECT_EQ(to_string(bed.records.all[0].denied), c.why) << c.path << ": " << c.fields;
    EXPECT_EQ(bed.records.all[0].status == 401, !c.why.empty()) << c.path << ": " << c.fields;
  }
}

// Naive variant: the router's own copy is a string like any other, and the count ends with the body that it was made of.
TEST_F(edge_in_budget, a_body_counts_also_after_the_router_has_written_into_it) {
  const std::string post = "POST /v1/chat/completions HTTP/1.1\r\n";
  const std::string words = R"("messages":[{"role":"user","content":"engine-hangs)" + std::string(700 * kib, 'x') + R"("}]})";
  for (const char *before : {R"({"model":"m","stream":true,)", R"({"model":"alias",)", R"({"model":"alias","stream":true,)"}) {
    const int opens = bed.behind.opens;
    const int fd = bed.connect();
    ASSERT_TRUE(send(fd, edge::with_body(post, before + words))) << before;
    EXPECT_EQ(bed.behind.opens, opens + 1) << before;
    EXPECT_GE(budget.held() + byte_share::step, 700 * kib) << before;
    const std::string head = post + "Host: x\r\nAuthorization: Bearer " + testing::client_secret + "\r\nContent-Length: 716800\r\n\r\n";
    EXPECT_THAT(bed.ask(head), StartsWith("HTTP/1.1 503 ")) << before << ": not a byte of its body was asked for";
    ::close(fd);
    bed.settle();
    EXPECT_EQ(budget.held(), 0u) << before;
  }
}

// Naive variant: the prompt is charged once a stream is open, whatever the agent says to it.
TEST_F(edge, what_the_agent_refuses_costs_nothing_of_the_day_and_what_it_takes_does) {
  tenancy::client_key key;
  key.hash = sha256(testing::client_secret);
  key.tenant = "edge";
  key.tokens_per_day = 100'000;
  bed.gateway->set_keys(tenancy::keyring::of({key}));
  uint64_t before = 0;
  for (const char *words : {"engine-hangs", "engine-is-lost", "hello"}) {
    bed.ask(chat(words));
    EXPECT_GT(bed.quotas.days().used("edge"), before) << words;
    before = bed.quotas.days().used("edge");
  }
  const int opens = bed.behind.opens;
  bed.ask(chat("engine-is-busy"));
  EXPECT_GT(bed.behind.opens, opens);
  EXPECT_EQ(bed.quotas.days().used("edge"), before);
}

// Naive variant: all but a 200 has failed, and another agent is asked to do it again.
TEST_F(edge, any_2xx_is_an_answer_of_the_routes_that_an_operator_allows) {
  bed.options.extra_routes = {*config::parse_allowed_route("tokenize")};
  bed.open_gateway(bed.key());
  const struct { const char *path, *words; int status; const char *tail; } cases[] = {
      {"/v1/tokenize", "engine-takes-it", 202, "\r\nContent-Length: 9\r\n\r\n{\"job\":1}"},
      {"/v1/tokenize", "engine-has-nothing", 204, "\r\n\r\n"},
      {"/v1/completions", "engine-takes-it", 502, "}"},
      {"/v1/completions", "engine-has-nothing", 502, "}"}};
  for (const auto &c : cases) {
    bed.forget();
    const int opens = bed.behind.opens;
    const std::string answer =
        bed.ask(with_body(std::string("POST ") + c.path + " HTTP/1.1\r\n", std::string(R"({"model":"m","prompt":")") + c.words + "\"}"));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 " + std::to_string(c.status) + " ")) << c.path << ' ' << c.words;
    EXPECT_THAT(answer, ::testing::EndsWith(c.tail)) << c.path << ' ' << c.words;
    EXPECT_EQ(bed.behind.opens, opens + 1) << c.path << ' ' << c.words;
    ASSERT_EQ(bed.records.all.size(), 1u);
    EXPECT_EQ(bed.records.all[0].status, c.status) << c.path << ' ' << c.words;
    EXPECT_EQ(to_string(bed.records.all[0].how), c.status == 502 ? "engine_error" : "completed") << c.path << ' ' << c.words;
    EXPECT_TRUE(bed.at_rest());
  }
}

// Naive variant: names are checked against the list of those that stay behind and written as they are.
TEST_F(edge, an_agent_puts_no_line_of_its_own_into_an_answer) {
  const std::string answer = lower(bed.ask(chat("engine-injects")));
  EXPECT_THAT(answer, StartsWith("http/1.1 200 "));
  EXPECT_THAT(answer, HasSubstr("\r\nx-c: 3  set-cookie: s=3\r\n"));
  for (const char *line : {"\nx-a", "\nx-b", "\nset-cookie"}) EXPECT_THAT(answer, Not(HasSubstr(line))) << line;
}

// Naive variant: the limit of one answer must fit, and four come.
TEST_F(edge, what_is_left_of_the_day_must_hold_each_choice_of_each_prompt) {
  tenancy::client_key key = bed.key();
  key.tokens_per_day = 500;
  bed.open_gateway(key);
  const struct { const char *route, *fields; bool fits; } cases[] = {
      {"chat/completions", R"("messages":[],"max_tokens":300,"n":2)", false},
      {"completions", R"("prompt":"a","max_tokens":300,"best_of":2)", false},
      {"completions", R"("prompt":["a","b"],"max_tokens":300)", false},
      {"completions", R"("prompt":[1,2,3],"max_tokens":300)", true},
      {"chat/completions", R"("messages":[],"prompt":["a","b"],"max_tokens":300,"n":1)", true}};
  for (const auto &c : cases) {
    const int opens = bed.behind.opens;
    const std::string answer = bed.ask(with_body("POST /v1/" + std::string(c.route) + " HTTP/1.1\r\n", R"({"model":"m",)" + std::string(c.fields) + "}"));
    EXPECT_THAT(answer, StartsWith(c.fits ? "HTTP/1.1 200 " : "HTTP/1.1 429 ")) << c.fields;
    EXPECT_EQ(answer.find("token_limit_exceeded") == std::string::npos, c.fits) << c.fields;
    EXPECT_EQ(bed.behind.opens, opens + (c.fits ? 1 : 0)) << c.fields;
  }
}

// Engines that fold names serve the second model. Naive variant: keys are compared byte by byte.
TEST_F(edge, a_key_for_one_model_names_no_other_by_another_spelling) {
  tenancy::client_key key = bed.key();
  key.models = {"m"};
  bed.open_gateway(key);
  const int opens = bed.behind.opens;
  for (const char *other : {R"("Model":"big")", R"("MODEL":"big")", R"("\u004dodel":"big")"}) {
    const std::string answer = bed.ask(with_body("POST /v1/chat/completions HTTP/1.1\r\n", R"({"model":"m","messages":[],)" + std::string(other) + "}"));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 ")) << other;
    EXPECT_THAT(answer, HasSubstr(R"(write \"model\")")) << other;
  }
  EXPECT_EQ(bed.behind.opens, opens);
  EXPECT_THAT(bed.ask(chat("hello")), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(bed.behind.opens, opens + 1);
}

TEST_F(edge, a_client_that_leaves_has_its_record_too) {
  bed.ask(chat("engine-hangs"));
  ASSERT_EQ(bed.records.all.size(), 1u);
  EXPECT_EQ(bed.records.all[0].status, 499);
  EXPECT_TRUE(bed.at_rest());
}

// Naive variant: whoever is not answered 401 was let in.
TEST_F(edge, who_leaves_admin_unanswered_is_the_admin_only_with_a_key) {
  bed.admin.silent = true;
  const std::string key = std::string("Authorization: Bearer ") + testing::admin_secret + "\r\n";
  const std::pair<std::string, const char *> cases[] = {{"", ""}, {"Authorization: Bearer another\r\n", ""}, {key, "admin"}};
  for (const auto &[fields, tenant] : cases) {
    bed.forget();
    EXPECT_EQ(bed.ask(get("/admin/x", fields)), "") << fields;
    ASSERT_EQ(bed.records.all.size(), 1u) << fields;
    EXPECT_EQ(bed.records.all[0].status, 499) << fields;
    EXPECT_EQ(bed.records.all[0].tenant, tenant) << fields;
    EXPECT_TRUE(bed.at_rest()) << fields;
  }
}

// Naive variant: the record is written by whoever answers; this one never did.
TEST_F(edge, a_handler_that_throws_leaves_a_record_of_500_with_the_id_of_its_answer) {
  bed.admin.broken = true;
  const std::string answer = bed.ask(get("/admin/x", std::string("Authorization: Bearer ") + testing::admin_secret + "\r\n"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(answer, HasSubstr(R"("code":"backend_error")"));
  ASSERT_EQ(bed.records.all.size(), 1u);
  const auto &r = bed.records.all[0];
  EXPECT_EQ(r.status, 500);
  EXPECT_EQ(to_string(r.how), "failed");
  EXPECT_EQ(r.tenant, "") << "nobody was let in";
  EXPECT_EQ(r.client, "192.0.2.1");
  EXPECT_EQ(bed.records.started, 1u);
  EXPECT_THAT(answer, HasSubstr("X-Request-ID: " + r.request_id + "\r\n"));
  EXPECT_TRUE(bed.at_rest());
}

// Naive variant: the answer of an agent is handled under a transport's callback, which may not throw, so the program ends; or what
// catches there leaves the client to wait for its deadline.
TEST_F(edge, an_exception_while_an_agents_answer_is_handled_ends_that_request_with_500) {
  bed.records.broken = true;
  const std::string answer = bed.ask(chat("engine-is-lost"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 500 "));
  ASSERT_EQ(bed.records.all.size(), 1u);
  EXPECT_EQ(to_string(bed.records.all[0].how), "failed");
  EXPECT_EQ(bed.records.all[0].status, 500);
  EXPECT_THAT(answer, HasSubstr("X-Request-ID: " + bed.records.all[0].request_id + "\r\n"));
  EXPECT_TRUE(bed.at_rest());
  EXPECT_THAT(bed.ask(chat("hello")), StartsWith("HTTP/1.1 200 ")) << "and the link is there";
}

// Naive variants: only one of the two surfaces counts, or a right key ends the wait and so tells that it was one.
TEST_F(edge, both_surfaces_make_an_address_wait_that_guesses_keys) {
  for (int i = 0; i < 5; ++i)
    EXPECT_THAT(bed.ask(get(i % 2 == 0 ? "/v1/models" : "/admin/x", "Authorization: Bearer guess-" + std::to_string(i) + "\r\n")), StartsWith("HTTP/1.1 401 "));
  for (const char *path : {"/v1/models", "/admin/x"})
    for (const char *secret : {testing::client_secret, testing::admin_secret, "guess"}) {
      const std::string answer = bed.ask(get(path, std::string("Authorization: Bearer ") + secret + "\r\n"));
      EXPECT_THAT(answer, StartsWith("HTTP/1.1 429 ")) << path;
      EXPECT_THAT(answer, HasSubstr("\r\nRetry-After: ")) << path;
      EXPECT_THAT(answer, HasSubstr(path[1] == 'a' ? R"({"error":"too many failed)" : R"({"error":{"code":"rate_limit_exceeded")")) << path;
    }
  EXPECT_THAT(bed.ask(get("/health")), StartsWith("HTTP/1.1 200 "));
}

}  // namespace
}  // namespace hive::gateway
