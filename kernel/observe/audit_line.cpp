#include "observe/audit_line.hpp"

#include <charconv>

#include "base/json_text.hpp"

namespace hive::observe {

namespace {

// `"name":"` is written in one piece; the names are ours and need no escape.
void text(std::string &out, std::string_view lead, std::string_view value) {
  out.append(lead);
  append_json_string(out, value);
}

// A caller's text, bounded, cut where a character ends.
void bounded_text(std::string &out, std::string_view lead, std::string_view value) {
  if (value.size() <= most_audit_text) return text(out, lead, value);
  size_t end = most_audit_text - 3;
  while (end > 0 && (static_cast<unsigned char>(value[end]) & 0xc0) == 0x80) --end;
  text(out, lead, std::string(value.substr(0, end)) + "...");
}

void number(std::string &out, std::string_view lead, uint64_t value) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(lead);
  out.append(digits, static_cast<size_t>(end - digits));
}

}  // namespace

std::string_view audit_code_of(int status) {
  switch (status) {
    case 400: return "request_invalid";
    case 401: return "unauthorized";
    case 403: return "model_forbidden";
    case 404: return "model_not_found";
    case 413: return "request_too_large";
    case 429: return "rate_limit_exceeded";
    case 499: return "client_gone";
    case 503: return "no_agents_available";
    case 504: return "request_timeout";
    default: return status < 400 ? "" : "backend_error";
  }
}

void append_audit_line(std::string &out, const audit_entry &e, const zone &z) {
  const bool bad = e.status_code >= 400;
  std::string_view code = e.error_code;
  if (bad && (code.empty() || e.status_code == 413)) code = audit_code_of(e.status_code);
  out += bad ? R"({"log_type":"audit","level":"error")" : R"({"log_type":"audit","level":"info")";
  text(out, R"(,"trace_id":)", e.trace_id);
  text(out, R"(,"request_id":)", e.request_id);
  text(out, R"(,"tenant_id":)", e.tenant_id);
  text(out, R"(,"key_id":)", e.key_id);
  bounded_text(out, R"(,"model":)", e.model);
  number(out, R"(,"status_code":)", static_cast<uint64_t>(e.status_code < 0 ? 0 : e.status_code));
  number(out, R"(,"latency_ms":)", e.latency_ms);
  number(out, R"(,"input_tokens":)", e.input_tokens);
  number(out, R"(,"output_tokens":)", e.output_tokens);
  bounded_text(out, R"(,"agent_id":)", e.agent_id);
  text(out, R"(,"error_code":)", code);
  bounded_text(out, R"(,"source_ip":)", e.source_ip);
  out += R"(,"ts":")";
  z.append_time(out, e.started_unix_ms);
  text(out, R"(","ended":)", e.ended);
  out += e.estimated ? ",\"estimated\":true}\n" : ",\"estimated\":false}\n";
}

}  // namespace hive::observe
