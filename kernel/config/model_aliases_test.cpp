#include "config/model_aliases.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "base/test_folder.hpp"

namespace hive::config {
namespace {

struct outcome {
  std::vector<model_alias> aliases;
  std::string problems;
};

outcome read(const std::string &text) {
  outcome out;
  const auto root = yaml::parse(text, "router.yaml");
  if (!root) return {{}, root.why().text() + "\n"};
  std::vector<status> problems;
  read_model_aliases(*root, out.aliases, problems);
  for (const status &s : problems) out.problems += s.text() + "\n";
  return out;
}

TEST(model_aliases, lead_to_a_model_through_other_aliases_too) {
  const outcome o = read("z: fast\nfast: org/model:7b\n\"8\": 70b\n");
  ASSERT_EQ(o.problems, "");
  ASSERT_EQ(o.aliases.size(), 3u);
  EXPECT_EQ(o.aliases[0].alias, "8");
  EXPECT_EQ(o.aliases[1].model, "org/model:7b");
  EXPECT_EQ(o.aliases[2].alias, "z");
  EXPECT_EQ(o.aliases[2].model, "org/model:7b");
  EXPECT_TRUE(read("").aliases.empty());
}

TEST(model_aliases, are_refused_with_their_line) {
  const std::string long_name(257, 'x');
  const std::pair<std::string, std::string> cases[] = {
      {"a: a\n", "router.yaml:1: a: this alias leads in a circle (a -> a); let one of them name a model\n"},
      {"a: b\nb: c\nc: b\nd: m\n", "router.yaml:1: a: this alias leads in a circle (a -> b -> c -> b); let one of them name a model\n"
                                    "router.yaml:2: b: this alias leads in a circle (b -> c -> b); let one of them name a model\n"
                                    "router.yaml:3: c: this alias leads in a circle (c -> b -> c); let one of them name a model\n"},
      {"m: x\na: [b]\n", "router.yaml:2: a: the name of a model is needed; write it like a: llama3-70b\n"},
      {"a:\n", "router.yaml:1: a: the name of a model is needed; write it like a: llama3-70b\n"},
      {"a: \"\"\n", "router.yaml:1: a: a model's name has 1 to 256 bytes\n"},
      {"a: " + long_name + "\n", "router.yaml:1: a: a model's name has 1 to 256 bytes\n"},
      {"a: \"b\\r\\nc\"\n", "router.yaml:1: a: a model's name holds no control characters\n"},
      {"- a\n", "router.yaml:1: a list stands where a map (key: value) is needed\n"}};
  for (const auto &[text, want] : cases) EXPECT_EQ(read(text).problems, want) << text;
  const outcome twice = read("a: b\nc: d\na: e\n");
  EXPECT_NE(twice.problems.find("router.yaml:3"), std::string::npos) << twice.problems;
  EXPECT_NE(twice.problems.find("line 1"), std::string::npos) << twice.problems;
}

TEST(model_aliases, are_read_again_from_the_file_alone) {
  test_folder folder;
  const std::string file = folder.at("router.yaml");
  std::ofstream(file) << "http_port: nonsense\nmodel_aliases: {a: b}\n";
  const auto some = read_model_aliases(file);
  ASSERT_TRUE(some) << some.why().text();
  EXPECT_EQ(some->size(), 1u);
  std::ofstream(file, std::ios::trunc) << "model_aliases: {a: a}\n";
  EXPECT_FALSE(read_model_aliases(file));
  std::ofstream(file, std::ios::trunc) << "queue_size: 1\n";
  EXPECT_TRUE(read_model_aliases(file)->empty());
  EXPECT_TRUE(read_model_aliases("")->empty());
  EXPECT_EQ(show_model_aliases({{"a: b", "c"}}), "model_aliases:\n  \"a: b\": \"c\"\n");
}

}  // namespace
}  // namespace hive::config
