#include "routing/snapshot.hpp"

namespace hive::routing {

snapshot::snapshot(std::shared_ptr<const policy_document> global, named_documents named)
    : global_(std::move(global)), named_(std::move(named)) {
  for (const auto &[name, document] : named_)
    for (const std::string &model : document->models) claimed_.emplace(model, document);
}

const std::shared_ptr<const policy_document> &snapshot::document_for(std::string_view model) const {
  const auto found = claimed_.find(model);
  return found == claimed_.end() ? global_ : found->second;
}

std::shared_ptr<const route> snapshot::route_for(std::string_view model) const {
  const auto found = routes_.find(model);
  return found == routes_.end() ? nullptr : found->second;
}

governed snapshot::of(std::string_view model) const {
  auto way = route_for(model);
  auto document = way ? way->document : document_for(model);
  return {std::move(way), std::move(document)};
}

void snapshot::add(std::shared_ptr<const route> r) {
  std::string model = r->where->pool->model();
  routes_.insert_or_assign(std::move(model), std::move(r));
}

}  // namespace hive::routing
