#include "routing/strategy_call.hpp"

#include <algorithm>

#include "plugins/text.hpp"
#include "routing/scan.hpp"

namespace hive::routing {

bool ask_gate(const custom_gate &g, const hive_request &request, const hive_pool &view, uint32_t *verdicts) {
  g.gate->on_pool(view);
  if (!g.gate->begin(request.now_ns)) return false;
  std::fill_n(verdicts, view.count, 0u);
  const hive_status answer = g.gate->gate()->evaluate(g.gate->self(), &request, &view, verdicts);
  g.gate->end(answer);
  return answer == HIVE_OK;
}

strategy_answer ask_strategy(instance &one, const hive_request &request, const hive_pool &view, lane::buffers &space,
                             const double *load) {
  if (const hive_strategy_vtable *table = one.strategy()) {
    one.on_pool(view);
    if (one.begin(request.now_ns)) {
      hive_choice choice{};
      choice.struct_size = sizeof choice;
      choice.index = nowhere;
      choice.scores = space.scores.data();
      choice.score_count = view.count;
      const hive_status answer = table->select(one.self(), &request, &view, &choice);
      const bool right = answer == HIVE_OK && choice.index < view.count && space.keep[choice.index];
      one.end(answer, !right && answer != HIVE_NO_CHOICE && answer >= 0);
      if (right) return {choice.index, choice.scored != 0};
      if (answer == HIVE_NO_CHOICE) return {};
    }
  }
  return {scan::least_loaded(load, view.candidates, view.candidate_count, request.tie_seed), false};
}

std::string strategy_id(const instance &one) {
  return one.component ? plugins::text_of(one.component->id) : "built-in";
}

}  // namespace hive::routing
