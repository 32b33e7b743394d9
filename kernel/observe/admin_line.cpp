#include "observe/admin_line.hpp"

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "observe/audit_line.hpp"

namespace hive::observe {

namespace {

void text(std::string &out, std::string_view lead, std::string_view value) {
  out += lead;
  append_json_string(out, cut_audit_text(value));
}

}  // namespace

void append_admin_line(std::string &out, const admin_action &a, const zone &z) {
  const bool secret = trim(a.target).starts_with("sk-");
  out += a.status_code >= 400 ? R"({"log_type":"admin_audit","level":"error")" : R"({"log_type":"admin_audit","level":"info")";
  text(out, R"(,"request_id":)", a.request_id);
  text(out, R"(,"admin_key_id":)", a.admin_key_id);
  text(out, R"(,"method":)", a.method);
  text(out, R"(,"route":)", a.route);
  text(out, R"(,"target":)", secret ? hidden_target : a.target);
  out += R"(,"status_code":)" + std::to_string(a.status_code) + R"(,"latency_ms":)" + std::to_string(a.latency_ms);
  text(out, R"(,"source_ip":)", a.source_ip);
  out += R"(,"ts":")";
  z.append_time(out, a.started_unix_ms);
  out += "\"}\n";
}

}  // namespace hive::observe
