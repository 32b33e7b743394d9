#include "tenancy/quota_store.hpp"

#include <gtest/gtest.h>

#include <future>

#include "fleet/map_store.hpp"

namespace hive::tenancy {
namespace {

using namespace std::string_literals;

struct kept : ::testing::Test {
  manual_clock clock;
  fleet::map_store store;
  fleet::storage_thread thread{{&fleet::map_store::table, &store}};
  day_budgets days{clock};
  quota_store quotas{thread, days, clock};
  day_charge charge;
  const uint64_t today = days.today();

  void SetUp() override { ASSERT_TRUE(thread.open()); }
  void TearDown() override { thread.stop(); }
  void settle() {
    std::promise<void> done;
    ASSERT_TRUE(thread.post([&](fleet::storage_client &) { done.set_value(); }));
    done.get_future().wait();
  }
  void put(const std::string &key, const std::string &value) { store.records[key] = {value, 0}; }
  std::string key(const std::string &budget, uint64_t day) { return "quotaTPD:" + budget + ":" + std::to_string(day); }
};

TEST(quota_records, have_the_go_products_form) {
  EXPECT_EQ(quota_record_key({"acme", 19'675, 0}), "quotaTPD:acme:19675");
  EXPECT_EQ(quota_record_key({"acme\0m:7b"s, 1, 0}), "quotaTPD:acme\0m:7b:1"s);
  EXPECT_EQ(quota_record_value(1234), "\0\0\0\0\0\0\x04\xd2"s);
  const auto back = quota_record("quotaTPD:acme\0m:7b:1"s, quota_record_value(1234));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->budget, "acme\0m:7b"s);
  EXPECT_EQ(back->day, 1u);
  EXPECT_EQ(back->used, 1234u);
  for (const auto &[key, value] : {std::pair("quotaTPD:acme:1"s, "\xff\0\0\0\0\0\0\0"s), std::pair("quotaTPD:acme:1"s, "1234"s),
                                   std::pair("quotaTPD:acme:x"s, quota_record_value(1)), std::pair("quotaTPD:acme"s, quota_record_value(1)),
                                   std::pair("quotaTPD:acme:"s, quota_record_value(1)), std::pair("other:acme:1"s, quota_record_value(1))})
    EXPECT_FALSE(quota_record(key, value)) << key;
}

TEST_F(kept, usage_of_today_comes_back_and_other_days_are_left_alone) {
  put(key("acme", today), quota_record_value(60));
  put(key("acme", today - 1), quota_record_value(99));
  put(key("acme", today - 20), quota_record_value(99));
  put("universalHistory:x", "{}");
  quotas.load();
  EXPECT_TRUE(quotas.loaded());
  EXPECT_EQ(days.remaining("acme", 100), 40u);
  EXPECT_EQ(days.used("nobody"), 0u);
  settle();
  EXPECT_EQ(store.records.count(key("acme", today - 1)), 1u);
  EXPECT_EQ(store.records.count(key("acme", today - 20)), 1u) << "a clock that is wrong at the start erases nothing";
  EXPECT_EQ(store.records.count("universalHistory:x"), 1u);
  EXPECT_EQ(quotas.errors(), 0u);
}

TEST_F(kept, all_that_changed_is_written_in_one_batch_within_a_second) {
  quotas.load();
  for (const char *budget : {"a", "b", "c"}) ASSERT_TRUE(days.take(budget, 100, 7, 0, charge));
  quotas.tick();
  settle();
  EXPECT_EQ(store.writes, 0) << "not at every call";
  clock.advance(quota_store::period_ns);
  static_assert(quota_store::period_ns < ns_per_s);
  quotas.tick();
  settle();
  EXPECT_EQ(store.writes, 1);
  EXPECT_EQ(store.records[key("b", today)].first, quota_record_value(7));
  EXPECT_EQ(store.records[key("b", today)].second, clock.wall_ms() + 48ull * 3600 * 1000);
  clock.advance(quota_store::period_ns);
  quotas.tick();
  settle();
  EXPECT_EQ(store.writes, 1) << "nothing has changed";
}

TEST_F(kept, what_could_not_be_written_is_counted_and_written_later) {
  quotas.load();
  ASSERT_TRUE(days.take("a", 100, 7, 0, charge));
  ASSERT_TRUE(days.take("b", 100, 7, 0, charge));
  store.fail_writes = true;
  quotas.flush();
  settle();
  EXPECT_EQ(quotas.errors(), 2u);
  EXPECT_TRUE(days.take("a", 100, 1, 0, charge)) << "nobody is refused for it";
  store.fail_writes = false;
  quotas.flush();
  settle();
  EXPECT_EQ(store.records[key("a", today)].first, quota_record_value(8));
  EXPECT_EQ(store.records[key("b", today)].first, quota_record_value(7));
}

// The naive variant writes the first minute's usage over that of the day.
TEST_F(kept, what_was_not_read_is_never_written_over) {
  put(key("a", today), quota_record_value(60));
  store.fail_reads = true;
  quotas.load();
  EXPECT_FALSE(quotas.loaded());
  EXPECT_EQ(quotas.errors(), 1u);
  ASSERT_TRUE(days.take("a", 100, 7, 0, charge)) << "fails open";
  quotas.flush();
  settle();
  EXPECT_EQ(quotas.errors(), 2u);
  EXPECT_EQ(store.records[key("a", today)].first, quota_record_value(60));
  store.fail_reads = false;
  quotas.flush();
  settle();
  EXPECT_EQ(days.used("a"), 67u);
  EXPECT_EQ(store.records[key("a", today)].first, quota_record_value(67));
}

// The naive variant begins the day that the clock was put right to at zero and writes that over what had been used.
TEST_F(kept, another_day_is_read_before_it_is_written_and_counts_once) {
  put(key("a", today + 1), quota_record_value(40));
  quotas.load();
  ASSERT_TRUE(days.take("a", 100, 5, 0, charge));
  clock.advance(24 * 3600 * ns_per_s);
  ASSERT_TRUE(days.take("a", 100, 7, 0, charge));
  store.fail_reads = true;
  quotas.flush();
  settle();
  EXPECT_EQ(store.records[key("a", today + 1)].first, quota_record_value(40)) << "not read, so not written over";
  store.fail_reads = false;
  for (int i = 0; i < 2; ++i) {
    quotas.flush();
    settle();
    EXPECT_EQ(days.used("a"), 47u);
    EXPECT_EQ(store.records[key("a", today + 1)].first, quota_record_value(47));
  }
}

TEST_F(kept, a_day_that_comes_back_is_not_counted_twice) {
  clock.advance(4 * 3600 * ns_per_s);  // into the small hours, so that the day lasts
  const uint64_t day = days.today();
  quotas.load();
  ASSERT_TRUE(days.take("a", 100, 7, 0, charge));
  quotas.flush();
  settle();
  for (const int64_t hours : {48, -48}) {
    clock.step_wall(hours * 3'600'000);
    days.today();  // sees the jump, and after an hour believes it
    clock.advance(utc_days::believed_after_ns);
    quotas.flush();
    settle();
  }
  EXPECT_EQ(days.today(), day);
  EXPECT_EQ(days.used("a"), 7u);
}

TEST_F(kept, records_that_are_none_are_counted_and_left_alone) {
  put(key("a", today), "60");
  put(key("b", today), quota_record_value(5));
  quotas.load();
  EXPECT_EQ(quotas.errors(), 1u);
  EXPECT_EQ(days.used("a"), 0u);
  EXPECT_EQ(days.used("b"), 5u);
}

TEST_F(kept, the_last_flush_before_the_storage_stops_is_written) {
  quotas.load();
  ASSERT_TRUE(days.take("a", 100, 7, 0, charge));
  quotas.flush();
  thread.stop();
  EXPECT_EQ(store.records[key("a", today)].first, quota_record_value(7));
}

}  // namespace
}  // namespace hive::tenancy
