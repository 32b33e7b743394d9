#include "gateway/error.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/json_text.hpp"

namespace hive::gateway {

namespace {

constexpr std::array<std::pair<std::string_view, int>, 20> statuses = {{
    {"request_invalid", 400},     {"context_length_exceeded", 400},
    {"invalid_parameter", 400},   {"input_too_long", 400},
    {"unauthorized", 401},        {"model_forbidden", 403},
    {"model_not_found", 404},     {"not_found", 404},
    {"method_not_allowed", 405},  {"request_timeout", 504},
    {"rate_limit_exceeded", 429}, {"token_limit_exceeded", 429},
    {"concurrency_limit_exceeded", 429}, {"backend_error", 502},
    {"no_agents_available", 503}, {"no_capacity", 503},
    {"agent_disconnected", 503},  {"backend_unavailable", 503},
    {"queue_full", 503},          {"shutting_down", 503},
}};

std::string error_object(const api_error &error, dialect d, std::string_view request_id) {
  std::string out = "{\"code\":";
  out += json_quote(error.code);
  out += ",\"message\":";
  out += json_quote(error.message);
  out += ",\"source\":";
  out += json_quote(error.source);
  out += ",\"type\":";
  out += json_quote(type_of(error.status, d));
  if (!request_id.empty()) {
    out += ",\"request_id\":";
    out += json_quote(request_id);
  }
  out += '}';
  return out;
}

}  // namespace

std::string json_quote(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string plain_error_body(std::string_view words) { return "{\"error\":" + json_quote(words) + "}"; }

api_error make_error(std::string_view code, std::string message, std::string_view source, uint64_t retry_after_s) {
  const auto it = std::find_if(statuses.begin(), statuses.end(), [&](const auto &row) { return row.first == code; });
  api_error error;
  error.code = it == statuses.end() ? std::string_view("backend_error") : it->first;
  error.status = it == statuses.end() ? 500 : it->second;
  error.message = std::move(message);
  error.source = source == "backend" ? "backend" : "router";
  error.retry_after_s = error.status == 429 ? std::max<uint64_t>(retry_after_s, 1) : retry_after_s;
  return error;
}

void keep_longer_wait(api_error &error, std::string_view code, uint64_t retry_after_s) {
  if (error.code == code) error.retry_after_s = std::max(error.retry_after_s, retry_after_s);
}

std::string_view type_of(int status, dialect d) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return d == dialect::anthropic ? "request_too_large" : "invalid_request_error";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
  }
}

std::string error_body(const api_error &error, dialect d, std::string_view request_id) {
  std::string out = d == dialect::anthropic ? "{\"type\":\"error\",\"error\":" : "{\"error\":";
  out += error_object(error, d, request_id);
  out += '}';
  return out;
}

std::string error_event(const api_error &error, dialect d, std::string_view request_id) {
  std::string out = d == dialect::openai ? "data: " : "event: error\ndata: ";
  if (d == dialect::responses) {
    out += "{\"type\":\"error\",\"code\":" + json_quote(error.code) + ",\"message\":" + json_quote(error.message) +
           ",\"param\":null,\"error\":" + error_object(error, d, request_id) + "}";
  } else {
    out += error_body(error, d, request_id);
  }
  out += "\n\n";
  return out;
}

}  // namespace hive::gateway
