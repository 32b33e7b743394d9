// One line of the audit log about a change that was asked for under /admin: who, what, and what came of it. Never a body, never a
// key: who it was is told by the first digits of the key's hash. Pure, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "observe/zone.hpp"

namespace hive::observe {

// What is empty stands as "", never as null. Views are borrowed for the call.
struct admin_action {
  std::string_view request_id;
  std::string_view admin_key_id;   // first 12 hex digits of the key's hash; "" when no key opened the door
  std::string_view method;
  std::string_view route;          // the template, e.g. /admin/policy/models/*name
  std::string_view target;         // what the template leaves open, decoded; cut as a model is
  int status_code = 0;
  uint64_t latency_ms = 0;         // until the change was made, which may be later than the client waited for
  std::string_view source_ip;
  uint64_t started_unix_ms = 0;
};

// What stands for a target that is a key: a mistake of whoever typed it.
inline constexpr std::string_view hidden_target = "[secret]";

// Appends the line with its newline. A target that looks like a key is hidden; whoever knows which texts are keys hides those.
void append_admin_line(std::string &out, const admin_action &, const zone &);

}  // namespace hive::observe
