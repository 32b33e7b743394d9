#include "gateway/model_names.hpp"

#include <gtest/gtest.h>

#include "gateway/form_scan.hpp"

namespace hive::gateway {
namespace {

TEST(model_names, finds_the_model_of_an_alias_and_nothing_for_other_names) {
  model_names names;
  EXPECT_EQ(names.model_of("a"), "");
  names.set({{"a", "model"}, {"b", "other"}});
  EXPECT_EQ(names.model_of("a"), "model");
  EXPECT_EQ(names.model_of("b"), "other");
  for (const char *name : {"", "A", "aa", "c", "model"}) EXPECT_EQ(names.model_of(name), "") << name;
  const auto kept = names.all();
  names.set({});
  EXPECT_EQ(names.model_of("a"), "");
  EXPECT_EQ(kept->size(), 2u);
}

// Breaks when the body is serialised again, when the alias is replaced wherever it stands, or when lengths are those of the text
// after unescaping.
TEST(with_model, changes_the_value_of_model_and_no_other_byte) {
  const std::string model = "org/m\"odel";
  const std::string escaped = "\"org/m\\\"odel\"";
  const std::pair<std::string, std::string> around[] = {
      {"{\"model\":", "}"},
      {"\xEF\xBB\xBF { \"x\" : 1.50 ,\n \"model\"\t: ", " , \"messages\":[{\"content\":\"\\u0061lias\"}],\"stream\":true,\"stream_options\":{ } } \n"},
      {"{\"messages\":[{\"model\":\"alias\",\"content\":\"alias\"}],\"mod\\u0065l\": ", ",\"user\":\"alias\"}"}};
  for (const char *written : {"\"alias\"", "\"\\u0061lias\""})
    for (const auto &[before, after] : around) {
      std::string body = before + written + after;
      body.reserve(body.size() + http::body_padding);
      request_scanner scanner;
      request_scan scan;
      ASSERT_FALSE(scanner.scan(body, scan)) << body;
      ASSERT_EQ(scan.model, "alias");
      const auto made = with_model(body, scan.model_at, model, false, nullptr);
      EXPECT_EQ(*made, before + escaped + after);
      EXPECT_GE(made->capacity(), made->size() + http::body_padding);
      request_scan again;
      ASSERT_FALSE(scanner.scan(*made, again));
      EXPECT_EQ(again.model, model);
      EXPECT_EQ(again.stream, scan.stream);
    }
}

TEST(with_model, changes_the_field_of_a_form) {
  const std::string before = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n", after = "\r\n--b\r\n"
      "Content-Disposition: form-data; name=\"file\"; filename=\"alias\"\r\n\r\nalias\r\n--b--\r\n";
  const std::string body = before + "\"alias" + after;
  request_scan scan;
  ASSERT_FALSE(scan_form("multipart/form-data; boundary=b", body, scan));
  EXPECT_EQ(*with_model(body, scan.model_at, "whisper", true, nullptr), before + "whisper" + after);
}

// Naive variant: the copy is a string like any other, and the count went with the body it was made of.
TEST(with_model, the_new_body_counts_as_long_as_anybody_holds_it) {
  byte_budget budget(0);
  byte_share share(budget);
  const std::string body = R"({"model":"alias","user":")" + std::string(256 * 1024, 'u') + "\"}";
  http::body_ptr made = with_model(body, {9, 7}, "model", false, &share);
  EXPECT_EQ(budget.held(), made->size());
  http::body_ptr elsewhere = made;
  made.reset();
  EXPECT_EQ(budget.held(), elsewhere->size());
  elsewhere.reset();
  EXPECT_EQ(budget.held(), 0u);
}

}  // namespace
}  // namespace hive::gateway
