// What a host's readings come to when some of them fail: each is asked for by itself, and absent by itself: a 0 would look cool and idle.
#include "agent/hardware.hpp"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <fstream>
#include <set>
#include <string>

#include "agent/fake_nvml_test.hpp"
#include "base/test_folder.hpp"

namespace hive::agent {
namespace {

using values = std::set<std::string>;

class gpu_readings : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(folder_.path() / "meminfo") << "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 300 kB\nBuffers: 50 kB\nCached: 50 kB\n";
    fake_nvml_set(2, 0);
    ASSERT_EQ(sampler_.gpu_trouble(), "");
  }
  hardware_sample sample(unsigned gpus, unsigned failing) {
    fake_nvml_set(gpus, failing);
    return sampler_.sample();
  }
  // The names of what is known of a GPU.
  static values known(const gpu_sample &g) {
    values out;
    if (!g.uuid.empty()) out.insert("uuid");
    if (!g.name.empty()) out.insert("name");
    if (g.util_percent) out.insert("util_percent");
    if (g.vram_used_bytes) out.insert("vram_used_bytes");
    if (g.vram_free_bytes) out.insert("vram_free_bytes");
    if (g.vram_total_bytes) out.insert("vram_total_bytes");
    if (g.temperature_c) out.insert("temperature_c");
    if (g.power_watts) out.insert("power_watts");
    return out;
  }
  const test_folder folder_;
  hardware_sampler sampler_{"", folder_.path().string()};
};

TEST_F(gpu_readings, are_those_of_the_driver) {
  const hardware_sample s = sample(2, 0);
  ASSERT_EQ(s.gpus.size(), 2u);
  EXPECT_EQ(s.gpus[0].uuid, "GPU-fake-0");
  EXPECT_EQ(s.gpus[1].name, "Fake 1");
  EXPECT_DOUBLE_EQ(*s.gpus[0].util_percent, 90);
  EXPECT_EQ(*s.gpus[0].vram_used_bytes, 5u);
  EXPECT_EQ(*s.gpus[0].vram_free_bytes, 5u);
  EXPECT_EQ(*s.gpus[0].vram_total_bytes, 10u);
  EXPECT_DOUBLE_EQ(*s.gpus[0].temperature_c, 80);
  EXPECT_DOUBLE_EQ(*s.gpus[0].power_watts, 250);
}

// Naive variants: what a failed query leaves behind is reported, so that a GPU looks cool and idle; one failure costs the whole GPU.
TEST_F(gpu_readings, a_query_that_fails_costs_its_own_value_and_no_other) {
  const values all = known(sample(2, 0).gpus.at(1));
  ASSERT_EQ(all.size(), 8u);
  const struct {
    unsigned fails;
    values gone;
  } cases[] = {{test::gpu_uuid, {"uuid"}},
               {test::gpu_name, {"name"}},
               {test::gpu_utilization, {"util_percent"}},
               {test::gpu_memory, {"vram_used_bytes", "vram_free_bytes", "vram_total_bytes"}},
               {test::gpu_temperature, {"temperature_c"}},
               {test::gpu_power, {"power_watts"}},
               {test::gpu_temperature | test::gpu_power, {"temperature_c", "power_watts"}}};
  for (const auto &c : cases) {
    const hardware_sample s = sample(2, c.fails);
    ASSERT_EQ(s.gpus.size(), 2u) << c.fails;
    values left = all;
    for (const std::string &name : c.gone) left.erase(name);
    EXPECT_EQ(known(s.gpus[0]), left) << c.fails;
    EXPECT_EQ(known(s.gpus[1]), all) << c.fails << ": another GPU";
    EXPECT_TRUE(s.memory_used_percent) << c.fails;
    const boost::json::object json = json_of(s);
    const boost::json::object &shown = json.at("gpu").as_array().at(0).as_object();
    for (const std::string &name : c.gone) EXPECT_FALSE(shown.contains(name)) << name;
    for (const std::string &name : left) {
      if (name != "uuid" && name != "name") {
        EXPECT_TRUE(shown.contains(name)) << name;
      }
    }
  }
}

TEST_F(gpu_readings, a_column_is_that_of_the_gpus_that_tell_and_absent_when_none_does) {
  EXPECT_DOUBLE_EQ(*columns_of(sample(2, 0)).gpu_temperature_c, 80);
  const hardware_columns of_two = columns_of(sample(2, test::gpu_temperature));
  EXPECT_DOUBLE_EQ(*of_two.gpu_temperature_c, 60);
  EXPECT_DOUBLE_EQ(*of_two.gpu_util_percent, 0.9);
  EXPECT_DOUBLE_EQ(*of_two.gpu_vram_used_percent, 0.5);
  const hardware_columns hot = columns_of(sample(1, test::gpu_temperature));
  EXPECT_FALSE(hot.gpu_temperature_c);
  EXPECT_DOUBLE_EQ(*hot.gpu_util_percent, 0.9);
  EXPECT_DOUBLE_EQ(*hot.gpu_vram_used_percent, 0.5);
  EXPECT_DOUBLE_EQ(*hot.memory_used_percent, 0.8);
  const hardware_columns busy = columns_of(sample(1, test::gpu_utilization | test::gpu_memory));
  EXPECT_DOUBLE_EQ(*busy.gpu_temperature_c, 80);
  EXPECT_FALSE(busy.gpu_util_percent);
  EXPECT_FALSE(busy.gpu_vram_used_percent);
}

TEST_F(gpu_readings, a_gpu_that_cannot_be_asked_is_left_out_and_the_host_is_still_there) {
  const hardware_sample one = sample(2, test::gpu_handle);
  ASSERT_EQ(one.gpus.size(), 1u);
  EXPECT_EQ(one.gpus[0].index, 1u);
  const hardware_sample none = sample(2, test::gpu_count);
  EXPECT_TRUE(none.gpus.empty());
  EXPECT_DOUBLE_EQ(*none.memory_used_percent, 80);
  EXPECT_FALSE(columns_of(none).gpu_temperature_c);
}

}  // namespace
}  // namespace hive::agent
