// The router's side of streams against agents that write what no agent writes, and against owners that throw.
#include <gmock/gmock.h>

#include "link/link_bench_test.hpp"

namespace hive::link::testing {
namespace {

using ::testing::ElementsAre;

class link_owner : public ::testing::Test {
 protected:
  // Opens a stream to an agent whose records the test writes; 0: it was not opened.
  uint64_t open(raw_agent &raw, stream_events &events, std::unique_ptr<router_stream> &stream) {
    stream = b.hub().open(raw.id.peer_id, {}, events, std::make_unique<slot_token>(b.slots, nullptr), why);
    const auto *sent = raw.wait(kind::open);
    return sent == nullptr ? 0 : sent->head.stream;
  }
  fake_factory factory;
  bench b{factory};
  stream_failure why;
};

struct names_of_fields final : stream_events {
  void on_head(const stream_head &h) override {
    for (const http::field &f : h.fields) seen.emplace_back(f.name);
  }
  void on_data(std::string_view) override {}
  void on_end(const usage &) override {}
  void on_failed(const stream_failure &) override {}
  std::vector<std::string> seen;
};

// Naive variant: what an agent calls a name is one, whatever lines it holds.
TEST_F(link_owner, fields_of_an_agent_whose_names_are_none_are_dropped) {
  b.start_hubs();
  raw_agent raw(b, 3);
  ASSERT_TRUE(raw.join());
  names_of_fields owner;
  std::unique_ptr<router_stream> stream;
  const uint64_t id = open(raw, owner, stream);
  ASSERT_NE(id, 0u);
  meta_writer m;
  for (const char *name : {"x-good", "x-a: 1\r\nset-cookie: s=1\r\nx-b", "set-cookie ", "", "x\ty", "x\xc3\xa9", ":class", "X-Also_Good.1~"}) m.add(name, "v");
  raw.send({.what = kind::head, .stream = id, .seq = 0, .aux = 200}, m.take());
  ASSERT_TRUE(b.until([&] { return !owner.seen.empty(); }));
  EXPECT_THAT(owner.seen, ElementsAre("x-good", ":class", "X-Also_Good.1~"));
}

}  // namespace
}  // namespace hive::link::testing
