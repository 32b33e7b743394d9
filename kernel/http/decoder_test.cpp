#include "http/decoder.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace hive::http {
namespace {

using state = body_decoder::state;

struct outcome {
  std::string payload;
  size_t consumed = 0;
  state end = state::more;
};

// Feeds `wire` in the given pieces, as reads would bring it.
outcome feed(body_decoder &d, const std::string &wire, const std::vector<size_t> &cuts) {
  outcome out;
  size_t from = 0;
  for (size_t i = 0; i <= cuts.size() && d.now() == state::more; ++i) {
    const size_t to = i < cuts.size() ? cuts[i] : wire.size();
    std::string piece = wire.substr(from, to - from);
    from = to;
    const auto step = d.decode(piece);
    out.payload += step.payload;
    out.consumed += step.consumed;
  }
  out.end = d.now();
  return out;
}

TEST(body_decoder, a_chunked_body_is_the_same_however_it_is_cut) {
  const std::string wire = "5\r\nhello\r\n1;a=\"b\"\r\n \r\nA\r\n0123456789\r\n0;end\r\n\r\nGET /next";
  for (size_t a = 0; a <= wire.size(); ++a) {
    for (size_t b = a; b <= wire.size(); ++b) {
      body_decoder d;
      d.start_chunked(1000);
      const outcome got = feed(d, wire, {a, b});
      ASSERT_EQ(got.end, state::done) << a << ' ' << b;
      ASSERT_EQ(got.payload, "hello 0123456789");
      ASSERT_EQ(got.consumed, wire.size() - 9);
    }
  }
}

TEST(body_decoder, one_read_gives_one_piece_of_payload) {
  body_decoder d;
  d.start_chunked(1000);
  std::string wire = "2\r\nab\r\n3\r\ncde\r\n1\r\nf";
  EXPECT_EQ(d.decode(wire).payload, "abcdef");
  EXPECT_EQ(d.now(), state::more);
}

TEST(body_decoder, refuses_what_could_be_read_in_two_ways) {
  const struct {
    std::string wire;
    state end;
  } cases[] = {
      {"0\r\nX: y\r\n\r\n", state::malformed},                             // trailer
      {"0\r\n\n", state::malformed},
      {"5\nhello\r\n0\r\n\r\n", state::malformed},                         // bare LF
      {"5\r\nhello\n0\r\n\r\n", state::malformed},
      {"5\r\nhelloo\r\n0\r\n\r\n", state::malformed},                      // longer than said
      {"5 \r\nhello\r\n0\r\n\r\n", state::malformed},
      {" 5\r\nhello\r\n", state::malformed},
      {"0x5\r\nhello\r\n", state::malformed},
      {"+5\r\nhello\r\n", state::malformed},
      {"-1\r\n", state::malformed},
      {"\r\n", state::malformed},
      {"g\r\n", state::malformed},
      {"5;\x01\r\nhello", state::malformed},
      {"5;a\nb\r\nhello", state::malformed},
      {"00000000000000005\r\nhello", state::malformed},                    // 17 digits
      {"ffffffffffffffff\r\n", state::too_large},
      {"65\r\n" + std::string(101, 'x') + "\r\n0\r\n\r\n", state::too_large},
      {"64\r\n" + std::string(100, 'x') + "\r\n0\r\n\r\n", state::done},
      {"33\r\n" + std::string(51, 'x') + "\r\n33\r\n", state::too_large},  // in sum
      {"1;" + std::string(255, 'e') + "\r\nx\r\n0\r\n\r\n", state::done},
      {"1;" + std::string(256, 'e') + "\r\nx\r\n0\r\n\r\n", state::malformed},
      {"5\r\nhel", state::more},
  };
  for (const auto &c : cases) {
    for (const bool bytewise : {false, true}) {
      body_decoder d;
      d.start_chunked(100);
      std::vector<size_t> cuts;
      for (size_t i = 1; bytewise && i < c.wire.size(); ++i) cuts.push_back(i);
      EXPECT_EQ(feed(d, c.wire, cuts).end, c.end) << c.wire << ": " << d.what();
    }
  }
}

TEST(body_decoder, extensions_are_bounded_over_a_whole_body) {
  body_decoder d;
  d.start_chunked(1 << 20);
  const std::string chunk = "1;" + std::string(200, 'e') + "\r\nx\r\n";
  std::string wire;
  for (int i = 0; i < 200; ++i) wire += chunk;
  EXPECT_EQ(feed(d, wire, {}).end, state::malformed);
}

TEST(body_decoder, a_counted_body_ends_at_its_length_and_an_open_one_with_the_connection) {
  body_decoder d;
  d.start_length(5);
  EXPECT_EQ(feed(d, "helloGET", {3}).consumed, 5u);
  EXPECT_TRUE(d.done());
  d.start_length(0);
  EXPECT_TRUE(d.done());
  d.start_length(5);
  feed(d, "hell", {});
  EXPECT_EQ(d.remaining(), 1u);
  d.end_of_input();
  EXPECT_EQ(d.now(), state::malformed);
  d.start_until_close(8);
  EXPECT_EQ(feed(d, "12345678", {4}).payload, "12345678");
  d.end_of_input();
  EXPECT_TRUE(d.done());
  d.start_until_close(8);
  EXPECT_EQ(feed(d, "123456789", {}).end, state::too_large);
}

TEST(body_decoder, random_bytes_never_give_more_than_the_limit) {
  std::mt19937 random(7);
  const std::string alphabet = "0123456789abF;\r\n\r\nx";
  for (int round = 0; round < 20'000; ++round) {
    std::string wire;
    for (unsigned i = random() % 60; i > 0; --i) wire += alphabet[random() % alphabet.size()];
    body_decoder whole, pieces;
    whole.start_chunked(20);
    pieces.start_chunked(20);
    const outcome a = feed(whole, wire, {});
    std::vector<size_t> cuts;
    for (size_t i = 1; i < wire.size(); ++i) {
      if (random() % 3 == 0) cuts.push_back(i);
    }
    const outcome b = feed(pieces, wire, cuts);
    ASSERT_LE(a.payload.size(), 20u);
    ASSERT_EQ(a.payload, b.payload) << wire;
    ASSERT_EQ(a.end, b.end) << wire;
  }
}

}  // namespace
}  // namespace hive::http
