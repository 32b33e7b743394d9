// Writes down who asked for which change under /admin and what came of it (docs/audit.md). It stands before the table of routes,
// so that a change is covered whoever answers it: every method but GET, HEAD and OPTIONS on a path that exists, those that are
// refused included. The line is written on the thread that answers, as a rule the control thread: it never waits for the file.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "gateway/admin_port.hpp"
#include "observe/audit_log.hpp"

namespace hive::admin {

// What stands in `path` where the route's template has `:name` or `*name`; decoded. "" = the template is the path.
std::string target_of(std::string_view route, std::string_view path);

// What is not a question changes something, unless it is known not to: a route that is new counts.
bool changes(const gateway::admin_request &);

// Whether a text is a secret of this router, a key or the agents' secret, as they were at some moment. Any thread.
using secret_test = std::function<bool(std::string_view)>;

class action_log {
 public:
  using reply_fn = std::function<void(gateway::admin_answer)>;

  // Null: nothing is written. Before the first request.
  void write_to(observe::audit_log *log) { log_ = log; }
  // The reply to hand on instead of `reply`. Its line is written when the change is answered, also when the client has given up
  // by then. Who asks is the request's caller: known already, or nobody. A target that `secret` knows stands as "[secret]".
  reply_fn watching(const gateway::admin_request &, reply_fn reply, secret_test secret = {}) const;

 private:
  observe::audit_log *log_ = nullptr;
};

}  // namespace hive::admin
