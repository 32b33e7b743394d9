#include "config/address.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "base/host_text.hpp"
#include "base/test_folder.hpp"
#include "config/secret.hpp"
#include "config/test_swapped_file.hpp"

namespace hive::config {
namespace {

TEST(address, forms_that_are_accepted) {
  const std::pair<const char *, address> cases[] = {{":8080", {"", 8080}},        {"127.0.0.1:0", {"127.0.0.1", 0}},
                                                    {"[::1]:0", {"::1", 0}},      {"router.example:50051", {"router.example", 50051}},
                                                    {"[fe80::1%eth0]:1", {"fe80::1%eth0", 1}}};
  for (const auto &[text, want] : cases) {
    const auto got = parse_address(text);
    ASSERT_TRUE(got.ok()) << text;
    EXPECT_EQ(*got, want);
    EXPECT_EQ(got->text(), text);
  }
}

TEST(address, others_are_refused_with_the_right_form) {
  for (const char *bad : {"", "8080", "host", ":65536", ":-1", ":080", "::1:80", "[::1]", "[1.2.3.4]:80", "a b:80", "300.1.1.1:80", ":80x", "http://a:80"}) {
    const auto got = parse_address(bad);
    ASSERT_FALSE(got.ok()) << bad;
    EXPECT_EQ(got.why().message(), "\"" + std::string(bad) + "\" is not an address; write one like :8080, 127.0.0.1:8080 or [::1]:8080");
  }
}

TEST(address, what_hides_behind_a_literal_is_seen) {
  using namespace std::string_literals;
  const std::string cases[] = {"127.0.0.1\0x:80"s, "[::1\0x]:80"s, "127.0.0.1\0\0\0:8027.0.0.1:80"s,
                               "[fe80::1%]:80", "[fe80::1%a]b]:80", "[fe80::1%a b]:80", "[fe80::1%0123456789abcdef]:80"};
  for (const std::string &bad : cases) EXPECT_FALSE(parse_address(bad).ok()) << bad;
  EXPECT_FALSE(is_ip_literal("10.0.0.1\0"s));
  EXPECT_FALSE(parse_announce("10.0.0.1\0"s).ok());
}

TEST(address, announce_takes_multiaddresses_and_hosts) {
  const std::pair<const char *, const char *> cases[] = {
      {"/ip4/10.0.0.1/tcp/9000", "10.0.0.1"}, {"/dns4/r.example/tcp/9000", "r.example"}, {"/ip6/::1/tcp/1", "::1"},
      {"10.0.0.1", "10.0.0.1"},               {"r.example:9000", "r.example"},           {"tcp://[::1]:9000", "::1"},
      {"::1", "::1"}};
  for (const auto &[text, host] : cases) {
    const auto got = parse_announce(text);
    ASSERT_TRUE(got.ok()) << text;
    EXPECT_EQ(*got, host);
  }
  for (const char *bad : {"", "/ip4/10.0.0.1", "/ip4/name/tcp/1", "/ip4/1.2.3.4/udp/1", "/dns4/a/tcp/x", ":9000", "tcp://:1", "/p2p/12D3"})
    EXPECT_FALSE(parse_announce(bad).ok()) << bad;
}

TEST(address, base_urls_lose_their_trailing_slash_and_carry_nothing_else) {
  EXPECT_EQ(*parse_base_url("http://localhost:8888/"), "http://localhost:8888");
  EXPECT_EQ(*parse_base_url("https://[::1]/v2/"), "https://[::1]/v2");
  for (const char *bad : {"localhost:8888", "ftp://a", "http://", "http://u:p@a", "http://a?x", "http://a:0", "http://a:99999", "http://a b", "http:///x"})
    EXPECT_FALSE(parse_base_url(bad).ok()) << bad;
  // The refusal is printed. Naive variant: it quotes whatever was given.
  for (const char *bad : {"http://u:hunter2@a", "ftp://hunter2@a", "http://a?key=hunter2", "hunter2@a", "http://a b@hunter2", "http://a#hunter2"})
    EXPECT_EQ(parse_base_url(bad).why().text().find("hunter2"), std::string::npos) << bad;
}

TEST(address, the_host_of_a_url_stands_between_its_scheme_and_its_port_or_path) {
  const std::pair<const char *, const char *> cases[] = {{"http://127.0.0.1.evil.example", "127.0.0.1.evil.example"},
                                                         {"http://localhost:8888/v1", "localhost"},
                                                         {"https://[::1]/v2", "::1"},
                                                         {"http://[::1]:80", "::1"},
                                                         {"localhost:8888", ""},
                                                         {"http://localhost@evil.example", ""}};
  for (const auto &[url, host] : cases) EXPECT_EQ(host_of_url(url), host) << url;
}

class secret_file : public testing::Test {
 protected:
  test_folder folder_;
  std::string file_ = folder_.at("secret.txt");
  void write(std::string_view text) { std::ofstream(file_, std::ios::binary) << text; }
};

TEST_F(secret_file, is_trimmed_of_white_space_and_bom_and_may_hold_several) {
  write("\xef\xbb\xbf  0123456789abcdef0123456789abcdef \r\n\n# old\nfedcba9876543210fedcba9876543210\n");
  const auto got = read_secrets(file_, 32);
  ASSERT_TRUE(got.ok()) << got.why().text();
  EXPECT_EQ(*got, (std::vector<std::string>{"0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"}));
}

TEST_F(secret_file, refusals_name_the_source_and_never_the_secret) {
  const std::pair<std::string, std::string> cases[] = {
      {"", ": holds no secret; write one of at least 32 bytes"},
      {"changeme", ":1: the secret has 8 bytes; at least 32 are needed (for example: openssl rand -hex 32)"},
      {"\n0123456789abcdef\x01" "0123456789abcdef", ":2: the secret holds a byte that is not printable ASCII, or a space; write it as one word"},
      {"0123456789abcdef 0123456789abcdef", ":1: the secret holds a byte that is not printable ASCII, or a space; write it as one word"}};
  for (const auto &[text, why] : cases) {
    write(text);
    const auto got = read_secrets(file_, 32);
    ASSERT_FALSE(got.ok()) << text;
    EXPECT_EQ(got.why().text(), file_ + why);
  }
  EXPECT_EQ(read_secrets(file_ + ".none", 32).why().message(), "cannot be opened: No such file or directory");
}

// Naive variants: an open that waits for somebody to write the pipe, on the thread that runs the router; a read without end.
TEST_F(secret_file, is_a_regular_file_or_refused_at_once) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  for (const std::string &bad : {file_, std::string("/dev/zero"), folder_.path().string()})
    EXPECT_EQ(read_secrets(bad, 32).why().text(), bad + ": not a regular file");
}

// Naive variant: a file is opened for each look at it: its kind, its size, its text.
TEST_F(secret_file, behind_a_link_that_is_renamed_meanwhile_is_the_one_or_the_other) {
  const std::string secrets[] = {std::string(32, 'a'), std::string(40, 'b')};
  const std::string texts[] = {"#" + std::string(40'000, 'x') + "\n" + secrets[0] + "\n", secrets[1] + "\n"};
  swapped_file(texts).expect_whole([&](const std::string &path) {
    const auto got = read_secrets(path, 32);
    for (const int which : {0, 1})
      if (got && *got == std::vector<std::string>{secrets[which]}) return which;
    ADD_FAILURE() << (got ? std::to_string(got->size()) + " secrets" : got.why().text());
    return -1;
  });
}

TEST_F(secret_file, has_at_most_64_KiB) {
  const std::string secret(32, 's');
  write(secret + "\n" + std::string(64 * 1024 - 33, '#'));
  EXPECT_EQ(*read_secrets(file_, 32), std::vector<std::string>{secret});
  write(secret + "\n" + std::string(64 * 1024 - 32, '#'));
  EXPECT_EQ(read_secrets(file_, 32).why().text(), file_ + ": larger than 64 KiB, so not a secret file");
}

}  // namespace
}  // namespace hive::config
