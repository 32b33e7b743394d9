// The admin API's routes of client keys in mode dynamic (docs/keys.md): JSON in, JSON out, no hash in any answer.
// Control thread.
#pragma once

#include <functional>
#include <string>

#include "gateway/admin_port.hpp"
#include "tenancy/key_registry.hpp"

namespace hive::admin {

class key_api {
 public:
  using reply_fn = std::function<void(gateway::admin_answer)>;
  // Without a registry, which outlives this, everything answers 501. `strict`: an unknown field and a missing `enabled` are refused.
  key_api(tenancy::key_registry *registry, bool strict) : registry_(registry), strict_(strict) {}

  // Each answers once, at once or when a change is stored; the answer's `route` is the caller's to fill.
  void list(const reply_fn &) const;                                                          // /admin/api-keys
  void version(const reply_fn &) const;                                                       // /admin/api-keys/version
  void replace(const gateway::admin_request &, const reply_fn &);                             // /admin/api-keys/replace
  void one(const gateway::admin_request &, const std::string &id, const reply_fn &);          // /admin/api-keys/ID

 private:
  bool absent(const reply_fn &) const;
  void put(const gateway::admin_request &, const std::string &id, const reply_fn &);
  void finish(const status &, boost::json::object good, const std::vector<std::string> &warnings, const reply_fn &) const;

  tenancy::key_registry *registry_;
  const bool strict_;
};

}  // namespace hive::admin
