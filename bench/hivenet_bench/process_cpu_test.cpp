#include "hivenet_bench/process_cpu.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <string>

namespace hive::bench {
namespace {

const std::string after_name = " S 1 42 42 0 -1 4194560 2191 0 3 0 1234 766 17 9 20 0 3 0 12345 231731200 4180 18446744073709551615 1 1 0\n";

TEST(cpu_ticks, are_user_and_system_time_whatever_the_name) {
  for (const char *name : {"router", "a b", "x) R 1 2 3 (y", "((", "))", ""})
    EXPECT_EQ(*cpu_ticks("4711 (" + std::string(name) + ")" + after_name), 2000u) << name;
}

TEST(cpu_ticks, refuse_what_is_no_stat_line) {
  const std::string cases[] = {"", "4711", "4711 (router)", "4711 (router) S 1 42 42 0 -1 4194560 2191 0 3 0 1234",
                               "4711 (router) S 1 42 42 0 -1 4194560 2191 0 3 0 1234 -766 17",
                               "4711 (router) S 1 42 42 0 -1 4194560 2191 0 3 0 12x4 766 17",
                               "4711 (router) S 1 42 42 0 -1 4194560 2191 0 3 0 99999999999999999999 766 17"};
  for (const std::string &text : cases) {
    const auto ticks = cpu_ticks(text);
    ASSERT_FALSE(ticks.ok()) << text;
    EXPECT_EQ(ticks.why().code(), errc::corrupt) << text;
  }
}

TEST(process_cpu, grows_with_the_work_of_this_process) {
  const auto before = process_cpu_us(::getpid());
  ASSERT_TRUE(before.ok()) << before.why().text();
  timespec used{};
  const auto cpu_ms = [&] {
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1000 + used.tv_nsec / 1'000'000;
  };
  for (const auto start = cpu_ms(); cpu_ms() - start < 50;) {
  }
  const auto after = process_cpu_us(::getpid());
  ASSERT_TRUE(after.ok());
  EXPECT_GE(*after - *before, 30'000u);
}

TEST(process_cpu, says_that_a_process_does_not_exist) {
  const auto none = process_cpu_us(-1);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.why().code(), errc::not_found);
}

}  // namespace
}  // namespace hive::bench
