// Reads a model's admission_terms out of the policies and pools of this moment. Any thread; takes the pool's lock only for a model
// whose policy asks for something.
#pragma once

#include <cstdint>
#include <string_view>

#include "routing/snapshot.hpp"
#include "tenancy/admission_control.hpp"

namespace hive::tenancy {

// Healthy agents of that model; 0 when nobody serves it.
uint64_t healthy_agents(const routing::snapshot &, std::string_view model);

admission_terms terms_of(const routing::snapshot &, std::string_view model, uint64_t now_ns);

}  // namespace hive::tenancy
