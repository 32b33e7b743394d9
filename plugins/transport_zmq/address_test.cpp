#include "address.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace hive::transport_zmq {
namespace {

// Naive variant: each IPv6 address is one of its own, of which whoever has one has 2^72.
TEST(zmq_address, limits_count_an_ipv4_address_or_the_56_bits_of_an_ipv6_site) {
  const std::pair<const char *, const char *> cases[] = {{"10.1.2.3", "10.1.2.3"},
                                                         {"10.1.2.4", "10.1.2.4"},
                                                         {"2001:db8:1:2a3::1", "2001:db8:1:200::/56"},
                                                         {"2001:db8:1:2ff:9::1", "2001:db8:1:200::/56"},
                                                         {"2001:db8:1:300::1", "2001:db8:1:300::/56"},
                                                         {"", ""}};
  for (const auto &[address, site] : cases) EXPECT_EQ(site_of(address), site) << address;
}

TEST(zmq_address, loopback_is_known_in_both_families) {
  for (const char *own : {"127.0.0.1", "127.9.9.9", "::1"}) EXPECT_TRUE(is_loopback(own)) << own;
  for (const char *other : {"10.0.0.1", "128.0.0.1", "::2", "2001:db8::1", "1127.0.0.1", ""}) EXPECT_FALSE(is_loopback(other)) << other;
}

TEST(zmq_address, is_a_literal_with_a_port_and_nothing_else) {
  for (const char *good : {"127.0.0.1:50051", "[::1]:0", "[2001:db8::1]:65535"}) {
    literal l;
    EXPECT_EQ(parse_literal(good, l), "") << good;
    EXPECT_EQ(to_text(l), good);
  }
  for (const char *bad : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "localhost:1", "::1:5", "[127.0.0.1]:5", "*:5", "[::1:5"}) {
    literal l;
    EXPECT_NE(parse_literal(bad, l), "") << bad;
  }
}

}  // namespace
}  // namespace hive::transport_zmq
