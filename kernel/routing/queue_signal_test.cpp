// What is written into a pool's columns reaches those who wait for it.
#include "routing/queue.hpp"

#include "routing/queue_bed.hpp"

namespace hive::routing {
namespace {

using testing::bed;
using testing::request;

struct reader_request : candidate_finder {
  virtual ~reader_request() = default;
  funnel_result find(fleet::pool &p) override {
    ++runs;
    for (uint32_t i = 0; i < p.count(); ++i) {
      if (p.value(kv, i) > 0.9) continue;
      return {p.row(i).full() ? verdict::full : verdict::chosen, i};
    }
    return {verdict::none, 0};
  }
  void on_taken(fleet::pool &, uint32_t) override {}
  void on_wake(uint64_t generation) override { last = line->run(t, generation); }
  bool reads(hive_column id) const override { return id == kv; }
  hive_column kv = 0;
  waiting_line *line = nullptr;
  int runs = 0;
  entered last = entered::waiting;
  ticket t;
};

// Enters `r`, whose gate reads that column, into the line of the model m, where it waits.
void wait_for_column(bed &b, reader_request &r, hive_column column) {
  ASSERT_NE(column, 0u);
  r.kv = column;
  r.line = &b.line("m");
  const auto post = [&b](std::function<void()> f) { b.wakes.push_back(std::move(f)); };
  ASSERT_EQ(r.line->enter(r.t, r, {}, 1, post, true), entered::waiting);
}

TEST(queue, a_column_its_gates_read_rechecks_it_at_most_every_100_ms_and_is_never_forgotten) {
  bed b;
  b.add("A0", 1);
  request t0(b);
  t0.enter();
  reader_request r;
  wait_for_column(b, r, b.fleet.columns().intern("kv"));
  const int before = r.runs;
  auto write = [&](const char *name, double v) { b.fleet.signals("A0", {{name, v, 0}}, ""); };
  write("other", 1);
  b.deliver_all();
  EXPECT_EQ(r.runs, before);                 // nobody reads that one
  write("kv", 0.1);
  b.deliver_all();
  EXPECT_EQ(r.runs, before + 1);
  write("kv", 0.2);
  write("kv", 0.95);
  b.deliver_all();
  EXPECT_EQ(r.runs, before + 1);             // put off
  b.clock.advance(99 * ns_per_ms);
  b.fleet.tick();
  b.deliver_all();
  EXPECT_EQ(r.last, entered::waiting);
  b.clock.advance(ns_per_ms);
  b.fleet.tick();
  b.deliver_all();
  EXPECT_EQ(r.last, entered::advance);
  EXPECT_EQ(r.runs, before + 2);
}

TEST(queue, a_reader_that_leaves_does_not_silence_the_column_for_another) {
  bed b;
  b.add("A0", 1);
  request t0(b);
  t0.enter();
  EXPECT_FALSE(b.line("m").reads_any()) << "a request that was served at once reads nothing";
  reader_request leaves, stays;
  const hive_column kv = b.fleet.columns().intern("kv");
  wait_for_column(b, leaves, kv);
  wait_for_column(b, stays, kv);
  leaves.line->cancel(leaves.t);
  EXPECT_TRUE(b.line("m").reads_any());
  b.fleet.signals("A0", {{"kv", 0.95, 0}}, "");
  b.deliver_all();
  EXPECT_EQ(stays.last, entered::advance);
  EXPECT_FALSE(b.line("m").reads_any());
}

TEST(queue, a_value_that_goes_stale_rechecks_the_gates_that_read_it) {
  bed b;
  b.add("A0", 1);
  request t0(b);
  t0.enter();
  reader_request r;
  wait_for_column(b, r, b.fleet.columns().intern("kv"));
  b.fleet.signals("A0", {{"kv", 0.5, 0}}, "");
  b.deliver_all();
  const int before = r.runs;
  b.clock.advance(11 * ns_per_s);
  b.fleet.tick();
  b.deliver_all();
  EXPECT_EQ(r.runs, before + 1);
  EXPECT_EQ(b.fleet.stats().expired_signals, 1u);
}

// Naive variant: only what agents send is looked at, and a request that waits for an agent that began to fail waits on.
TEST(queue, what_an_attempt_tells_of_its_agent_rechecks_the_gates_that_read_it) {
  for (const char *column : {"consecutive_failures", "srtt_ms"}) {
    bed b;
    b.add("A0", 1);
    request t0(b);
    t0.enter();
    reader_request r;
    wait_for_column(b, r, b.fleet.columns().find(column));
    const auto who = b.agent("A0");
    b.fleet.record_outcome(*who, {.generation = who->generation(), .success = false, .rtt_ms = 5, .input_tokens = 0, .output_tokens = 0,
                                  .request_id = {}, .kind = fleet::request_kind::chat});
    b.deliver_all();
    EXPECT_EQ(r.last, entered::advance) << column;
  }
}

// exclude_if: {capacity_utilization: {lt: 0.4}}: an idle agent gets nothing.
struct crowd_request final : reader_request {
  funnel_result find(fleet::pool &p) override {
    ++runs;
    funnel_result r;
    for (uint32_t i = 0; i < p.count(); ++i) {
      if (p.value(kv, i) < 0.4) continue;
      if (!p.row(i).full()) return {verdict::chosen, i};
      r.what = verdict::full;
    }
    return r;
  }
  bool reads_rise(hive_column id) const override { return id == kv; }
};

// Taking a slot raises no change number, but this.
TEST(queue, a_slot_that_is_taken_lets_in_who_waits_for_an_agent_to_be_busy_enough) {
  bed b;
  b.add("A0", 1);
  b.add("A1", 2);
  request t0(b, "m", {"A0"});
  t0.enter();
  crowd_request r;
  wait_for_column(b, r, b.fleet.kernel().capacity_utilization);
  request t1(b, "m", {"A1"});
  t1.enter();
  ASSERT_EQ(t1.agent(), "A1");
  b.deliver_all();
  EXPECT_EQ(r.last, entered::taken);
  EXPECT_EQ(b.pool()->row(r.t.index()).who->peer_id(), "A1");
}

}  // namespace
}  // namespace hive::routing
