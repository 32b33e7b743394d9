#include "base/host_text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace hive {
namespace {

// Naive variants: what starts like loopback is loopback; only the usual spelling of it is.
TEST(host_text, loopback_is_told_from_names_that_begin_like_it) {
  using namespace std::string_literals;
  const std::pair<std::string, bool> cases[] = {{"localhost", true},
                                                {"LocalHost", true},
                                                {"127.0.0.1", true},
                                                {"127.1.2.3", true},
                                                {"::1", true},
                                                {"0:0:0:0:0:0:0:1", true},
                                                {"::1%lo", true},
                                                {"::ffff:127.0.0.1", true},
                                                {"", false},
                                                {"localhost.evil.example", false},
                                                {"127.0.0.1.evil.example", false},
                                                {"127.evil.example", false},
                                                {"evil.example", false},
                                                {"127.0.0.1\0.evil.example"s, false},
                                                {"::1\0"s, false},
                                                {"128.0.0.1", false},
                                                {"0.0.0.0", false},
                                                {"10.127.0.1", false},
                                                {"::", false},
                                                {"::2", false},
                                                {"1::1", false},
                                                {"::ffff:10.0.0.1", false},
                                                {"[::1]", false}};
  for (const auto &[host, near] : cases) EXPECT_EQ(is_loopback(host), near) << host;
}

}  // namespace
}  // namespace hive
