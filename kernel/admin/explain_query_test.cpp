#include "admin/explain_query.hpp"

#include <gtest/gtest.h>

#include <string>

namespace hive::admin {
namespace {

std::string wrong_in(const std::string &query) { return explain_query().read(query); }

TEST(query_of_explain, what_it_says_is_read) {
  explain_query q;
  EXPECT_EQ(q.read("tenant=%C3%A9&priority=-1000&&session=a%20b&route=/v1/embeddings"), "");
  EXPECT_EQ(q.tenant, "\xc3\xa9");
  EXPECT_EQ(q.priority, -1000);
  EXPECT_EQ(q.session, "a b");
  EXPECT_EQ(q.route, "/v1/embeddings");
  explain_query none;
  EXPECT_EQ(none.read(""), "");
  EXPECT_FALSE(none.route || none.tenant || none.session || none.priority);
}

// Naive variant: whatever comes is taken, and the answer is JSON that nobody can read.
TEST(query_of_explain, what_no_key_could_say_is_refused_with_its_bound) {
  EXPECT_EQ(wrong_in("tenant=%ff"), "tenant must be UTF-8 of at most 200 bytes");
  EXPECT_EQ(wrong_in("session=%C3"), "session must be UTF-8 of at most 256 bytes");
  EXPECT_EQ(wrong_in("tenant=" + std::string(200, 't')), "");
  EXPECT_EQ(wrong_in("tenant=" + std::string(201, 't')), "tenant must be UTF-8 of at most 200 bytes");
  EXPECT_EQ(wrong_in("tenant=a%0ab"), "tenant may not hold a control character");
  EXPECT_EQ(wrong_in("session=" + std::string(256, 's')), "");
  EXPECT_EQ(wrong_in("session=" + std::string(257, 's')), "session must be UTF-8 of at most 256 bytes");
  EXPECT_EQ(wrong_in("priority=1000"), "");
  for (const char *priority : {"-1001", "1001", "99999999999", "high", "1x", ""})
    EXPECT_EQ(wrong_in("priority=" + std::string(priority)), "priority must be a whole number between -1000 and 1000") << priority;
  EXPECT_EQ(wrong_in("tenent=x"), "unknown parameter 'tenent'; there are route, tenant, session, priority");
}

}  // namespace
}  // namespace hive::admin
