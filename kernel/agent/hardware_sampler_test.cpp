#include <gtest/gtest.h>

#include <boost/json/value.hpp>
#include <filesystem>
#include <fstream>

#include "agent/hardware.hpp"
#include "base/test_folder.hpp"

namespace hive::agent {
namespace {

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

}  // namespace
}  // namespace hive::agent
