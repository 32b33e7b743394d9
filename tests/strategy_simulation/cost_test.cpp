// What a choice costs: no allocation, whatever the strategy has learned, and time in step with the number of agents.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "base/counted_new.hpp"
#include "scenarios.hpp"

namespace hive::simulation {
namespace {

struct measured {
  uint64_t allocations = 0;
  double best_us = 0;
};

// A fleet in the middle of its work: 40 blocks of prompt a request, a third of them shared.
measured selections(const std::string &id, uint32_t agents, bool &counter_works) {
  plugin_rule by(id, id == "prefix-affinity" ? R"({"blocks": 512})" : "", agents);
  agent_state one;
  one.capacity = 64;
  one.srtt_ms = 40;
  std::vector<agent_state> fleet(agents, one);
  chance c(agents);
  std::vector<arrival> requests;
  for (uint32_t i = 0; i < std::min(agents * 4, 4000u); ++i) {
    arrival a;
    a.session = "s" + std::to_string(i % 97);
    a.prompt = 20'000;
    a.output = 100;
    for (uint64_t b = 0; b < 40; ++b) a.blocks.push_back(b < 13 ? b : 1000 * (1 + i % 97) + b);
    requests.push_back(std::move(a));
  }
  double t = 1;
  for (const arrival &a : requests) {
    const uint64_t before = allocations.load();
    const uint32_t i = by.choose(t += 0.001, a, fleet);
    counter_works = counter_works || allocations.load() > before;
    ++fleet[i].active;
    if (c.unit() < 0.7) by.tell(t, {i, 0, c.unit() < 0.5, &a, 0});
  }
  measured out;
  out.best_us = 1e9;
  for (int round = 0; round < 20; ++round) {
    const uint64_t before = allocations.load();
    const double us = by.time_selection_us(requests[static_cast<size_t>(round) % requests.size()], 20);
    out.allocations += allocations.load() - before;
    out.best_us = std::min(out.best_us, us);
  }
  return out;
}

class cost : public testing::TestWithParam<const char *> {};

TEST_P(cost, no_allocation_and_time_in_step_with_the_agents) {
  bool counter_works = false;
  const measured small = selections(GetParam(), 64, counter_works), large = selections(GetParam(), 2000, counter_works);
  std::cout << GetParam() << ": " << small.best_us << " us at 64 agents, " << large.best_us << " us at 2,000\n";
  EXPECT_TRUE(counter_works);
  EXPECT_EQ(small.allocations, 0u);
  EXPECT_EQ(large.allocations, 0u);
  // 31 times the agents: what is quadratic takes a thousand times as long. Caches account for the rest.
  EXPECT_LT(large.best_us, 31 * 6 * std::max(0.5, small.best_us));
}

INSTANTIATE_TEST_SUITE_P(all, cost,
                         testing::Values("least-loaded", "power-of-two", "peak-ewma", "token-load", "prefix-affinity", "consistent-hash"),
                         [](const auto &one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace hive::simulation
