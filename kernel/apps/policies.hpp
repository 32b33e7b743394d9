// The policies of a router process: the library of routing, with the storage, the keys and the metrics that belong to it.
// Control thread.
#pragma once

#include <functional>
#include <memory>

#include "admin/exporter.hpp"
#include "apps/provider_settings.hpp"
#include "config/router_settings.hpp"
#include "fleet/storage_thread.hpp"
#include "routing/policy_library.hpp"
#include "tenancy/keyring.hpp"

namespace hive::apps {

// What this program asks of a document beside its schema: that the plugins that are loaded and the providers that have a key carry it
// out. The first two outlive the answer.
routing::policy_judge policy_judge_of(routing::component_source &, fleet::column_table &, known_providers);
routing::policy_places policy_places_of(const config::router_settings &);

class policies {
 public:
  // All of it outlives this.
  struct parts {
    const config::router_settings &settings;
    loop &control;
    routing::router &routing;
    routing::component_source &components;
    fleet::column_table &columns;
    fleet::storage_thread &storage;
    admin::exporter &metrics;
    const std::shared_ptr<const tenancy::keyring> &keys;   // those of the moment
    known_providers providers;
    std::function<void()> changed;                         // other documents rule now
  };
  explicit policies(const parts &);

  routing::policy_library &library() { return library_; }
  // Whether these keys would do with the documents that rule now.
  status fits(const tenancy::keyring &) const;

 private:
  routing::stored_policies stored_;
  routing::policy_library library_;
};

}  // namespace hive::apps
