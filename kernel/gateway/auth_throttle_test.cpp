#include "gateway/auth_throttle.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/clock.hpp"

namespace hive::gateway {
namespace {

constexpr uint64_t start = 1000 * ns_per_s;

void fail(auth_throttle &t, const std::string &address, int times, uint64_t at = start) {
  for (int i = 0; i < times; ++i) t.failed(address, at);
}

// Naive variants: a count that starts anew each minute, so that twice the limit passes at its border; a lock-out that a steady
// guesser renews for good.
TEST(auth_throttle, lets_so_many_failures_pass_a_minute_and_then_one_a_period) {
  auth_throttle t(60);
  fail(t, "10.0.0.1", 59);
  EXPECT_EQ(t.wait_s("10.0.0.1", start), 0u);
  fail(t, "10.0.0.1", 1);
  EXPECT_EQ(t.wait_s("10.0.0.1", start), 1u);
  EXPECT_EQ(t.wait_s("10.0.0.2", start), 0u) << "another address";
  EXPECT_EQ(t.wait_s("10.0.0.1", start + ns_per_s), 0u) << "one more try";
  fail(t, "10.0.0.1", 1, start + ns_per_s);
  EXPECT_EQ(t.wait_s("10.0.0.1", start + ns_per_s), 1u);
  EXPECT_EQ(t.wait_s("10.0.0.1", start + 2 * ns_per_s), 0u);
  fail(t, "10.0.0.1", 60, start + 61 * ns_per_s);
  EXPECT_EQ(t.wait_s("10.0.0.1", start + 61 * ns_per_s), 1u) << "a minute later as many again";
  EXPECT_EQ(t.wait_s("10.0.0.1", start + 200 * ns_per_s), 0u);
}

TEST(auth_throttle, knows_an_address_however_it_is_written) {
  const struct {
    const char *failing, *asking;
    bool waits;
  } cases[] = {
      {"2001:db8::1", "2001:0db8:0:0::ffff", true},   // one /64 belongs to one
      {"2001:db8::1", "2001:db8:0:1::1", false},
      {"::ffff:10.0.0.1", "::ffff:10.0.0.1", true},
      {"10.0.0.1", "10.0.0.1", true},
      {"127.0.0.1", "127.0.0.1", false},              // maybe everybody
      {"::1", "::1", false},
      {"nobody", "nobody", false},
  };
  for (const auto &c : cases) {
    auth_throttle t(2);
    fail(t, c.failing, 5);
    EXPECT_EQ(t.wait_s(c.asking, start) > 0, c.waits) << c.failing << " " << c.asking;
  }
}

TEST(auth_throttle, off_holds_nobody_back) {
  auth_throttle t(0);
  fail(t, "10.0.0.1", 1000);
  EXPECT_EQ(t.wait_s("10.0.0.1", start), 0u);
}

// Naive variant: the oldest goes, and the guesser frees itself from many addresses at once.
TEST(auth_throttle, of_too_many_addresses_those_with_least_to_wait_for_are_forgotten) {
  auth_throttle t(10);
  fail(t, "10.0.0.1", 40);
  for (int i = 0; i < 100'000; ++i) fail(t, "10.1." + std::to_string(i / 250 % 250) + "." + std::to_string(i % 250), 1);
  EXPECT_GT(t.wait_s("10.0.0.1", start), 0u);
}

}  // namespace
}  // namespace hive::gateway
