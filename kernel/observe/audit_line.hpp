// One line of the audit log: the 15 numbered fields of docs/audit.md in their order, then the others. Pure, any
// thread; formatting a line costs well under a microsecond.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "observe/zone.hpp"

namespace hive::observe {

inline constexpr size_t most_audit_text = 256;  // bytes of a caller's text in a line; beyond, it is cut and ends in "..."

// What is empty stands as "", never as null. Views are borrowed for the call.
struct audit_entry {
  std::string_view trace_id;
  std::string_view request_id;
  std::string_view tenant_id;
  std::string_view key_id;
  std::string_view model;
  int status_code = 0;
  uint64_t latency_ms = 0;
  uint64_t input_tokens = 0;
  uint64_t output_tokens = 0;
  std::string_view agent_id;
  std::string_view error_code;     // below 400 none; without one the code that belongs to the status
  std::string_view source_ip;
  uint64_t started_unix_ms = 0;
  std::string_view ended;          // who or what ended it
  bool estimated = false;          // the token counts are, or one is
  std::string_view method;
  std::string_view route;          // its label
  std::string_view step;           // of the policy, in which it was served or tried last
  uint64_t attempts = 0;           // forwards
  uint64_t queue_ms = 0;           // in the capacity queue
  bool stream = false;
  uint64_t input_estimate = 0;     // tokens, before it was routed
  uint64_t output_limit = 0;       // tokens, as the request declares; 0 = not
  std::string_view alias;          // the name that was asked for when it was not the model's own
  std::string_view denied;         // why nobody was let in
};

// At most most_audit_text bytes of it: what is cut ends in "...", and no character is cut in two.
std::string cut_audit_text(std::string_view);

// Appends the line with its newline.
void append_audit_line(std::string &out, const audit_entry &, const zone &);

// Of an answer of 400 or more that names none.
std::string_view audit_code_of(int status);

}  // namespace hive::observe
