#include "http/peer_limit.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace hive::http {
namespace {

using entry = peer_limit::entry;

TEST(peer_limit, counts_an_ipv4_address_and_an_ipv6_64) {
  peer_limit peers(2, {});
  const struct {
    const char *address;
    entry wanted;
  } steps[] = {{"192.0.2.1", entry::counted},        {"192.0.2.1", entry::counted},        {"192.0.2.1", entry::refused},
               {"192.0.2.2", entry::counted},        {"2001:db8:0:1::1", entry::counted},  {"2001:db8:0:1:ffff::2", entry::counted},
               {"2001:db8:0:1::3", entry::refused},  {"2001:db8:0:2::1", entry::counted},  {"no address", entry::uncounted}};
  for (const auto &s : steps) EXPECT_EQ(peers.enter(s.address), s.wanted) << s.address;
  peers.leave("2001:db8:0:1::1");
  EXPECT_EQ(peers.enter("2001:db8:0:1::9"), entry::counted);
  peers.leave("192.0.2.1");
  peers.leave("192.0.2.1");
  EXPECT_EQ(peers.enter("192.0.2.1"), entry::counted);
  EXPECT_EQ(peers.enter("192.0.2.1"), entry::counted);
  EXPECT_EQ(peers.enter("192.0.2.1"), entry::refused) << "leaving gives back what was taken, no more";
}

TEST(peer_limit, who_is_exempt_is_never_refused_and_never_counted) {
  peer_limit peers(1, [](std::string_view a) { return a == "10.0.0.1"; });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(peers.enter("10.0.0.1"), entry::uncounted);
  EXPECT_EQ(peers.enter("10.0.0.2"), entry::counted);
  EXPECT_EQ(peers.enter("10.0.0.2"), entry::refused);
}

// Workers have servers of their own. Naive variant: a limit a worker, so that as many workers allow as many times as much.
TEST(peer_limit, is_one_over_all_threads) {
  peer_limit peers(100, {});
  std::vector<size_t> got(4);
  std::vector<std::thread> workers;
  for (size_t &mine : got)
    workers.emplace_back([&peers, &mine] {
      for (int i = 0; i < 1000; ++i) mine += peers.enter("192.0.2.1") == entry::counted;
    });
  for (auto &w : workers) w.join();
  EXPECT_EQ(got[0] + got[1] + got[2] + got[3], 100u);
}

}  // namespace
}  // namespace hive::http
