// The instances of strategies and gates, one per (component, configuration, document, step, n-th of that name, pool), and the
// store that keeps them over policy reloads. The store belongs to the control thread; an instance's calls are made under its
// pool's lock, so never two at once.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "routing/catalog.hpp"

namespace hive::routing {

class lane;

struct instance {
  const hive_component *component = nullptr;         // null: the kernel's own least-loaded order
  std::unique_ptr<component_instance> plugin;
  std::string name;                                  // "strategy least-loaded routing_policy@qwen"
  std::shared_ptr<lane> where;                       // its pool's lane; a lane does not own instances
  std::atomic<uint64_t> errors{0};                   // failed or wrong answers; read by any thread
  // Guarded by the pool's lock.
  uint64_t seen_epoch = 0;                           // last epoch told by on_pool
  uint64_t leases = 0;                               // made by its step in its pool: the tie seed

  void *self() const { return plugin ? plugin->self() : nullptr; }
  const hive_strategy_vtable *strategy() const {
    return component && component->kind == HIVE_KIND_STRATEGY ? static_cast<const hive_strategy_vtable *>(component->vtable)
                                                              : nullptr;
  }
  const hive_gate_vtable *gate() const {
    return component && component->kind == HIVE_KIND_GATE ? static_cast<const hive_gate_vtable *>(component->vtable) : nullptr;
  }
  // Requires: the pool's lock.
  bool begin(uint64_t now_ns) { return plugin && plugin->begin(now_ns); }
  void end(hive_status, bool wrong_answer = false);
  void on_pool(const hive_pool &);                   // at most once an epoch
  bool wants_choice() const;
  bool wants_outcome() const;
  void on_choice(const hive_request &, const hive_pool &, uint32_t index);
  void on_outcome(const hive_outcome &);
};

class instance_store {
 public:
  explicit instance_store(component_source &source) : source_(source) {}

  struct place {
    std::shared_ptr<lane> where;
    std::string pool;
    std::string document;
    std::string step;
    uint32_t nth = 0;      // of the steps with that name
  };
  // The one that exists, or a new one. `component` null = the kernel's own order.
  result<std::shared_ptr<instance>> get(const place &, const hive_component *component, const std::string &options,
                                        const custom_rules &rules);
  std::vector<instance *> of(const lane *) const;
  // Takes out what no route uses any more; the caller destroys it once no list names it.
  std::vector<std::shared_ptr<instance>> take_unused();
  std::vector<std::shared_ptr<const instance>> all() const;

 private:
  component_source &source_;
  std::map<std::string, std::shared_ptr<instance>> instances_;
};

}  // namespace hive::routing
