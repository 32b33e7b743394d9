#include "plugins/schema.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <iterator>

namespace hive::plugins {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

constexpr const char *suite_dir = "/usr/share/json-schema-test-suite/tests/draft7/";

struct suite_file {
  const char *name;
  int at_least;  // cases that must have run: a group outside the subset must be refused instead
};

class draft7_suite : public testing::TestWithParam<suite_file> {};

bool in_subset(const json::value &schema, int depth = 0) {
  static const std::vector<std::string> known = {"type",    "enum",      "const",     "required", "properties", "additionalProperties", "items",      "minimum",
                                                 "maximum", "minLength", "maxLength", "default",  "title",      "description",          "examples"};
  if (schema.is_bool() || depth > 20) return true;
  if (!schema.is_object()) return false;
  for (const auto &[key, v] : schema.get_object()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) return false;
    if (key == "properties") {
      for (const auto &[name, sub] : v.get_object()) {
        if (!in_subset(sub, depth + 1)) return false;
      }
    }
    if ((key == "items" || key == "additionalProperties") && !in_subset(v, depth + 1)) return false;
  }
  return true;
}

TEST_P(draft7_suite, agrees_inside_the_subset_and_refuses_the_rest) {
  const std::string path = std::string(suite_dir) + GetParam().name + ".json";
  std::ifstream in(path);
  ASSERT_TRUE(in) << path << " is missing; install the package json-schema-test-suite";
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const json::value groups = json::parse(text);
  int ran = 0;
  for (const auto &group : groups.as_array()) {
    const auto s = schema::from(group.at("schema"));
    SCOPED_TRACE(std::string(group.at("description").as_string()));
    ASSERT_EQ(s.ok(), in_subset(group.at("schema"))) << (s.ok() ? "accepted" : s.why().text());
    if (!s.ok()) continue;
    for (const auto &one : group.at("tests").as_array()) {
      ++ran;
      EXPECT_EQ(s->validate(one.at("data")).ok(), one.at("valid").as_bool()) << one.at("description");
    }
  }
  EXPECT_GE(ran, GetParam().at_least);
}

INSTANTIATE_TEST_SUITE_P(files, draft7_suite,
                         testing::Values(suite_file{"type", 59}, suite_file{"enum", 9}, suite_file{"const", 12}, suite_file{"required", 7},
                                         suite_file{"properties", 5}, suite_file{"additionalProperties", 4}, suite_file{"items", 8},
                                         suite_file{"minimum", 4}, suite_file{"maximum", 4}, suite_file{"minLength", 5}, suite_file{"maxLength", 5},
                                         suite_file{"default", 3}, suite_file{"boolean_schema", 15}, suite_file{"pattern", 0}, suite_file{"anyOf", 0}),
                         [](const auto &one) { return one.param.name; });

constexpr const char *example = R"({"type": "object", "additionalProperties": false, "required": ["path"], "properties": {
  "path": {"type": "string", "minLength": 1},
  "map_size": {"type": "integer", "minimum": 1, "maximum": 1024, "default": 64},
  "mode": {"enum": ["sync", "lazy"], "default": "sync"},
  "peers": {"type": "array", "items": {"type": "object", "properties": {"port": {"type": "integer", "default": 6379}}}},
  "inner": {"type": "object", "default": {}, "properties": {"deep": {"type": "boolean", "default": true}}}}})";

TEST(schema, fills_defaults_at_every_depth) {
  const auto s = schema::parse(example);
  ASSERT_TRUE(s.ok()) << s.why().text();
  const auto out = s->apply(R"({"path": "x", "peers": [{}, {"port": 1}]})");
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(json::parse(*out), json::parse(R"({"path":"x","peers":[{"port":6379},{"port":1}],"map_size":64,"mode":"sync","inner":{"deep":true}})"));
}

struct wrong_case {
  const char *value, *text;
};

TEST(schema, says_where_and_what_would_be_right) {
  const auto s = schema::parse(example);
  ASSERT_TRUE(s.ok());
  const wrong_case cases[] = {
      {"", "path: is required"},
      {R"({"path": ""})", "path: must have at least 1 characters"},
      {R"({"path": 7})", "path: must be of type string, is 7"},
      {R"({"path": "x", "mapsize": 1})", "mapsize: unknown key; did you mean \"map_size\"?"},
      {R"({"path": "x", "zzzzzzzz": 1})", "zzzzzzzz: unknown key; known keys: path, map_size, mode, peers, inner"},
      {R"({"path": "x", "map_size": 0})", "map_size: must be at least 1, is 0"},
      {R"({"path": "x", "map_size": 1.5})", "map_size: must be of type integer, is 1.5E0"},
      {R"({"path": "x", "map_size": 1e9})", "map_size: must be at most 1024, is 1E9"},
      {R"({"path": "x", "mode": "fast"})", "mode: must be one of [\"sync\",\"lazy\"], is \"fast\""},
      {R"({"path": "x", "peers": [{}, {"port": "a"}]})", "peers[1].port: must be of type integer, is \"a\""},
  };
  for (const auto &c : cases) {
    const auto out = s->apply(c.value);
    ASSERT_FALSE(out.ok()) << c.value;
    EXPECT_EQ(out.why().text(), c.text);
  }
  EXPECT_THAT(s->apply("{").why().text(), HasSubstr("is not JSON"));
}

TEST(schema, refuses_malformed_schemas) {
  for (const char *text : {"7", "[]", R"({"type": "text"})", R"({"type": []})", R"({"enum": []})", R"({"required": "a"})", R"({"properties": []})",
                           R"({"items": [{}]})", R"({"minimum": "1"})", R"({"minLength": -1})", R"({"$ref": "#"})",
                           R"({"properties": {"a": {"oneOf": []}}})"}) {
    EXPECT_FALSE(schema::parse(text).ok()) << text;
  }
  std::string deep = "true";
  for (int i = 0; i < 100; ++i) deep = R"({"items": )" + deep + "}";
  EXPECT_THAT(schema::parse(deep).why().text(), HasSubstr("too deep"));
}

}  // namespace
}  // namespace hive::plugins
