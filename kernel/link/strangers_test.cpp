// Connections that have proven nothing: what counts as one address, how many there may be, how often the log hears of it.
#include "link/strangers.hpp"

#include "link/link_bench_test.hpp"

namespace hive::link::testing {
namespace {

TEST(address_group, is_an_ipv4_address_or_the_56_bits_of_an_ipv6_site_and_loopback_has_none) {
  const std::pair<const char *, const char *> cases[] = {
      {"10.1.2.3:4711", "10.1.2.3"},
      {"10.1.2.3", "10.1.2.3"},
      {"[::ffff:10.1.2.3]:4711", "10.1.2.3"},
      {"[2001:db8:1:2a3::1]:1", "2001:db8:1:200::/56"},
      {"[2001:db8:1:2ff:9::1]:2", "2001:db8:1:200::/56"},
      {"[2001:db8:1:300::1]:2", "2001:db8:1:300::/56"},
      {"2001:db8:1:300::1", "2001:db8:1:300::/56"},
      {"127.0.0.1:1", ""},
      {"127.8.9.1:1", ""},
      {"[::1]:1", ""},
      {"[::ffff:127.0.0.1]:1", ""},
      {"", ""},
      {"a name:1", ""},
      {"[", ""}};
  for (const auto &[address, group] : cases) EXPECT_EQ(address_group(address), group) << address;
}

TEST(stranger_budget, counts_an_address_and_all_and_gives_places_back) {
  using answer = stranger_budget::answer;
  stranger_budget b(2, 4);
  EXPECT_EQ(b.enter("a"), answer::enter);
  EXPECT_EQ(b.enter("a"), answer::enter);
  EXPECT_EQ(b.enter("a"), answer::too_many_of_address);
  EXPECT_EQ(b.enter(""), answer::enter);
  EXPECT_EQ(b.enter(""), answer::enter) << "loopback has no limit of its own";
  EXPECT_EQ(b.enter(""), answer::too_many);
  EXPECT_EQ(b.enter("b"), answer::too_many);
  b.leave("a");
  EXPECT_EQ(b.inside(), 3u);
  EXPECT_EQ(b.enter("a"), answer::enter);
}

TEST(stranger_budget, a_line_is_worth_it_once_a_minute_an_address_and_the_memory_of_it_is_bounded) {
  stranger_budget b(1, 1);
  EXPECT_TRUE(b.worth_a_line("a", 1));
  EXPECT_FALSE(b.worth_a_line("a", 59 * ns_per_s));
  EXPECT_TRUE(b.worth_a_line("b", 59 * ns_per_s));
  EXPECT_TRUE(b.worth_a_line("a", 61 * ns_per_s));
  size_t lines = 0;
  for (int i = 0; i < 5000; ++i) lines += b.worth_a_line(std::to_string(i), 62 * ns_per_s);
  EXPECT_EQ(lines, stranger_budget::most_told - 2);
  EXPECT_TRUE(b.worth_a_line("later", 200 * ns_per_s));
}

// Naive variants: whoever has shaken hands has a place until its time is up; welcomed agents count, too.
TEST(strangers, that_prove_nothing_have_few_places_and_agents_none_of_them) {
  fake_factory factory;
  factory.net.from_host = "10.0.0.1";
  bench b{factory};
  b.options.strangers_per_address = 3;
  b.options.strangers = 5;
  b.start_hubs();
  for (uint8_t i = 0; i < 4; ++i) b.up(static_cast<uint8_t>(100 + i));
  std::vector<std::unique_ptr<raw_agent>> idle;
  for (uint8_t i = 0; i < 3; ++i) idle.push_back(std::make_unique<raw_agent>(b, static_cast<uint8_t>(10 + i)));
  raw_agent above(b, 20);
  EXPECT_TRUE(b.until([&] { return above.lost; }));
  EXPECT_EQ(b.hub().counters.rejected[rejection_of("strangers_per_address")], 1u);
  factory.net.from_host = "10.0.0.2";
  for (uint8_t i = 0; i < 2; ++i) idle.push_back(std::make_unique<raw_agent>(b, static_cast<uint8_t>(30 + i)));
  raw_agent too_many(b, 40);
  EXPECT_TRUE(b.until([&] { return too_many.lost; }));
  EXPECT_EQ(b.hub().counters.rejected[rejection_of("strangers")], 1u);
  EXPECT_EQ(b.hub().counters.links_open, 4u) << "nobody who is welcome has lost anything";
  // The proof frees the place, and so does leaving.
  ASSERT_TRUE(idle[3]->join());
  raw_agent next(b, 41);
  EXPECT_TRUE(next.join());
}

TEST(strangers, that_come_and_go_by_the_thousand_leave_no_place_taken) {
  fake_factory factory;
  factory.net.from_host = "10.0.0.1";
  bench b{factory};
  b.start_hubs();
  for (int i = 0; i < 2000; ++i) {
    raw_agent stranger(b, static_cast<uint8_t>(i % 200 + 1));
    if (i % 3 == 0) stranger.send_raw("GET / HTTP/1.1\r\n\r\n");
    if (i % 3 == 1) stranger.hello(stranger.id.peer_id);
    b.settle();
  }
  ASSERT_TRUE(b.until([&] { return b.hub().links().empty(); }));
  EXPECT_EQ(b.hub().counters.rejected[rejection_of("strangers_per_address")], 0u);
  raw_agent last(b, 1);
  EXPECT_TRUE(last.join());
}

}  // namespace
}  // namespace hive::link::testing
