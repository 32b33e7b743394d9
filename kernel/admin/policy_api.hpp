// The admin API's routes of policies (docs/policy-api.md): YAML or JSON in, JSON out. Control thread.
#pragma once

#include <functional>
#include <string>

#include "gateway/admin_port.hpp"
#include "routing/policy_library.hpp"

namespace hive::admin {

class policy_api {
 public:
  using reply_fn = std::function<void(gateway::admin_answer)>;
  explicit policy_api(routing::policy_library &library) : library_(library) {}

  // Each answers once, at once or when a change is stored; the answer's `route` is the caller's to fill.
  void global(const gateway::admin_request &, const reply_fn &);                              // /admin/policy
  void list(const reply_fn &) const;                                                          // /admin/policy/models
  void named(const gateway::admin_request &, const std::string &name, const reply_fn &);      // /admin/policy/models/NAME

 private:
  void show(const routing::held_policy *, const reply_fn &) const;
  void put(const gateway::admin_request &, const std::string &name, const reply_fn &);
  void erase(const gateway::admin_request &, const std::string &name, const reply_fn &);

  routing::policy_library &library_;
};

}  // namespace hive::admin
