#include "apps/http_edge.hpp"

#include <gtest/gtest.h>

namespace hive::apps {
namespace {

using entry = http::peer_limit::entry;

// Naive variant: the 256 connections of a listener are for who comes first.
TEST(http_edge, one_address_does_not_fill_the_operators_listeners) {
  const http_edge edge(config::edge_settings{}, gateway::trusted_proxies{});
  const http::server_limits own = edge.own_limits();
  ASSERT_NE(own.peers, nullptr);
  size_t let_in = 0;
  while (let_in < own.max_connections && own.peers->enter("192.0.2.1") == entry::counted) ++let_in;
  EXPECT_EQ(let_in, 32u);
  EXPECT_EQ(own.peers->enter("192.0.2.2"), entry::counted);
  for (const char *here : {"127.0.0.1", "::1"}) EXPECT_EQ(own.peers->enter(here), entry::uncounted) << here;
  EXPECT_EQ(edge.client_limits().peers, nullptr) << "clients have a limit of their own, and by default none";
}

}  // namespace
}  // namespace hive::apps
