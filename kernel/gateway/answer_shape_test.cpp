#include "gateway/answer_shape.hpp"

#include <gtest/gtest.h>

#include <string>

namespace hive::gateway {
namespace {

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

}  // namespace
}  // namespace hive::gateway
