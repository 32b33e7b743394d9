#include "hivenet_bench/answer_reader.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace hive::bench {
namespace {

TEST(answer_reader, events_and_stamps_are_found_at_every_split) {
  const std::string body = ": @17\ndata: {\"a\":1}\n\n: @123456789012345\ndata: x\r\n\r\ndata: [DONE]\n\n";
  char size[16];
  std::snprintf(size, sizeof size, "%zx", body.size());
  const std::string wire = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(size) + "\r\n" + body + "\r\n0\r\n\r\n";
  for (size_t cut = 0; cut <= wire.size(); ++cut) {
    answer_reader r;
    r.watch_stamps();
    r.take(std::string_view(wire).substr(0, cut));
    r.take(std::string_view(wire).substr(cut));
    EXPECT_TRUE(r.done()) << cut;
    EXPECT_EQ(r.events(), 3u) << cut;
    EXPECT_TRUE(r.ended_with_done()) << cut;
    EXPECT_EQ(r.stamps(), (std::vector<uint64_t>{17, 123456789012345})) << cut;
    r.reset();
    EXPECT_TRUE(r.stamps().empty());
  }
}

}  // namespace
}  // namespace hive::bench
