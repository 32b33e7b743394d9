#include "config/admin_keys.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "base/test_folder.hpp"

namespace hive::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string good(40, 'a'), other(40, 'b'), weak = "sixteen-bytes-ok";

struct admin_keys : ::testing::Test {
  admin_keys_read hashed(std::vector<std::string> texts) {
    auto out = hash_admin_keys(texts, "VARIABLE");
    for (const std::string &text : texts) EXPECT_EQ(text, "");
    return out;
  }
  std::string file(const std::string &text) {
    const std::string path = folder.at("admin-keys");
    std::ofstream(path, std::ios::trunc) << text;
    return path;
  }
  static std::string all(const admin_keys_read &read) {
    std::string out;
    for (const status &s : read.problems) out += s.text() + "\n";
    return out;
  }
  test_folder folder;
};

TEST_F(admin_keys, are_kept_as_hashes_with_an_id_and_a_role) {
  const auto read = hashed({good, " ro:" + other + " "});
  ASSERT_EQ(read.keys.size(), 2u) << all(read);
  EXPECT_EQ(read.keys[0].hash, sha256(good));
  EXPECT_EQ(read.keys[0].id, sha256_hex(good).substr(0, 12));
  EXPECT_FALSE(read.keys[0].read_only);
  EXPECT_EQ(read.keys[1].hash, sha256(other));
  EXPECT_TRUE(read.keys[1].read_only);
  EXPECT_THAT(read.warnings, IsEmpty());
}

// As an editor or a shell of Windows leaves it in a variable. Naive variant: a mark behind a BOM is a part of a key that may write.
TEST_F(admin_keys, a_bom_is_no_part_of_a_key_and_hides_no_mark) {
  const std::string bom = "\xef\xbb\xbf";
  const auto read = hashed({bom + good, " " + bom + " ro:" + bom + other + bom});
  ASSERT_EQ(read.keys.size(), 2u) << all(read);
  EXPECT_EQ(read.keys[0].hash, sha256(good));
  EXPECT_FALSE(read.keys[0].read_only);
  EXPECT_EQ(read.keys[1].hash, sha256(other));
  EXPECT_TRUE(read.keys[1].read_only);
}

// A variant that measures the text with its mark lets a key of 13 bytes in.
TEST_F(admin_keys, short_ones_are_refused_and_weak_ones_told_without_the_mark_of_the_role) {
  EXPECT_THAT(all(hashed({"fifteen-bytes--"})), HasSubstr("VARIABLE: the secret has 15 bytes; at least 16"));
  EXPECT_THAT(all(hashed({"ro:thirteen-byte"})), HasSubstr("at least 16"));
  EXPECT_THAT(all(hashed({"two words that are long"})), HasSubstr("printable"));
  const auto read = hashed({weak});
  EXPECT_EQ(read.keys.size(), 1u);
  ASSERT_EQ(read.warnings.size(), 1u);
  EXPECT_THAT(read.warnings[0], HasSubstr("fewer than 32 bytes"));
  EXPECT_EQ(read.warnings[0].find(weak), std::string::npos);
  EXPECT_THAT(all(join_admin_keys({}, file("ro:thirteen-byte\n"), {})), HasSubstr("at least 16"));
}

TEST_F(admin_keys, of_variable_and_file_are_judged_together) {
  const auto given = hashed({good}).keys;
  EXPECT_EQ(join_admin_keys(given, file("# more\n\n" + other + "\n"), {}).keys.size(), 2u);
  for (const std::string &text : {good + "\n", "ro:" + good + "\n"})
    EXPECT_EQ(all(join_admin_keys(given, file(text), {})), "admin API keys: one key is given twice; remove one\n") << text;
  EXPECT_EQ(all(join_admin_keys(given, {}, {"x", good})), "admin API keys: one key is also the agents' shared secret; use another value\n");
  EXPECT_THAT(all(join_admin_keys(given, folder.at("none"), {})), HasSubstr("cannot be opened"));
  EXPECT_THAT(all(join_admin_keys(given, file("\n"), {})), HasSubstr("holds no secret"));
}

}  // namespace
}  // namespace hive::config
