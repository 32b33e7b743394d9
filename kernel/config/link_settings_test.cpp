#include "config/link_settings.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/test_folder.hpp"

namespace hive::config {
namespace {

const std::string one(32, '1'), two(32, '2'), three(32, '3');

class link_secrets : public testing::Test {
 protected:
  std::string file(const std::string &name, const std::string &text) {
    std::ofstream(folder_.at(name), std::ios::binary) << text;
    return folder_.at(name);
  }
  test_folder folder_;
};

TEST_F(link_secrets, come_newest_first_and_each_once_from_files_and_variables) {
  const std::string now = file("now", one + "\n" + two + "\n"), before = file("before", two + "\n" + three + "\n");
  const struct {
    link_secret_sources from;
    std::vector<std::string> expected;
  } cases[] = {{{}, {}},
               {{"", one, "", ""}, {one}},
               {{"", one, "", two}, {one, two}},
               {{now, three, "", ""}, {one, two}},
               {{now, "", before, one}, {one, two, three}},
               {{"", one, "", one}, {one}},
               {{"", "\xef\xbb\xbf" + one + "\n", "", " \xef\xbb\xbf" + two}, {one, two}}};
  for (const auto &[from, expected] : cases) {
    const auto got = read_link_secrets(from);
    ASSERT_TRUE(got.ok()) << got.why().text();
    EXPECT_EQ(*got, expected);
  }
}

TEST_F(link_secrets, are_read_again_as_the_files_are_then) {
  const link_secret_sources from{file("now", one), "", "", ""};
  EXPECT_EQ(read_link_secrets(from)->front(), one);
  file("now", two);
  EXPECT_EQ(read_link_secrets(from)->front(), two);
}

// Naive variant: a previous secret alone is taken for the one in use.
TEST_F(link_secrets, refusals_say_where) {
  std::string nine;
  for (char c = 'a'; c < 'j'; ++c) nine += std::string(32, c) + "\n";
  const struct {
    link_secret_sources from;
    std::string says;
  } cases[] = {{{"", "short", "", ""}, "HIVENET_ROUTER_JWT_SECRET: the secret has 5 bytes"},
               {{"", one, "", "short"}, "HIVENET_ROUTER_JWT_SECRET_PREVIOUS: the secret has 5 bytes"},
               {{"", one + "\x01", "", ""}, "HIVENET_ROUTER_JWT_SECRET: the secret holds a byte that is not printable ASCII"},
               {{"", one + "\xc3\xbc", "", ""}, "HIVENET_ROUTER_JWT_SECRET: the secret holds a byte that is not printable ASCII"},
               {{"", one, "", two + " " + two}, "HIVENET_ROUTER_JWT_SECRET_PREVIOUS: the secret holds a byte that is not printable ASCII"},
               {{"", "", "", two}, "HIVENET_ROUTER_JWT_SECRET_PREVIOUS: a previous secret without one in use"},
               {{folder_.at("none"), "", "", ""}, folder_.at("none") + ": cannot be opened"},
               {{file("nine", nine), "", "", ""}, folder_.at("nine") + ": there are 9 shared secrets; at most 8"}};
  for (const auto &[from, says] : cases) {
    const auto got = read_link_secrets(from);
    ASSERT_FALSE(got.ok()) << says;
    EXPECT_TRUE(got.why().text().starts_with(says)) << got.why().text();
  }
}

TEST_F(link_secrets, in_a_file_that_everybody_can_read_are_warned_about) {
  const std::string open = file("open", one), closed = file("closed", two);
  std::filesystem::permissions(open, std::filesystem::perms(0644));
  std::filesystem::permissions(closed, std::filesystem::perms(0640));
  EXPECT_EQ(judge_secret_files({closed, "", open, ""}),
            std::vector<std::string>{open + ": everybody on this machine can read the shared secret; run chmod o-r on it"});
  EXPECT_TRUE(judge_secret_files({closed, one, "", two}).empty());
}

TEST(peer_id, is_the_text_of_52_characters) {
  const std::string peer = "12D3KooWA4Xop1JaT3MHxwYMkCepYsv4iPVopMXwCz5iHYdBfeSB";
  EXPECT_TRUE(is_peer_id(peer).ok());
  for (const std::string &bad : {std::string(), peer.substr(1), peer + "B", std::string("QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdGabcdef"),
                                 peer.substr(0, 51) + "0", peer.substr(0, 51) + "\n"})
    EXPECT_FALSE(is_peer_id(bad).ok()) << bad;
}

}  // namespace
}  // namespace hive::config
