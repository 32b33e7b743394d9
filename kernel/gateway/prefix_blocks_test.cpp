#include "gateway/prefix_blocks.hpp"

#define XXH_INLINE_ALL
#include <gtest/gtest.h>
#include <xxhash.h>

#include <random>

namespace hive::gateway {
namespace {

std::vector<uint64_t> blocks_of(std::string body) {
  request_scanner scanner;
  request_scan scan;
  const size_t size = body.size();
  body.resize(size + 64);
  const auto error = scanner.scan({body.data(), size}, scan);
  EXPECT_FALSE(error) << error->message;
  std::vector<uint64_t> out;
  prefix_blocks_of({body.data(), size}, scan, out);
  return out;
}

std::string text_of(size_t bytes, unsigned seed) {
  std::minstd_rand random(seed);
  std::string out;
  while (out.size() < bytes) out += static_cast<char>('a' + random() % 26);
  return out;
}

size_t common(const std::vector<uint64_t> &a, const std::vector<uint64_t> &b) {
  size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return n;
}

TEST(prefix_blocks, are_chained_hashes_of_the_raw_value) {
  const std::string text = text_of(1300, 1);
  const std::string value = "\"" + text + "\"";
  const auto blocks = blocks_of(R"({"model":"m","prompt":)" + value + "}");
  ASSERT_EQ(blocks.size(), 2u) << "the last block is not full and left out";
  const uint64_t first = XXH3_64bits_withSeed(value.data(), 512, 0);
  EXPECT_EQ(blocks[0], first);
  EXPECT_EQ(blocks[1], XXH3_64bits_withSeed(value.data() + 512, 512, first));
}

TEST(prefix_blocks, of_a_chat_that_goes_on_begin_alike) {
  const std::string first = R"([{"role":"user","content":")" + text_of(2000, 1) + "\"}";
  const auto one = blocks_of(R"({"model":"m","messages":)" + first + "]}");
  const auto two = blocks_of(R"({"model":"m","messages":)" + first + R"(,{"role":"user","content":")" + text_of(900, 2) + "\"}]}");
  ASSERT_EQ(one.size(), 3u);
  EXPECT_EQ(common(one, two), 3u);
  EXPECT_GT(two.size(), 4u);
}

// Equal text behind a different beginning is another prefix: an engine cannot use it.
TEST(prefix_blocks, differ_from_the_first_difference_on) {
  std::string text = text_of(4096, 3);
  const auto one = blocks_of(R"({"model":"m","prompt":")" + text + "\"}");
  text[1500] = text[1500] == 'x' ? 'y' : 'x';
  const auto two = blocks_of(R"({"model":"m","prompt":")" + text + "\"}");
  EXPECT_EQ(common(one, two), 2u);
  for (size_t i = 2; i < one.size(); ++i) EXPECT_NE(one[i], two[i]) << i;
}

TEST(prefix_blocks, put_tools_and_system_before_the_messages_wherever_they_stand) {
  const std::string system = R"("system":")" + text_of(1500, 4) + "\"", messages = R"("messages":[{"role":"user","content":"hi"}])";
  const std::string tools = R"("tools":[{"name":")" + text_of(600, 5) + "\"}]";
  const auto one = blocks_of(R"({"model":"m",)" + system + "," + messages + "," + tools + "}");
  EXPECT_EQ(one, blocks_of(R"({"model":"m","max_tokens":5,)" + tools + "," + messages + ", " + system + "}"));
  const auto other = blocks_of(R"({"model":"m",)" + system + "," + messages + "}");
  EXPECT_EQ(common(one, other), 0u) << "other tools make another prompt from its start";
  ASSERT_EQ(one.size(), 4u);
}

TEST(prefix_blocks, stop_at_their_limit_and_are_none_of_what_is_short) {
  EXPECT_EQ(blocks_of(R"({"model":"m","prompt":")" + text_of(3 << 20, 6) + "\"}").size(), max_prefix_blocks);
  EXPECT_TRUE(blocks_of(R"({"model":"m","prompt":"short"})").empty());
  EXPECT_TRUE(blocks_of(R"({"model":"m"})").empty());
  EXPECT_TRUE(blocks_of(R"({"model":"m","prompt":null,"messages":7})").empty());
}

// The router may put bytes into the body before it hashes; the ranges must follow them.
TEST(prefix_blocks, of_a_body_that_grew_are_those_of_the_one_that_came) {
  std::string body = R"({"model":"m","stream":true,"prompt":")" + text_of(3000, 7) + "\"}";
  request_scanner scanner;
  request_scan scan;
  const size_t size = body.size();
  body.resize(size + 64);
  ASSERT_FALSE(scanner.scan({body.data(), size}, scan));
  body.resize(size);
  std::vector<uint64_t> before, after;
  prefix_blocks_of(body, scan, before);
  const std::string more = R"("stream_options":{"include_usage":true},)";
  body.insert(scan.object_at + 1, more);
  scan.inserted(scan.object_at, more.size());
  prefix_blocks_of(body, scan, after);
  EXPECT_EQ(before, after);
  EXPECT_EQ(body.substr(scan.model_at.offset, scan.model_at.length), "\"m\"");
}

}  // namespace
}  // namespace hive::gateway
