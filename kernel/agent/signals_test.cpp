#include "agent/signals.hpp"

#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>

#include "agent/test_engine.hpp"

namespace hive::agent {
namespace {

constexpr uint64_t s = ns_per_s;

histogram_totals seen(double fast, double slow) { return {{0.1, 1, 10}, {fast, fast + slow, fast + slow}, fast * 0.05 + slow * 0.5, fast + slow}; }

class signal_board_test : public testing::Test {
 protected:
  void take(uint64_t at, std::map<std::string, double> gauges, std::map<std::string, double> counters = {}) {
    page_news news;
    news.gauges = std::move(gauges);
    news.counters = std::move(counters);
    board_.take(at, std::move(news));
  }
  void take(uint64_t at, histogram_totals totals) {
    page_news news;
    news.histograms["ttft_seconds"] = std::move(totals);
    board_.take(at, std::move(news));
  }
  std::map<std::string, double> at(uint64_t now) {
    std::map<std::string, double> out;
    for (const sampled_signal &one : board_.fresh(now)) {
      EXPECT_TRUE(std::isfinite(one.value)) << one.name;
      out[one.name] = one.value;
    }
    return out;
  }

  test::quick_codec codec_;
  signal_board board_{codec_.codec};
};

TEST_F(signal_board_test, values_live_as_long_as_their_adapter_says_and_are_then_missing_not_zero) {
  take(1 * s, {{"running", 2}, {"other", 5}});
  EXPECT_EQ(at(4 * s), (std::map<std::string, double>{{"running", 2}, {"other", 5}}));
  EXPECT_EQ(at(4 * s + 1), (std::map<std::string, double>{{"other", 5}})) << "running has 3 s";
  EXPECT_EQ(at(11 * s).size(), 1u);
  EXPECT_TRUE(at(11 * s + 1).empty()) << "10 s if nothing is said";
}

TEST_F(signal_board_test, a_value_keeps_the_time_of_its_sample) {
  take(2 * s, {{"running", 2}});
  EXPECT_EQ(board_.fresh(3 * s).at(0).sampled_ns, 2 * s);
}

TEST_F(signal_board_test, a_series_that_leaves_the_page_goes_alone) {
  take(1 * s, {{"running", 2}, {"other", 5}});
  take(5 * s, {{"other", 6}});
  EXPECT_EQ(at(5 * s), (std::map<std::string, double>{{"other", 6}}));
}

TEST_F(signal_board_test, recent_percentiles_stand_beside_those_of_the_engines_life) {
  take(1 * s, seen(1000, 0));
  for (uint64_t t = 2; t <= 100; ++t) take(t * s, seen(1000, double(t)));
  const auto now = at(100 * s);
  EXPECT_NEAR(now.at("avg_ttft_seconds"), 0.5, 1e-9) << "all of the last minute were slow";
  EXPECT_NEAR(now.at("p50_ttft_seconds"), 0.55, 1e-9) << "half way between the bounds 0.1 and 1";
  EXPECT_NEAR(now.at("p90_ttft_seconds"), 0.91, 1e-9);
  EXPECT_NEAR(now.at("p99_ttft_seconds"), 0.991, 1e-9);
  EXPECT_NEAR(now.at("lifetime_avg_ttft_seconds"), (1000 * 0.05 + 100 * 0.5) / 1100, 1e-9);
  EXPECT_NEAR(now.at("lifetime_p90_ttft_seconds"), 0.099, 1e-9);
}

TEST_F(signal_board_test, a_quiet_engine_has_a_life_but_no_recent_latency) {
  for (uint64_t t = 1; t <= 200; ++t) take(t * s, seen(10, 0));
  const auto now = at(200 * s);
  EXPECT_FALSE(now.contains("avg_ttft_seconds"));
  EXPECT_FALSE(now.contains("p90_ttft_seconds"));
  EXPECT_NEAR(now.at("lifetime_avg_ttft_seconds"), 0.05, 1e-9);
}

TEST_F(signal_board_test, an_engine_without_observations_has_no_latency_at_all) {
  take(1 * s, seen(0, 0));
  EXPECT_TRUE(at(1 * s).empty());
}

TEST_F(signal_board_test, a_restarted_engine_gives_no_negative_rate_and_a_new_life) {
  take(1 * s, {}, {{"tokens", 1000}});
  take(2 * s, {}, {{"tokens", 1100}});
  EXPECT_EQ(at(2 * s).at("tokens_per_second"), 100);
  take(3 * s, {}, {{"tokens", 5}});
  take(4 * s, {}, {{"tokens", 15}});
  EXPECT_EQ(at(4 * s).at("tokens_per_second"), 10);
  take(5 * s, seen(100, 100));
  take(6 * s, seen(100, 110));
  take(7 * s, seen(2, 0));
  EXPECT_NEAR(at(7 * s).at("avg_ttft_seconds"), 0.05, 1e-9);
  EXPECT_NEAR(at(7 * s).at("lifetime_avg_ttft_seconds"), 0.05, 1e-9);
}

TEST_F(signal_board_test, structured_parts_have_their_form_and_expire_too) {
  page_news news;
  news.counters["preemptions"] = 3;
  news.labelled["request_success"] = {{"stop", 7}, {"length", 1}};
  news.histograms["seen_seconds"] = seen(3, 1);
  board_.take(1 * s, std::move(news));
  EXPECT_EQ(boost::json::serialize(board_.structured(2 * s)),
            R"({"preemptions_total":3E0,"request_success":{"length":1E0,"stop":7E0},"seen_seconds_histogram":{"buckets":)"
            R"([{"le":1E-1,"count":3E0},{"le":1E0,"count":4E0},{"le":1E1,"count":4E0}],"sum":6.5E-1,"count":4E0}})");
  EXPECT_FALSE(board_.structured(5 * s).contains("seen_seconds_histogram")) << "its adapter lets it live for 3 s";
  EXPECT_TRUE(board_.structured(5 * s).contains("preemptions_total"));
  EXPECT_TRUE(board_.structured(12 * s).empty());
}

}  // namespace
}  // namespace hive::agent
