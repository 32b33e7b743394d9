#include "link/record.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "link/credit.hpp"
#include "link/messages.hpp"

namespace hive::link {
namespace {

std::string encode(const record_head &h, std::string_view meta, std::string_view payload) {
  std::string out(encoded_bytes(meta.size(), payload.size()), '\x55');
  EXPECT_EQ(encode_record(reinterpret_cast<uint8_t *>(out.data()), h, meta, payload), out.size());
  return out;
}

TEST(record, the_header_has_the_layout_of_the_protocol_page) {
  const auto bytes = encode({kind::head, 0x0201, 0x1122334455667788, 0x01020304, 0x0a0b0c0d, 404}, "mm", "p");
  const uint8_t expected[32] = {1, 24, 1, 2, 3, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
                                2, 0, 0, 0, 4, 3, 2, 1, 0x0d, 0x0c, 0x0b, 0x0a, 0x94, 1, 0, 0};
  EXPECT_EQ(std::memcmp(bytes.data(), expected, 32), 0);
  EXPECT_EQ(bytes.substr(32), std::string("mmp\0\0\0\0\0", 8));
}

TEST(record, several_records_of_a_frame_come_back_as_they_went_in) {
  const std::string big(max_payload_bytes, 'b');
  const std::string frame = encode({.what = kind::open, .stream = 5}, "meta", "") + encode({.what = kind::data, .seq = 1}, "", "x") +
                            encode({.what = kind::data, .seq = 2}, "", big);
  frame_reader reader(frame);
  record r;
  ASSERT_EQ(reader.next(r), frame_reader::outcome::record);
  EXPECT_EQ(r.meta, "meta");
  EXPECT_EQ(r.stream, 5u);
  ASSERT_EQ(reader.next(r), frame_reader::outcome::record);
  EXPECT_EQ(r.payload, "x");
  ASSERT_EQ(reader.next(r), frame_reader::outcome::record);
  EXPECT_EQ(r.payload, big);
  EXPECT_EQ(reader.next(r), frame_reader::outcome::end);
}

TEST(record, what_does_not_fit_is_bad) {
  struct bad_case {
    const char *name;
    std::string frame;
  };
  const std::string good = encode({.what = kind::data}, "me", "payload");
  const auto with = [&](size_t at, std::vector<uint8_t> bytes) {
    std::string s = good;
    for (size_t i = 0; i < bytes.size(); ++i) s[at + i] = static_cast<char>(bytes[i]);
    return s;
  };
  const bad_case cases[] = {
      {"empty", ""},
      {"other version", with(0, {2})},
      {"length beyond the frame", with(4, {0x40, 0, 0, 0})},
      {"length near 2^32", with(4, {0xff, 0xff, 0xff, 0xff})},
      {"metadata longer than the record", with(16, {10, 0, 0, 0})},
      {"metadata near 2^32", with(16, {0xff, 0xff, 0xff, 0xff})},
      {"frame too long", std::string(max_frame_bytes + 8, '\0')},
  };
  for (const auto &c : cases) {
    frame_reader reader(c.frame);
    record r;
    EXPECT_EQ(reader.next(r), frame_reader::outcome::bad) << c.name;
    EXPECT_EQ(reader.next(r), frame_reader::outcome::bad) << c.name;
  }
  for (size_t n = 1; n < good.size(); ++n) {
    frame_reader reader(std::string_view(good).substr(0, n));
    record r;
    EXPECT_EQ(reader.next(r), frame_reader::outcome::bad) << n << " bytes of " << good.size();
  }
}

TEST(record, mutated_frames_never_yield_views_outside_of_the_frame) {
  std::mt19937_64 random(20261130);
  meta_writer m;
  m.add("content-type", "text/plain");
  m.add(":deadline-ms", 12345);
  const std::string seed = encode({.what = kind::open}, m.take(), "body") + encode({.what = kind::data}, "", "0123456789");
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = seed.substr(0, 1 + random() % seed.size());
    for (int flips = static_cast<int>(random() % 6); flips > 0; --flips) bytes[random() % bytes.size()] = static_cast<char>(random());
    const std::vector<char> exact(bytes.begin(), bytes.end());
    frame_reader reader({exact.data(), exact.size()});
    record r;
    size_t records = 0, sum = 0;
    while (reader.next(r) == frame_reader::outcome::record) {
      ++records;
      for (const char c : r.payload) sum += static_cast<uint8_t>(c);
      meta_reader fields(r.meta);
      std::string_view key, value;
      while (fields.next(key, value)) sum += key.size() + value.size();
      parse_hello(r.meta);
    }
    ASSERT_LE(records, exact.size() / record_header_bytes);
    ASSERT_LT(sum, size_t{1} << 24);
  }
}

TEST(metadata, fields_come_back_in_order_and_too_large_ones_are_refused) {
  meta_writer m;
  EXPECT_TRUE(m.add("a", "1"));
  EXPECT_TRUE(m.add("a", ""));
  EXPECT_TRUE(m.add("n", 18446744073709551615u));
  const std::string block = m.take();
  meta_reader r(block);
  std::string_view k, v;
  ASSERT_TRUE(r.next(k, v));
  EXPECT_EQ(v, "1");
  ASSERT_TRUE(r.next(k, v));
  EXPECT_EQ(v, "");
  ASSERT_TRUE(r.next(k, v));
  EXPECT_EQ(number_or(v, 0), 18446744073709551615u);
  EXPECT_FALSE(r.next(k, v));
  EXPECT_FALSE(r.bad());
  meta_writer large;
  EXPECT_FALSE(large.add("k", std::string(70'000, 'x')));
  EXPECT_FALSE(large.add("k", "small"));
  meta_writer many;
  bool all = true;
  for (int i = 0; i < 40; ++i) all = many.add("k", std::string(1000, 'x')) && all;
  EXPECT_FALSE(all);
  EXPECT_FALSE(many.ok());
}

TEST(metadata, a_count_or_length_that_lies_is_bad) {
  for (const std::string_view block : {std::string_view("\x01", 1), std::string_view("\xff\xff", 2), std::string_view("\x01\0\x05\0\0\0k", 7),
                                       std::string_view("\x02\0\x01\0\x01\0kv\0\0", 10)}) {
    meta_reader r(block);
    std::string_view k, v;
    while (r.next(k, v)) {
    }
    EXPECT_TRUE(r.bad());
  }
}

TEST(messages, come_back_as_they_went_in_and_other_shapes_are_nothing) {
  const welcome_message w{.proof = {1}, .epoch = 65535, .ttl_ms = 3'600'000, .heartbeat_ms = 5000, .ping_ms = 1000, .body_window = 1,
                          .link_window = 2, .slot_release_at_head = true, .endpoints = {"a:1", "[::1]:2"}};
  const auto back = parse_welcome(to_json(w));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->proof, w.proof);
  EXPECT_EQ(back->epoch, 65535);
  EXPECT_TRUE(back->slot_release_at_head);
  EXPECT_EQ(back->endpoints, w.endpoints);
  const auto hello = parse_hello(to_json(hello_message{1, 1, 0xfedcba9876543210, "p", {9}, 3}));
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->boot_id, 0xfedcba9876543210u);
  for (const std::string_view bad : {"", "{", "[]", "{}", "nul", R"({"min":-1,"max":1,"boot":"00","peer":"p","nonce":"","link":0})",
                                     R"({"min":1e99,"max":1,"boot":"0000000000000000","peer":"p","nonce":"00","link":0})",
                                     "[[[[[[[[[[[[[[[[[[[["}) {
    EXPECT_FALSE(parse_hello(bad)) << bad;
    EXPECT_FALSE(parse_welcome(bad)) << bad;
    EXPECT_FALSE(parse_auth(bad)) << bad;
    EXPECT_FALSE(parse_pong(bad)) << bad;
    EXPECT_FALSE(parse_signals(bad)) << bad;
  }
}

TEST(messages, signals_without_a_number_are_left_out) {
  const auto back = parse_signals(to_json(std::vector<signal_value>{{"a", 1.5, 20}, {"b", 0.0 / 0.0, 1}, {"c", -3, 0}}));
  ASSERT_TRUE(back);
  ASSERT_EQ(back->values.size(), 2u);
  EXPECT_EQ(back->values[0].name, "a");
  EXPECT_EQ(back->values[0].age_ms, 20u);
  EXPECT_EQ(back->values[1].value, -3);
}

TEST(credit, a_sender_goes_below_zero_by_one_record_only_and_gets_all_back) {
  for (const uint32_t size : {64u * 1024, 256u * 1024, 4096u * 1024}) {
    send_window s;
    receive_window r;
    s.start(size);
    r.start(size);
    uint64_t held = 0;
    std::mt19937 random(1);
    for (int i = 0; i < 2000; ++i) {
      const uint32_t n = 256 + random() % max_payload_bytes;
      while (s.open() && random() % 4 != 0) {
        s.charge(n);
        ASSERT_TRUE(r.took(n));
        held += n;
      }
      ASSERT_LE(held, size + 256 + max_payload_bytes);
      const uint32_t back = static_cast<uint32_t>(held / 2);
      held -= back;
      s.add(r.give_back(back));
    }
    s.add(r.give_back(static_cast<uint32_t>(held)));
    EXPECT_EQ(s.available() + r.owed(), size);
    EXPECT_GT(s.available(), static_cast<int64_t>(size / 4 * 3));
    while (s.open()) {
      s.charge(1000);
      EXPECT_TRUE(r.took(1000));
    }
    // The receiver has granted a little more than it had to hand out at once, never less than the sender used.
    while (r.view() > 0) r.took(1000);
    EXPECT_FALSE(r.took(1));
  }
}

TEST(credit, a_window_that_shrinks_keeps_back_what_comes_home) {
  receive_window r;
  r.start(1 << 20);
  send_window s;
  s.start(1 << 20);
  r.resize(1 << 19);
  for (int i = 0; i < 64; ++i) {
    const uint32_t n = 16 * 1024;
    s.charge(n);
    ASSERT_TRUE(r.took(n));
    s.add(r.give_back(n));
  }
  EXPECT_EQ(s.available() + r.owed(), 1 << 19);
  r.resize(1 << 20);
  s.charge(256);
  r.took(256);
  s.add(r.give_back(256));
  EXPECT_EQ(s.available(), 1 << 20);
}

}  // namespace
}  // namespace hive::link
