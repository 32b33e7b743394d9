// Agents and pools without a registry, for the tests and the selection benchmark.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fleet/agent.hpp"
#include "fleet/lease.hpp"
#include "fleet/pool.hpp"

namespace hive::routing::testing {

// An agent's standing and pools are the registry's to write; an explicit instantiation may name private members.
std::atomic<uint32_t> &standing_of(fleet::agent &);
std::shared_ptr<const fleet::pool_list> &pools_of(fleet::agent &);
template <auto Standing, auto Pools>
struct open_agent {
  friend std::atomic<uint32_t> &standing_of(fleet::agent &a) { return a.*Standing; }
  friend std::shared_ptr<const fleet::pool_list> &pools_of(fleet::agent &a) { return a.*Pools; }
};
template struct open_agent<&fleet::agent::standing_, &fleet::agent::pools_>;

// Agents in pools of their own column table.
struct test_fleet {
  fleet::column_table columns;
  fleet::kernel_columns kernel = fleet::intern_kernel_columns(columns);
  std::map<std::string, std::shared_ptr<fleet::agent>> agents;
  std::vector<std::shared_ptr<fleet::agent>> made_ever;

  test_fleet() = default;
  test_fleet(const test_fleet &) = delete;
  // Agents and pools hold each other; the registry parts them otherwise.
  ~test_fleet() {
    for (const auto &a : made_ever) pools_of(*a) = std::make_shared<const fleet::pool_list>();
  }

  std::shared_ptr<fleet::pool> make_pool(const std::string &model) {
    return std::make_shared<fleet::pool>(model, kernel);
  }
  fleet::agent &add(const std::shared_ptr<fleet::pool> &pool, const std::string &name, uint32_t capacity,
                    const std::function<void(fleet::agent_info &)> &edit = {}) {
    auto info = std::make_shared<fleet::agent_info>();
    info->peer_id = name;
    info->agent_key = fleet::key_of(name);
    info->models = {pool->model()};
    info->capacity = capacity;
    if (edit) edit(*info);
    auto made = std::make_shared<fleet::agent>(info, 1);
    made->declared_capacity = capacity;
    made->slots.set_capacity(capacity);
    standing_of(*made) = 0;
    pools_of(*made) = std::make_shared<fleet::pool_list>(fleet::pool_list{pool});
    pool->join(made, info);
    agents[name] = made;
    made_ever.push_back(made);
    return *made;
  }
  void set_standing(fleet::pool &pool, const std::string &name, uint32_t bits) {
    standing_of(*agents[name]) = bits;
    pool.refresh(*agents[name]);
  }
  void signal(fleet::pool &pool, const std::string &name, const char *column, double value) {
    pool.write(*agents[name], columns.intern(column), value, 0, 0);
  }
};

}  // namespace hive::routing::testing
