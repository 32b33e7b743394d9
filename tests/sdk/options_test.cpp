#include "hive/sdk/options.hpp"

#include <gtest/gtest.h>

namespace hive::sdk {
namespace {

TEST(options, reads_every_type) {
  const options o(R"( {"n": -1.5e2, "i": 42, "whole": 1e3, "t": true, "f": false, "s": "a\"b\\\n\u00e9\ud83d\ude00",)"
                  R"("l": [1, "x", {"k": 2}, []], "z": null} )");
  EXPECT_EQ(o.number("n", 0), -150);
  EXPECT_EQ(o.integer("i", 0), 42);
  EXPECT_EQ(o.integer("whole", 0), 1000);
  EXPECT_TRUE(o.boolean("t", false));
  EXPECT_FALSE(o.boolean("f", true));
  EXPECT_EQ(o.text("s"), "a\"b\\\n\xC3\xA9\xF0\x9F\x98\x80");
  ASSERT_EQ(o.list("l").size(), 4u);
  EXPECT_EQ(o.list("l")[2].number("k", 0), 2);
  EXPECT_EQ(o.list("l")[1].as_text(), "x");
  EXPECT_TRUE(o.has("z"));
  EXPECT_EQ(o.names(), (std::vector<std::string>{"n", "i", "whole", "t", "f", "s", "l", "z"}));
}

TEST(options, falls_back_when_absent_or_of_another_type) {
  const options o(R"({"s": "text", "n": 3, "deep": {"n": 9, "x": "}"}})");
  EXPECT_EQ(o.number("s", 7), 7);
  EXPECT_EQ(o.text("n", "none"), "none");
  EXPECT_TRUE(o.boolean("n", true));
  EXPECT_EQ(o.number("x", 7), 7) << "members of members are not its own";
  EXPECT_EQ(o.number("n", 0), 3);
  EXPECT_EQ(o.find("deep")->number("n", 0), 9);
  EXPECT_TRUE(o.list("s").empty());
}

TEST(options, survives_torn_text) {
  for (const char *text : {"", "{", "{\"", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":\"\\", "[", "[1,", "{]", "}{", "{:}", "{\"a\":\"\\u12"}) {
    const options o(text);
    EXPECT_EQ(o.number("b", 5), 5) << text;
    o.items();
    o.names();
    o.text("a");
  }
}

}  // namespace
}  // namespace hive::sdk
