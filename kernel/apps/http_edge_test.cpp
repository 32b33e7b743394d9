#include "apps/http_edge.hpp"

#include <gtest/gtest.h>

namespace hive::apps {
namespace {

using entry = http::peer_limit::entry;

// Naive variant: the 256 connections of a listener are for whoever comes first.
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

// Naive variant: an eighth is kept, and the operators' listeners take that and more.
TEST(http_edge, clients_get_what_agents_files_and_the_operators_listeners_do_not_need) {
  const struct {
    uint64_t allowed;
    size_t listeners;
    uint64_t clients;
    size_t own;
  } cases[] = {{1'048'576, 2, 917'504, 256}, {4096, 1, 3584, 256}, {4096, 2, 3520, 256}, {1024, 1, 704, 256},
               {1024, 2, 832, 64},           {512, 1, 416, 32},    {64, 1, 32, 4},       {UINT64_MAX, 2, UINT64_MAX - UINT64_MAX / 8, 256}};
  for (const auto &c : cases) {
    const connection_shares got = share_descriptors(c.allowed, c.listeners);
    EXPECT_EQ(got.clients, c.clients) << c.allowed;
    EXPECT_EQ(got.own, c.own) << c.allowed;
  }
  config::edge_settings s;
  const http_edge plain(s, gateway::trusted_proxies{}, 1024);
  s.admin_apart = true;
  const http_edge apart(s, gateway::trusted_proxies{}, 1024);
  EXPECT_EQ(plain.room_for_clients(), 704u);
  EXPECT_EQ(plain.own_limits().max_connections, 256u);
  EXPECT_EQ(apart.room_for_clients(), 832u);
  EXPECT_EQ(apart.own_limits().max_connections, 64u);
}

}  // namespace
}  // namespace hive::apps
