#include "base/text.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "base/digest.hpp"
#include "base/status.hpp"

namespace hive {
namespace {

TEST(text, durations_are_read_as_go_writes_them) {
  const std::pair<const char *, uint64_t> cases[] = {{"500ms", 500'000'000},     {"5s", 5'000'000'000},
                                                     {"2m", 120'000'000'000},    {"1h30m", 5'400'000'000'000},
                                                     {"1.5s", 1'500'000'000},    {"0", 0},
                                                     {"1m500ms", 60'500'000'000}, {"7ns", 7}, {"3us", 3000}};
  for (const auto &[text, ns] : cases) EXPECT_EQ(parse_duration_ns(text), ns) << text;
  for (const char *bad : {"", "5", "-5s", "+5s", "5x", "s", "5s ", "1e3s", "99999999h"})
    EXPECT_EQ(parse_duration_ns(bad), std::nullopt) << bad;
  EXPECT_EQ(format_duration(5'400'000'000'000), "1h30m");
}

TEST(text, base58_and_sha256_match_known_vectors) {
  std::vector<uint8_t> raw(32);
  std::iota(raw.begin(), raw.end(), uint8_t{0});
  EXPECT_EQ(to_base58(raw), "1thX6LZfHDZZKUs92febYZhYRcXddmzfzF2NvTkPNE");
  EXPECT_EQ(to_base58(std::vector<uint8_t>(32, 0xff)), "JEKNVnkbo3jma5nREBBJCDoXFVeKkD56V3xKrvRmWxFG");
  EXPECT_EQ(sha256_hex("sk-hivenet-1thX6LZfHDZZKUs92febYZhYRcXddmzfzF2NvTkPNE"),
            "a18dd697b3cd71cf3dcd695a9faa68320d2f0983d5f28566f33f734ec1dfd18f");
}

TEST(text, new_uuids_are_of_version_4_and_never_come_twice) {
  std::set<std::string> seen;
  std::mutex lock;
  const auto make = [&] {
    for (int i = 0; i < 1000; ++i) {  // more than the random bytes that a thread keeps
      const std::string id = make_uuid();
      const std::lock_guard hold(lock);
      EXPECT_TRUE(is_uuid(id)) << id;
      EXPECT_EQ(id[14], '4') << id;
      EXPECT_NE(std::string_view("89ab").find(id[19]), std::string_view::npos) << id;
      EXPECT_TRUE(seen.insert(id).second) << id;
    }
  };
  std::thread other(make);
  make();
  other.join();
}

TEST(text, uuids_are_recognised_in_both_forms) {
  EXPECT_TRUE(is_uuid(make_uuid()));
  EXPECT_TRUE(is_uuid("0123456789abcdef0123456789ABCDEF"));
  EXPECT_FALSE(is_uuid("0123456789abcdef0123456789abcde"));
  EXPECT_FALSE(is_uuid("{01234567-89ab-cdef-0123-456789abcdef}"));
  EXPECT_FALSE(is_uuid("urn:uuid:01234567-89ab-cdef-0123-456789abcdef"));
}

TEST(text, nearest_name_is_offered_only_when_it_is_near) {
  const std::string names[] = {"queue-size", "queue-depth", "max-concurrent"};
  EXPECT_EQ(nearest("queue-dept", names), "queue-depth");
  EXPECT_EQ(nearest("zzz", names), "");
  EXPECT_EQ(nearest("queue-depth" + std::string(40, 'x'), names), "") << "much longer than all";
  EXPECT_EQ(nearest("ab", std::vector<std::string>{"abcd", "ac", "ad"}), "ac") << "the first of those as near";
}

TEST(text, digests_of_secrets_compare_by_every_byte) {
  digest32 first = sha256("abc"), last = first;
  EXPECT_TRUE(equal_secret(first, last));
  last.back() = static_cast<uint8_t>(last.back() + 1);
  EXPECT_FALSE(equal_secret(first, last));
  first.front() = static_cast<uint8_t>(first.front() + 1);
  EXPECT_FALSE(equal_secret(first, sha256("abc")));
}

TEST(text, hkdf_gives_the_link_key_vector) {
  EXPECT_EQ(to_hex(hkdf_sha256("0123456789abcdef0123456789abcdef", "hivenet-zmq-auth-v1", "agent-hello")),
            "eba0956c3718472dc659ed1e14256abbba0b536b0c6dc35269108c0741cdcf9a");
}

TEST(status, a_path_grows_outwards) {
  const status s = fail(errc::invalid, "bad", "dirs[0]").at("plugins");
  EXPECT_EQ(s.text(), "plugins.dirs[0]: bad");
  EXPECT_EQ(fail(errc::invalid, "bad", "[1]").at("x").path(), "x[1]");
}

TEST(text, names_are_equal_whatever_the_case_of_ascii_letters_and_of_nothing_else) {
  const auto fold = [](int c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; };
  for (const size_t length : {1u, 7u, 8u, 13u, 16u}) {
    for (size_t at = 0; at < length; at += 5) {
      std::string a(length, 'k'), b(length, 'K');
      for (int x = 0; x < 256; ++x) {
        for (int y = 0; y < 256; ++y) {
          a[at] = static_cast<char>(x);
          b[at] = static_cast<char>(y);
          ASSERT_EQ(iequals(a, b), fold(x) == fold(y)) << x << " and " << y << " at " << at << " of " << length;
        }
      }
    }
  }
  EXPECT_FALSE(iequals("ab", "abc"));
  EXPECT_TRUE(iequals("", ""));
}

}  // namespace
}  // namespace hive
