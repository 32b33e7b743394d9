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
