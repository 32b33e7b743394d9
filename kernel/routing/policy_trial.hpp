// Whether a document can be carried out: its steps are compiled for a pool of nobody, which makes every instance it needs, as a
// model's first agent would. Control thread.
#pragma once

#include "base/status.hpp"
#include "fleet/column.hpp"
#include "routing/catalog.hpp"
#include "routing/policy.hpp"

namespace hive::routing {

// Leaves nothing behind but names in the column table. A refusal is the caller's input (errc::invalid), whatever the component said.
status try_policy(const policy_document &, component_source &, fleet::column_table &);

}  // namespace hive::routing
