// Rules of choosing for the fleet model: a strategy plugin through its C ABI, loaded as the router loads it, and references
// that a strategy is compared with.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fleet_model.hpp"
#include "hive/check/sample_pool.hpp"
#include "plugins/instance.hpp"
#include "plugins/recording_services.hpp"

namespace hive::simulation {

class pool_services : public plugins::recording_services {
 public:
  explicit pool_services(check::sample_pool &p) : pool_(p) {}
  hive_column column(std::string_view name) override { return pool_.column(std::string(name)); }

 private:
  check::sample_pool &pool_;
};

class plugin_rule final : public rule {
 public:
  plugin_rule(const std::string &id, const std::string &options, uint32_t agents);

  uint32_t choose(double now_s, const arrival &, const std::vector<agent_state> &) override;
  void tell(double now_s, const outcome &) override;
  // The mean of so many selections for the request, nothing leased, on the fleet of the last choose.
  double time_selection_us(const arrival &, int times);

  check::sample_pool &pool() { return pool_; }
  void let_go(uint32_t agent);           // it leaves the pool: an empty slot from now on
  void join(uint32_t agent, uint64_t key);

 private:
  void at(double now_s);
  hive_request request_of(const arrival &);

  check::sample_pool pool_;
  pool_services services_{pool_};
  std::unique_ptr<plugins::instance> it_;
  std::vector<double> scores_;
  std::vector<uint64_t> blocks_;
  uint64_t leases_ = 0;
};

// The longest match above 0.3 of the prompt; else, and when the busiest agent has 64 requests and 1.5 times more than the
// idlest, the fewest requests. What routers with prefix caches commonly do.
class longest_match final : public rule {
 public:
  longest_match(size_t agents, size_t blocks, unsigned seed = 1) : seen_(agents, lru_cache(blocks)), random_(seed) {}
  uint32_t choose(double now_s, const arrival &, const std::vector<agent_state> &) override;

 private:
  std::vector<lru_cache> seen_;
  std::mt19937 random_;
};

}  // namespace hive::simulation
