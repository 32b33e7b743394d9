// What the models routes show (docs/http-api.md): the fleet by model id. Shapes and names are fixed by existing clients.
// Any thread; reads snapshots and atomics only.
#pragma once

#include <string>
#include <string_view>

#include "fleet/registry.hpp"
#include "gateway/model_names.hpp"
#include "tenancy/client_key.hpp"

namespace hive::gateway {

class models_view {
 public:
  // Sees what its key may use; null sees everything.
  using viewer = const tenancy::client_key *;
  // `show_agents`: detail lists the agents, with machines and organizations (--models-show-agents).
  // `names`: aliases are shown beside the models; null shows models alone.
  explicit models_view(const fleet::registry &r, bool show_agents = true, const model_names *names = nullptr)
      : registry_(r), show_agents_(show_agents), names_(names) {}
  // JSON of GET /v1/models and of one model, "" = unknown or not to be seen; with the fields of Anthropic's API beside ours when
  // asked for.
  std::string list(viewer, bool anthropic) const;
  std::string detail(std::string_view model, viewer, bool anthropic) const;
  std::string near(std::string_view model, viewer) const;  // ids that look alike, for a person; may be ""

 private:
  const fleet::registry &registry_;
  const bool show_agents_;
  const model_names *const names_;
};

}  // namespace hive::gateway
