#include "observe/audit_line.hpp"

#include <charconv>
#include <cstring>

#include "base/json_text.hpp"

namespace hive::observe {

namespace {

// Writes to a buffer that has room for every text at its longest, each byte escaped: no check and no growth on the way.
class pen {
 public:
  void raw(std::string_view text) {
    if (!text.empty()) std::memcpy(at_, text.data(), text.size());  // an empty text may have no address
    at_ += text.size();
  }
  // `lead` is ours: `,"name":"`, the value's opening quote included.
  void text(std::string_view lead, std::string_view value) {
    raw(lead);
    if (value.size() <= most_audit_text && is_plain_json(value)) raw(value);
    else careful(value);
    *at_++ = '"';
  }
  void number(std::string_view lead, uint64_t value) {
    raw(lead);
    at_ = std::to_chars(at_, at_ + 20, value).ptr;
  }
  void time(const zone &z, uint64_t unix_ms) { at_ += z.write_time(at_, unix_ms); }
  std::string_view written() const { return {buffer_, static_cast<size_t>(at_ - buffer_)}; }

 private:
  void careful(std::string_view value) {
    std::string out;
    append_json_string(out, cut_audit_text(value));
    raw(std::string_view(out).substr(1, out.size() - 2));
  }

  static constexpr size_t texts = 14, longest_escape = 6, rest = 1024;
  char buffer_[texts * longest_escape * most_audit_text + rest];
  char *at_ = buffer_;
};

}  // namespace

std::string cut_audit_text(std::string_view value) {
  if (value.size() <= most_audit_text) return std::string(value);
  size_t end = most_audit_text - 3;
  while (end > 0 && (static_cast<unsigned char>(value[end]) & 0xc0) == 0x80) --end;
  return std::string(value.substr(0, end)) + "...";
}

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
  pen p;
  p.raw(bad ? R"({"log_type":"audit","level":"error")" : R"({"log_type":"audit","level":"info")");
  p.text(R"(,"trace_id":")", e.trace_id);
  p.text(R"(,"request_id":")", e.request_id);
  p.text(R"(,"tenant_id":")", e.tenant_id);
  p.text(R"(,"key_id":")", e.key_id);
  p.text(R"(,"model":")", e.model);
  p.number(R"(,"status_code":)", static_cast<uint64_t>(e.status_code < 0 ? 0 : e.status_code));
  p.number(R"(,"latency_ms":)", e.latency_ms);
  p.number(R"(,"input_tokens":)", e.input_tokens);
  p.number(R"(,"output_tokens":)", e.output_tokens);
  p.text(R"(,"agent_id":")", e.agent_id);
  p.text(R"(,"error_code":")", code);
  p.text(R"(,"source_ip":")", e.source_ip);
  p.raw(R"(,"ts":")");
  p.time(z, e.started_unix_ms);
  p.text(R"(","ended":")", e.ended);
  p.raw(e.estimated ? ",\"estimated\":true" : ",\"estimated\":false");
  p.text(R"(,"method":")", e.method);
  p.text(R"(,"route":")", e.route);
  p.text(R"(,"step":")", e.step);
  p.number(R"(,"attempts":)", e.attempts);
  p.number(R"(,"queue_ms":)", e.queue_ms);
  p.raw(e.stream ? ",\"stream\":true" : ",\"stream\":false");
  p.number(R"(,"input_estimate":)", e.input_estimate);
  p.number(R"(,"output_limit":)", e.output_limit);
  p.text(R"(,"alias":")", e.alias);
  p.text(R"(,"denied":")", e.denied);
  p.raw("}\n");
  out.append(p.written());
}

}  // namespace hive::observe
