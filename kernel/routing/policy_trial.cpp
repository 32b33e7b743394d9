#include "routing/policy_trial.hpp"

#include "routing/lane.hpp"
#include "routing/step.hpp"

namespace hive::routing {

status try_policy(const policy_document &document, component_source &source, fleet::column_table &columns) {
  const auto where = std::make_shared<lane>(std::make_shared<fleet::pool>("any", fleet::intern_kernel_columns(columns)), line_limits{});
  instance_store instances(source);
  const step::surroundings around{source, instances, columns, where, 1};
  for (size_t i = 0; i < document.steps.size(); ++i)
    if (const auto compiled = step::compile(document, i, around); !compiled)
      return fail(errc::invalid, compiled.why().message(), compiled.why().path());
  return {};
}

}  // namespace hive::routing
