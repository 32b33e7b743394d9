#include "gateway/routes.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "config/client_routes.hpp"

namespace hive::gateway {
namespace {

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

}  // namespace
}  // namespace hive::gateway
