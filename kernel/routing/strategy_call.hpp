// The calls that a selection makes into plugins, answers checked. Requires the pool's lock; no allocation.
#pragma once

#include <cstdint>
#include <string>

#include "hive/abi/views.h"
#include "routing/instance.hpp"
#include "routing/lane.hpp"
#include "routing/step.hpp"

namespace hive::routing {

inline constexpr uint32_t nowhere = UINT32_MAX;

// Writes view.count verdicts; false when the gate failed or may not be called, then they mean nothing.
bool ask_gate(const custom_gate &, const hive_request &, const hive_pool &view, uint32_t *verdicts);

struct strategy_answer {
  uint32_t index = nowhere;   // one of the candidates; nowhere = it chose nobody
  bool scored = false;        // the lane's scores hold one for each candidate
};

// `view` has eligible and candidates filled, eligible being the lane's `keep`. A wrong or failed answer counts against the
// instance, and the kernel's own order by `load` decides instead.
strategy_answer ask_strategy(instance &, const hive_request &, const hive_pool &view, lane::buffers &, const double *load);

std::string strategy_id(const instance &);

}  // namespace hive::routing
