#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <filesystem>
#include <fstream>

#include "agent/content_watch.hpp"
#include "agent/hardware.hpp"
#include "agent/proxy.hpp"
#include "agent/runtime.hpp"
#include "agent/windows.hpp"
#include "base/test_folder.hpp"

namespace hive::agent {
namespace {

histogram_totals totals(std::vector<double> cumulative, double sum, double total) {
  return {{0.1, 0.5, 1.0}, std::move(cumulative), sum, total};
}

TEST(windows, mean_and_p90_of_the_sheets_example) {
  const histogram_totals h = totals({0, 5, 10}, 3, 10);
  EXPECT_DOUBLE_EQ(*mean_of(h), 0.3);
  EXPECT_DOUBLE_EQ(*quantile_of(h, 0.9), 0.9);
  EXPECT_FALSE(mean_of(totals({0, 0, 0}, 0, 0)));
  EXPECT_DOUBLE_EQ(*quantile_of(totals({0, 0, 1}, 30, 10), 0.9), 1.0) << "beyond the last finite bound: that bound";
}

TEST(windows, only_the_last_minute_counts_once_it_is_known) {
  histogram_window w(60 * ns_per_s);
  w.add(1 * ns_per_s, totals({100, 100, 100}, 5, 100));
  EXPECT_DOUBLE_EQ(*mean_of(*w.recent()), 0.05) << "a fresh agent shows the engine's life so far";
  for (uint64_t s = 2; s <= 90; ++s) w.add(s * ns_per_s, totals({100, 100, 100 + double(s)}, 5 + 0.8 * double(s), 100 + double(s)));
  EXPECT_NEAR(*mean_of(*w.recent()), 0.8, 1e-9);
  EXPECT_NEAR(w.recent()->total, 60, 1.5);
}

TEST(windows, a_restarted_engine_starts_the_window_again_and_no_delta_is_negative) {
  histogram_window w(60 * ns_per_s);
  w.add(1 * ns_per_s, totals({10, 10, 10}, 1, 10));
  w.add(2 * ns_per_s, totals({2, 2, 2}, 0.2, 2));
  EXPECT_DOUBLE_EQ(w.recent()->total, 2);
  rate_meter r;
  EXPECT_FALSE(r.add(1 * ns_per_s, 100));
  EXPECT_DOUBLE_EQ(*r.add(3 * ns_per_s, 110), 5);
  EXPECT_FALSE(r.add(4 * ns_per_s, 3));
}

TEST(windows, a_quiet_minute_has_no_average) {
  histogram_window w(60 * ns_per_s);
  for (uint64_t s = 1; s <= 200; ++s) w.add(s * ns_per_s, totals({10, 10, 10}, 1, 10));
  EXPECT_FALSE(w.recent());
}

TEST(hardware, readings_come_from_proc_and_a_missing_file_gives_none) {
  const test_folder folder;
  const auto &dir = folder.path();
  std::ofstream(dir / "stat") << "cpu  100 0 100 700 100 0 0 0\n";
  std::ofstream(dir / "meminfo") << "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 300 kB\nBuffers: 50 kB\nCached: 40 kB\nSReclaimable: 10 kB\n";
  hardware_sampler sampler("", dir.string());
  hardware_sample first = sampler.sample();
  EXPECT_FALSE(first.cpu_percent) << "the first reading only seeds";
  EXPECT_DOUBLE_EQ(*first.memory_used_percent, 80);
  EXPECT_EQ(*first.memory_available_bytes, 300u * 1024);
  std::ofstream(dir / "stat") << "cpu  150 0 100 750 100 0 0 0\n";
  EXPECT_DOUBLE_EQ(*sampler.sample().cpu_percent, 50);
  std::filesystem::remove_all(dir);
  const hardware_sample gone = sampler.sample();
  EXPECT_FALSE(gone.memory_used_percent);
  EXPECT_FALSE(gone.cpu_percent);
}

TEST(hardware, the_hottest_gpu_wins_and_absent_readings_stay_absent) {
  hardware_sample s;
  s.gpus.resize(3);
  s.gpus[0].temperature_c = 50;
  s.gpus[1].temperature_c = 70;
  s.gpus[1].util_percent = 90;
  s.gpus[2].vram_used_bytes = 5;
  s.gpus[2].vram_total_bytes = 10;
  s.memory_used_percent = 80;
  const hardware_columns c = columns_of(s);
  EXPECT_DOUBLE_EQ(*c.gpu_temperature_c, 70);
  EXPECT_DOUBLE_EQ(*c.gpu_util_percent, 0.9);
  EXPECT_DOUBLE_EQ(*c.gpu_vram_used_percent, 0.5);
  EXPECT_DOUBLE_EQ(*c.memory_used_percent, 0.8);
  EXPECT_FALSE(c.cpu_usage_percent);
  const boost::json::value json = json_of(s);
  EXPECT_FALSE(json.at("gpu").at(0).as_object().contains("util_percent"));
  EXPECT_EQ(json.at("gpu").at(1).at("temperature_c").as_double(), 70);
}

TEST(proxy, slots_are_never_given_beyond_capacity) {
  slot_count slots(2);
  EXPECT_TRUE(slots.take());
  EXPECT_TRUE(slots.take());
  EXPECT_FALSE(slots.take());
  slots.give_back();
  EXPECT_TRUE(slots.take());
}

// Naive variants: every byte is a sign of life; or a word that was not looked at is none.
TEST(content_watch, an_engine_that_only_pings_is_idle_and_one_that_speaks_now_and_then_is_not) {
  const std::string word = R"(data: {"choices":[{"delta":{"content":"x"}}]})" "\n\n";
  const std::string role = R"(data: {"choices":[{"delta":{"role":"assistant","content":""}}]})" "\n\n";
  content_watch w(100, 0);
  EXPECT_EQ(w.due_ns(), 125u);
  w.feed(word, 10);
  EXPECT_EQ(w.due_ns(), 125u) << "not looked at yet: the quarter is for it";
  for (const std::string &nothing : {role, std::string(": ping\n\n"), std::string("event: ping\ndata: {\"type\": \"ping\"}\n\n"),
                                     std::string(": pi"), std::string("ng\r\n\r\n"), std::string("data: {\"choices\":[]}\n\n")}) {
    w.feed(nothing, 60);
    EXPECT_EQ(w.due_ns(), 125u) << nothing;
  }
  w.feed(word, 120);
  EXPECT_EQ(w.due_ns(), 245u);
  w.feed(word, 240);
  EXPECT_EQ(w.due_ns(), 365u) << "the first read that is looked at may be the only one";
  w.forgive(300);
  EXPECT_EQ(w.due_ns(), 425u);
}

TEST(content_watch, looks_from_the_next_line_on_and_takes_what_it_cannot_read_for_content) {
  const std::string word = R"(data: {"choices":[{"delta":{"content":"x"}}]})";
  for (const std::string &end : {std::string("\n\n"), std::string("\r\n\r\n"), std::string("\r\r")}) {
    content_watch w(100, 0);
    w.feed(word.substr(0, 30), 10);
    w.feed(word.substr(30) + end, 30);
    EXPECT_EQ(w.due_ns(), 125u) << "half an event tells nothing";
    w.feed(word + end, 40);
    EXPECT_EQ(w.due_ns(), 165u);
  }
  content_watch long_line(100, 0), no_events(100, 0);
  long_line.feed("data: {\"choices\":", 10);
  long_line.feed("xxxxxxxx", 50);
  EXPECT_EQ(long_line.due_ns(), 175u);
  no_events.feed("these are no events\n", 50);
  EXPECT_EQ(no_events.due_ns(), 175u);
}

TEST(runtime, metadata_names_every_model_and_keeps_the_sheets_fields) {
  agent_options o;
  o.capacity = 7;
  const auto json = boost::json::parse(metadata_json(o, {"base", "lora-a"}));
  EXPECT_EQ(json.at("models").as_array().size(), 2u);
  EXPECT_EQ(json.at("model").as_string(), "base");
  EXPECT_EQ(json.at("capacity").as_int64(), 7);
  EXPECT_EQ(json.at("region").as_string(), "UE-France");
  EXPECT_EQ(json.at("tags").at(0).as_string(), "production");
}

}  // namespace
}  // namespace hive::agent
