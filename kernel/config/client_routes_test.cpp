#include "config/client_routes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hive::config {
namespace {

using testing::HasSubstr;

TEST(client_routes, a_known_name_has_its_engine_path_and_capability_and_another_says_what_it_needs) {
  const struct { const char *text, *path, *engine_path, *capability; } cases[] = {
      {"audio/transcriptions", "/v1/audio/transcriptions", "/v1/audio/transcriptions", "llm"},
      {"tokenize", "/v1/tokenize", "/tokenize", "any"},
      {"score", "/v1/score", "/v1/score", "reranker"},
      {"score=embedding", "/v1/score", "/v1/score", "embedding"},
      {"images/generations=llm", "/v1/images/generations", "/v1/images/generations", "llm"},
      {"x.y-z_1=any", "/v1/x.y-z_1", "/v1/x.y-z_1", "any"},
  };
  for (const auto &c : cases) {
    const auto r = parse_allowed_route(c.text);
    ASSERT_TRUE(r) << c.text << ": " << r.why().text();
    EXPECT_EQ(r->path, c.path);
    EXPECT_EQ(r->engine_path, c.engine_path);
    EXPECT_EQ(r->capability, c.capability);
    EXPECT_TRUE(engine_path_allowed(c.engine_path, {&*r, 1}));
  }
}

TEST(client_routes, no_control_path_and_nothing_that_is_no_path_can_be_allowed) {
  const struct { const char *text, *says; } cases[] = {
      {"", "not the path"},
      {"/tokenize", "not the path"},
      {"tokenize/", "not the path"},
      {"a//b=llm", "not the path"},
      {"../admin=llm", "not the path"},
      {"a/../b=llm", "not the path"},
      {"a/%2e%2e/b=llm", "not the path"},
      {"a?b=llm", "not the path"},
      {"a b=llm", "not the path"},
      {"load_lora_adapter=llm", "cannot be allowed"},
      {"unload_lora_adapter=llm", "cannot be allowed"},
      {"Sleep=llm", "cannot be allowed"},
      {"wake_up=llm", "cannot be allowed"},
      {"collective_rpc=llm", "cannot be allowed"},
      {"x/update_weights_from_disk=llm", "cannot be allowed"},
      {"metrics=any", "cannot be allowed"},
      {"models=any", "cannot be allowed"},
      {"flush_cache=any", "cannot be allowed"},
      {"abort_request=any", "cannot be allowed"},
      {"chat/completions", "served anyway"},
      {"images/generations", "is not known"},
      {"tokenise", "audio/transcriptions"},
      {"images/generations=chat", "no capability"},
      {"images/generations=", "no capability"},
  };
  for (const auto &c : cases) {
    const auto r = parse_allowed_route(c.text);
    ASSERT_FALSE(r) << c.text;
    EXPECT_THAT(r.why().message(), HasSubstr(c.says)) << c.text;
  }
}

TEST(client_routes, an_agent_reaches_built_in_and_known_paths_and_what_it_was_told) {
  const auto told = parse_allowed_route("images/generations=llm");
  ASSERT_TRUE(told);
  for (const char *path : {"/v1/chat/completions", "/v1/responses?x=1", "/v1/rerank", "/tokenize", "/v1/audio/speech"})
    EXPECT_TRUE(engine_path_allowed(path, {})) << path;
  for (const char *path : {"/v1/load_lora_adapter", "/sleep", "/metrics", "/v1/images/generations", "/v1/chat/completions/x", "/v1/tokenize", ""})
    EXPECT_FALSE(engine_path_allowed(path, {})) << path;
  EXPECT_TRUE(engine_path_allowed("/v1/images/generations", {&*told, 1}));
}

}  // namespace
}  // namespace hive::config
