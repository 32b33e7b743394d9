// When a session says that a provider is to be asked, and which documents may name one.
#include <gmock/gmock.h>

#include <array>

#include "routing/session_bed.hpp"

namespace hive::routing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::client;
using testing::sessions;

constexpr const char *with_provider =
    "routing_policy: {strategy: least-loaded, max_tries: 1}\nfallback_provider: {engine: openai, model: gpt-4o}";
constexpr std::array<std::string_view, 2> both = {"openai", "anthropic"};

request_facts offering(request_facts f, std::span<const std::string_view> engines) {
  f.provider_engines = engines;
  return f;
}

TEST_F(sessions, an_exhausted_chain_names_the_provider_and_is_not_counted_as_exhausted_yet) {
  start(with_provider);
  fleet_.add(pool_, "a", 1);
  client c;
  open(c, offering(facts(), both));
  next(c);
  c.report(attempt_result::retryable);
  next(c);
  ASSERT_TRUE(c.end);
  ASSERT_NE(c.end->provider, nullptr);
  EXPECT_EQ(c.end->provider->engine, "openai");
  EXPECT_EQ(c.end->provider->model, "gpt-4o");
  EXPECT_THAT(recorder_.codes, ElementsAre());
  ASSERT_EQ(recorder_.lines.size(), 1u) << "the line tells of a drained chain whoever serves then";
  EXPECT_THAT(recorder_.lines[0], HasSubstr("policy_exhausted"));
}

TEST_F(sessions, a_model_that_nobody_serves_goes_to_the_provider_too) {
  start(with_provider);
  client c;
  request_facts f = offering(facts(), both);
  f.model = "unheard-of";
  open(c, f);
  next(c);
  ASSERT_TRUE(c.end);
  EXPECT_NE(c.end->provider, nullptr);
  EXPECT_FALSE(c.end->model_claimed) << "a caller's word is no label";
}

TEST_F(sessions, no_provider_for_a_route_it_cannot_answer_after_the_deadline_or_a_terminal_error) {
  start(with_provider);
  client route, late;
  constexpr std::array<std::string_view, 1> other = {"anthropic"};
  open(route, offering(facts(), other));
  next(route);
  ASSERT_TRUE(route.end);
  EXPECT_EQ(route.end->provider, nullptr);
  request_facts f = offering(facts(), both);
  f.deadline_ns = 1;
  open(late, f);
  next(late);
  ASSERT_TRUE(late.end);
  EXPECT_EQ(late.end->code, "request_timeout");
  EXPECT_EQ(late.end->provider, nullptr);
  fleet_.add(pool_, "a", 1);
  client wrong;
  open(wrong, offering(facts(), both));
  next(wrong);
  wrong.report(attempt_result::terminal);
  next(wrong);
  EXPECT_FALSE(wrong.end);
}

TEST_F(sessions, a_document_whose_provider_is_refused_changes_nothing) {
  router_options options;
  options.judge_provider = [](const provider_choice &p) {
    return p.engine == "openai" ? status() : fail(errc::invalid, "unknown provider '" + p.engine + "'");
  };
  start(with_provider, options);
  const auto bad = parse_policy("routing_policy: {strategy: least-loaded}\nfallback_provider: {engine: other, model: m}", source_);
  ASSERT_TRUE(bad) << bad.why().text();
  EXPECT_THAT(router_->set_policies(bad->document).text(), HasSubstr("unknown provider 'other'"));
  const auto global = router_->policies()->global();
  EXPECT_THAT(router_->set_policies(global, {{"cloud", bad->document}}).text(), HasSubstr("unknown provider"));
  EXPECT_EQ(router_->policies()->global()->provider->engine, "openai");
  EXPECT_TRUE(router_->policies()->named().empty());
}

}  // namespace
}  // namespace hive::routing
