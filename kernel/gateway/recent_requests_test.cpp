#include "gateway/recent_requests.hpp"

#include <gtest/gtest.h>

namespace hive::gateway {
namespace {

request_record record_of(std::string_view id, uint32_t attempts = 1) {
  request_record r;
  r.request_id = id;
  r.inference = true;
  r.model = "qwen";
  r.attempts = attempts;
  return r;
}

TEST(recent_requests, keep_the_latest_and_forget_the_oldest) {
  recent_requests kept(3);
  for (const char *id : {"a", "b", "c", "d"}) kept.add(record_of(id));
  EXPECT_FALSE(kept.find("a"));
  for (const char *id : {"b", "c", "d"}) EXPECT_TRUE(kept.find(id)) << id;
  kept.add(record_of("c", 7));
  ASSERT_TRUE(kept.find("c"));
  EXPECT_EQ(kept.find("c")->attempts, 7u) << "the later of two with one id";
}

TEST(recent_requests, are_those_for_engines_and_an_empty_id_finds_none) {
  recent_requests kept(3);
  request_record other = record_of("page");
  other.inference = false;
  kept.add(other);
  EXPECT_FALSE(kept.find("page"));
  EXPECT_FALSE(kept.find("")) << "an entry that was never written";
  recent_requests none(0);
  none.add(record_of("a"));
  EXPECT_FALSE(none.find("a"));
}

// The texts of an entry stand behind each other: none may run into the next, the empty ones between them included.
TEST(recent_requests, give_every_text_back_as_it_was) {
  recent_requests kept(2);
  for (int round = 0; round < 3; ++round) {  // an entry that is written over, too
    request_record r = record_of("an-id");
    r.route = "/v1/chat/completions";
    r.tenant = "acme";
    r.agent = round == 1 ? "" : "peer";
    r.error_code = round == 1 ? "no_capacity" : "";
    kept.add(r);
    const auto found = kept.find("an-id");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->request_id, "an-id");
    EXPECT_EQ(found->route, "/v1/chat/completions");
    EXPECT_EQ(found->model, "qwen");
    EXPECT_EQ(found->tenant, "acme");
    EXPECT_EQ(found->agent, r.agent);
    EXPECT_EQ(found->step, "");
    EXPECT_EQ(found->error_code, r.error_code);
  }
  EXPECT_FALSE(kept.find("an-id/v1/chat/completions"));
}

TEST(recent_requests, cut_a_callers_words) {
  recent_requests kept(1);
  request_record r = record_of("a");
  const std::string long_name(1 << 20, 'm');
  r.model = long_name;
  kept.add(r);
  const auto found = kept.find("a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->model, std::string(256, 'm'));
}

}  // namespace
}  // namespace hive::gateway
