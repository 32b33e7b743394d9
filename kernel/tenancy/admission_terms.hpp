// Reads a model's admission_terms out of the policies and pools of this moment. Any thread; takes the pool's lock only for a model
// with shed_if, and only when its verdict is outdated.
#pragma once

#include <cstdint>
#include <string_view>

#include "routing/snapshot.hpp"
#include "tenancy/admission_control.hpp"

namespace hive::tenancy {

// Healthy agents of that model; 0 when nobody serves it.
uint64_t healthy_agents(const routing::snapshot &, std::string_view model);

admission_terms terms_of(const routing::governed &, uint64_t now_ns);
inline admission_terms terms_of(const routing::snapshot &now, std::string_view model, uint64_t now_ns) { return terms_of(now.of(model), now_ns); }

// After the policies changed: whoever parks is judged by the new ones at once.
void review_parked(admission_control &, const routing::snapshot &, uint64_t now_ns);

}  // namespace hive::tenancy
