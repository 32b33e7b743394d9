#include "config/yaml.hpp"

#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "base/test_folder.hpp"
#include "config/test_swapped_file.hpp"

namespace hive::config::yaml {
namespace {

std::string error_of(std::string_view text, const limits &bounds = {}) {
  const auto got = parse(text, "f.yaml", bounds);
  return got ? "accepted" : got.why().text();
}

node tree(std::string_view text) {
  auto got = parse(text, "f.yaml");
  EXPECT_TRUE(got.ok()) << (got ? "" : got.why().text());
  return got ? *std::move(got) : node();
}

std::string json(std::string_view text) { return boost::json::serialize(tree(text).to_json()); }

TEST(yaml, every_node_knows_its_file_line_and_path) {
  const node root = tree("a: 1\nb:\n  c:\n    - x\n    - d: 2\n");
  const node *d = root.find("b")->find("c")->items()[1].find("d");
  EXPECT_EQ(d->where(), "f.yaml:5");
  EXPECT_EQ(d->path(), "b.c[1].d");
  EXPECT_EQ(d->column(), 10);
  EXPECT_EQ(d->wrong("no").text(), "f.yaml:5: b.c[1].d: no");
  EXPECT_EQ(root.find("none"), nullptr);
}

TEST(yaml, empty_text_still_has_its_file) { EXPECT_EQ(parse("", "f.yaml")->where(), "f.yaml:1"); }

TEST(yaml, refusals_say_what_and_where) {
  const std::pair<std::string, std::string> cases[] = {
      {"a: 1\nb: 2\na: 3\n", "f.yaml:3: the key \"a\" stands here and already on line 1; remove one"},
      {"x:\n  b: {c: 1, c: 2}\n", "f.yaml:2: the key \"c\" stands here and already on line 2; remove one"},
      {"a: 1\n---\nb: 2\n",
       "f.yaml:2: a second document, or text after the end of the first, begins here; one file holds one document"},
      {"a:\n\tb: 1\n", "f.yaml:2: a tab is used for indentation; use spaces"},
      {"a:\n  b: 1\n\tc: 2\n", "f.yaml:3: a tab is used for indentation; use spaces"},
      {"? [a]\n: 1\n", "f.yaml:1: a key must be text"},
      {"a: &x [*x]\n", "f.yaml:1: an alias stands inside its own anchor"},
      {"<<: 3\n", "f.yaml:1: a merge key (<<) needs a map or a list of maps"},
      {"a: !secret x\n", "f.yaml:1: the tag !secret is not supported; leave it out"},
      {"a: \xff\n", "f.yaml: not UTF-8 text"},
      {std::string("a: x\0y", 6), "f.yaml: holds a zero byte"},
  };
  for (const auto &[text, message] : cases) EXPECT_EQ(error_of(text), message) << text;
  for (const char *broken : {"a: [1, 2", "a: 'x", "a: b: c", "*none", "}", "@", "a: {b", "%TAG"})
    EXPECT_TRUE(error_of(broken).starts_with("f.yaml:1: not valid YAML")) << broken << ": " << error_of(broken);
}

TEST(yaml, size_depth_and_expansion_are_bounded) {
  EXPECT_EQ(error_of("a: 12345", {.bytes = 4}), "f.yaml: larger than 4 bytes");
  EXPECT_EQ(error_of("[[[[]]]]", {.depth = 3}), "f.yaml:1: nested deeper than 3 levels");
  EXPECT_EQ(error_of("- - - - 1", {.depth = 3}), "f.yaml:1: nested deeper than 3 levels");
  EXPECT_EQ(error_of(std::string(513, 'k') + ": 1"), "f.yaml:1: a key is longer than 512 bytes");
  EXPECT_EQ(error_of(std::string(200'000, '[')), "f.yaml:1: nested deeper than 64 levels");
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) bomb += (k > 0 ? ",*a" : "*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  EXPECT_EQ(error_of(bomb), "f.yaml:5: more than 100000 values once aliases and merge keys are expanded");
  // Naive variant: keys count where they are written, and not where an alias stands for them.
  EXPECT_EQ(error_of("a: &a {k: 1}\nb: [*a, *a]", {.nodes = 15}), "f.yaml:2: more than 15 values once aliases and merge keys are expanded");
  EXPECT_EQ(error_of("a: &a {k: 1}\nb: [*a, *a]", {.nodes = 16}), "accepted");
}

TEST(yaml, merge_keys_give_way_to_written_ones_and_earlier_sources_win) {
  const char *text =
      "base: &base {a: 1, b: 2}\n"
      "other: &other {b: 3, c: 4}\n"
      "use:\n  <<: [*base, *other]\n  a: 9\n"
      "plain:\n  <<: *other\n"
      "word: {\"<<\": x}\n";
  EXPECT_EQ(json(text),
            R"({"base":{"a":1,"b":2},"other":{"b":3,"c":4},"use":{"a":9,"b":2,"c":4},"plain":{"b":3,"c":4},"word":{"<<":"x"}})");
  EXPECT_EQ(tree(text).find("use")->find("c")->path(), "use.c");
}

TEST(yaml, marks_and_line_ends_of_other_systems_are_accepted) {
  EXPECT_EQ(json("\xef\xbb\xbf"
                 "a: 1\r\nb: two\r\n"),
            R"({"a":1,"b":"two"})");
  EXPECT_EQ(json("a: $HOME ${X}\n"), R"({"a":"$HOME ${X}"})");
  EXPECT_EQ(json(""), "null");
  EXPECT_EQ(json("# only a comment\n"), "null");
}

TEST(yaml, every_escape_is_utf_8) {
  EXPECT_EQ(tree(R"(a: "\N\_\L\P\x85\xa0\xe9\u20ac\U0001f600")").find("a")->text(),
            "\xc2\x85\xc2\xa0\xe2\x80\xa8\xe2\x80\xa9\xc2\x85\xc2\xa0\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(tree("a: \"\xc3\xa9\\N\xe2\x82\xac\\_x\"").find("a")->text(), "\xc3\xa9\xc2\x85\xe2\x82\xac\xc2\xa0x");
  EXPECT_EQ(tree(R"("k\_": 1)").entries().front().key, "k\xc2\xa0");
}

TEST(yaml, one_number_rule) {
  const std::pair<const char *, const char *> cases[] = {
      {"0", "0"},          {"-5", "-5"},        {"12", "12"},          {"1.5", "1.5E0"},      {"1e3", "1E3"},
      {"010", "\"010\""},  {"08", "\"08\""},    {"0x10", "\"0x10\""},  {"1_000", "\"1_000\""}, {".nan", "\".nan\""},
      {".5", "5E-1"},      {"+5", "\"+5\""},    {"12:30", "\"12:30\""}, {"1.", "1E0"},          {"1e", "\"1e\""},
      {"-.25", "-2.5E-1"}, {".", "\".\""},      {"-.", "\"-.\""},      {"..5", "\"..5\""},     {".e5", "\".e5\""},
      {"'12'", "\"12\""},  {"!!str 12", "\"12\""}, {"-.inf", "\"-.inf\""}, {"18446744073709551615", "18446744073709551615"},
      {"yes", "\"yes\""},  {"NO", "\"NO\""},    {"true", "true"},      {"False", "false"},    {"~", "null"}};
  for (const auto &[text, want] : cases) EXPECT_EQ(json(text), want) << text;
}

TEST(yaml, numbers_that_are_none_are_refused_with_the_reason) {
  const std::pair<const char *, const char *> cases[] = {
      {"010", "\"010\" has a leading zero; write it without"},
      {"08", "\"08\" has a leading zero; write it without"},
      {"0x10", "\"0x10\" is not decimal; write the number in decimal"},
      {"1_000", "\"1_000\" holds an underscore; write digits only"},
      {"12:30", "\"12:30\" is not a whole number; write one like 12"},
      {".nan", "\".nan\" is not a whole number; write one like 12"},
      {"1.5", "\"1.5\" is not a whole number"},
      {"'5'", "\"5\" is quoted, so it is text; write the number without quotes"},
      {"[5]", "a list stands where a whole number is needed"},
      {"", "nothing stands where a whole number is needed"},
      {"101", "101 is out of range; it must be between 1 and 100"},
      {"99999999999999999999", "99999999999999999999 is out of range; it must be between 1 and 100"}};
  for (const auto &[text, why] : cases) {
    const auto got = tree(std::string("n: ") + text).find("n")->as_int(1, 100);
    ASSERT_FALSE(got.ok()) << text;
    EXPECT_EQ(got.why().text(), std::string("f.yaml:1: n: ") + why);
  }
  EXPECT_EQ(*tree("n: 100").find("n")->as_int(1, 100), 100);
  EXPECT_EQ(*tree("n: 0.25").find("n")->as_number(), 0.25);
  EXPECT_EQ(*tree("n: .90").find("n")->as_number(), 0.9);
  EXPECT_EQ(*tree("n: -1.").find("n")->as_number(), -1);
  for (const char *bad : {".inf", "1e999", "x", "1,5"}) EXPECT_FALSE(tree(std::string("n: ") + bad).find("n")->as_number().ok()) << bad;
}

TEST(yaml, text_keeps_its_text_and_null_is_absent) {
  for (const char *text : {"NO", "1.10", "null", "0x10", "2024-01-02", "on"})
    EXPECT_EQ(*tree(std::string("t: ") + text).find("t")->as_text(), text);
  for (const char *text : {"t:", "t: ~", "t: null", "t:\nnull: 3", "t: !!null x"}) EXPECT_TRUE(tree(text).find("t")->is_null()) << text;
  EXPECT_FALSE(tree("t:\nnull: 3").find("t")->as_text().ok());
  EXPECT_EQ(*tree("t: [null, NO]").find("t")->as_texts(), (std::vector<std::string>{"null", "NO"}));
  EXPECT_EQ(*tree("t: one").find("t")->as_texts(), std::vector<std::string>{"one"});
  EXPECT_EQ(tree("t:\nu: 1").find("t")->line(), 1);
}

TEST(yaml, booleans_and_durations_are_refused_with_what_would_be_right) {
  const auto why = [](const char *text, auto read) { return read(*tree(std::string("v: ") + text).find("v")).why().text(); };
  const auto flag = [](const node &n) { return n.as_bool(); };
  const auto time = [](const node &n) { return n.as_duration_ns(); };
  EXPECT_EQ(why("yes", flag), "f.yaml:1: v: \"yes\" is neither true nor false; write one of the two");
  EXPECT_EQ(why("'true'", flag), "f.yaml:1: v: \"true\" is neither true nor false; write one of the two without quotes");
  EXPECT_EQ(why("5", time), "f.yaml:1: v: 5 has no unit; write 5s or 5ms");
  EXPECT_EQ(why("fast", time), "f.yaml:1: v: \"fast\" is not a duration; write one like 500ms, 5s, 2m or 1h30m");
  EXPECT_EQ(*tree("v: 1h30m").find("v")->as_duration_ns(), 5'400'000'000'000u);
}

TEST(yaml, unknown_keys_come_with_the_nearest_name) {
  const node root = tree("queue_sise: 3\nok: 1\nzzz: 2\n");
  const auto wrong = root.unknown_keys({"queue_size", "ok"});
  ASSERT_EQ(wrong.size(), 2u);
  EXPECT_EQ(wrong[0].text(), "f.yaml:1: queue_sise: unknown key; did you mean \"queue_size\"?");
  EXPECT_EQ(wrong[1].text(), "f.yaml:3: zzz: unknown key");
}

TEST(yaml, files_are_read_whole_and_only_if_regular) {
  const test_folder folder;
  const std::string file = folder.at("a.yaml");
  std::ofstream(file) << "a: 1\n";
  EXPECT_TRUE(parse_file(file).ok());
  EXPECT_EQ(*read_file(file), "a: 1\n");
  EXPECT_EQ(parse_file(folder.path()).why().message(), "not a regular file");
  EXPECT_EQ(read_file("/dev/zero").why().message(), "not a regular file");
  EXPECT_EQ(parse_file(file + ".none").why().code(), errc::not_found);
  EXPECT_EQ(parse_file(file, {.bytes = 2}).why().code(), errc::exhausted);
}

// Naive variant: the size is asked by name and the text read by name, so that the one is of the old file and the other of the new.
TEST(yaml, a_link_that_is_renamed_meanwhile_gives_one_text_or_the_other) {
  const std::string texts[] = {"a: " + std::string(40'000, 'x') + "\n", "b: 1\n"};
  swapped_file(texts).expect_whole([&](const std::string &path) {
    const auto got = read_file(path);
    for (const int which : {0, 1})
      if (got && *got == texts[which]) return which;
    ADD_FAILURE() << (got ? std::to_string(got->size()) + " bytes" : got.why().text());
    return -1;
  });
}

}  // namespace
}  // namespace hive::config::yaml
