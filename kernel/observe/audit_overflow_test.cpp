// What becomes of a line for which the queue has no room, by the overflow that was chosen.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/test_folder.hpp"
#include "base/test_wait.hpp"
#include "observe/audit_log.hpp"

namespace hive::observe {
namespace {

audit_entry plain_entry() {
  audit_entry e;
  e.request_id = "0b5f6c1e-0000-4000-8000-000000000001";
  e.status_code = 200;
  return e;
}

class audit_overflow : public testing::Test {
 protected:
  void SetUp() override {
    std::string one;
    append_audit_line(one, plain_entry(), {});
    options_.path = folder_.at("audit.jsonl");
    options_.queue_bytes = room * one.size();
    options_.when_full = overflow::block;
    options_.gather_ns = options_.retry_ns = ns_per_ms;
    options_.stop_ns = 50 * ns_per_ms;
    std::filesystem::create_symlink("/dev/full", options_.path);
  }
  void disk_has_space_again(audit_log &log) {
    std::filesystem::remove(options_.path);
    log.reopen();
  }
  size_t lines() const {
    std::ifstream in(options_.path);
    size_t n = 0;
    for (std::string line; std::getline(in, line);) ++n;
    return n;
  }

  static constexpr size_t room = 5;
  test_folder folder_;
  audit_options options_;
};

// Naive variant: `block` drops, too.
TEST_F(audit_overflow, blocked_lines_wait_for_room_and_none_is_lost) {
  options_.block_ns = 60 * ns_per_s;
  audit_log log(options_);
  ASSERT_TRUE(log.start().ok());
  constexpr size_t threads = 3, each = 20;
  std::atomic<size_t> done{0};
  std::vector<std::thread> writers;
  for (size_t t = 0; t < threads; ++t)
    writers.emplace_back([&] {
      for (size_t i = 0; i < each; ++i, ++done) log.write(plain_entry());
    });
  ASSERT_TRUE(within_limit([&] { return done == room && log.counters().write_errors > 0; })) << done;
  disk_has_space_again(log);
  for (std::thread &w : writers) w.join();
  ASSERT_TRUE(within_limit([&] { return log.counters().written == threads * each; }));
  EXPECT_EQ(lines(), threads * each);
  EXPECT_EQ(log.counters().dropped_full, 0u);
  EXPECT_GT(log.counters().blocked, 0u);
  EXPECT_GT(log.counters().blocked_ns, 0u);
}

// Naive variant: each of the lines waits the whole limit, so a dead disk makes every request take that long for ever.
TEST_F(audit_overflow, after_one_wait_in_vain_nobody_waits_until_the_file_takes_something) {
  options_.block_ns = ns_per_s;
  audit_log log(options_);
  ASSERT_TRUE(log.start().ok());
  const uint64_t began = now_ns();
  for (size_t i = 0; i < room + 1000; ++i) log.write(plain_entry());
  const uint64_t took = now_ns() - began;
  EXPECT_GE(took, ns_per_s);
  EXPECT_LT(took, 10 * ns_per_s);
  EXPECT_EQ(log.counters().dropped_full, 1000u);
  EXPECT_EQ(log.counters().blocked, 1u);
  disk_has_space_again(log);
  ASSERT_TRUE(within_limit([&] { return log.counters().written == room && log.counters().queued_bytes == 0; }));
  // Waiting is worth while again: more than the queue holds, and nothing more is lost.
  for (size_t i = 0; i < 4 * room; ++i) log.write(plain_entry());
  ASSERT_TRUE(within_limit([&] { return log.counters().written == 5 * room; }));
  EXPECT_EQ(log.counters().dropped_full, 1000u);
}

// Naive variant: it waits as a request's does, and the thread that runs the router waits with it.
TEST_F(audit_overflow, a_line_of_a_change_under_admin_is_dropped_and_counted_and_never_waits) {
  options_.block_ns = ns_per_s;
  audit_log log(options_);
  ASSERT_TRUE(log.start().ok());
  for (size_t i = 0; i < room; ++i) log.write(plain_entry());
  admin_action change;
  change.method = "PUT";
  change.route = "/admin/policy";
  change.status_code = 200;
  log.write(change);
  EXPECT_EQ(log.counters().dropped_full, 1u);
  EXPECT_EQ(log.counters().blocked, 0u);
  disk_has_space_again(log);
  ASSERT_TRUE(within_limit([&] { return log.counters().written == room && log.counters().queued_bytes == 0; }));
  log.write(change);
  ASSERT_TRUE(within_limit([&] { return log.counters().written == room + 1; }));
  EXPECT_EQ(log.counters().dropped_full, 1u);
}

TEST_F(audit_overflow, stopping_frees_who_waits) {
  options_.block_ns = 3600 * ns_per_s;
  audit_log log(options_);
  ASSERT_TRUE(log.start().ok());
  for (size_t i = 0; i < room; ++i) log.write(plain_entry());
  std::atomic<bool> free{false};
  std::thread writer([&] {
    log.write(plain_entry());
    free = true;
  });
  EXPECT_TRUE(within_limit([&] { return log.counters().write_errors > 0; }));
  log.stop();
  EXPECT_TRUE(within_limit([&] { return free.load(); }));
  writer.join();
  EXPECT_EQ(log.counters().dropped_full, 1u);
}

TEST_F(audit_overflow, dropped_lines_keep_nobody_waiting) {
  options_.when_full = overflow::drop;
  options_.block_ns = 3600 * ns_per_s;
  audit_log log(options_);
  ASSERT_TRUE(log.start().ok());
  for (size_t i = 0; i < room + 7; ++i) log.write(plain_entry());
  EXPECT_EQ(log.counters().dropped_full, 7u);
  EXPECT_EQ(log.counters().blocked, 0u);
}

}  // namespace
}  // namespace hive::observe
