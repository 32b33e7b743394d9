#include "gateway/answer_usage.hpp"

#include <gtest/gtest.h>

#include <string>

namespace hive::gateway {
namespace {

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

}  // namespace
}  // namespace hive::gateway
