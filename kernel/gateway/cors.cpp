#include "gateway/cors.hpp"

#include <algorithm>

namespace hive::gateway {

namespace {

constexpr std::string_view exposed =
    "X-Request-ID, X-RateLimit-Limit-Requests, X-RateLimit-Remaining-Requests, X-RateLimit-Reset-Requests, X-RateLimit-Limit-Tokens, "
    "X-RateLimit-Remaining-Tokens, X-RateLimit-Reset-Tokens, Retry-After, traceparent, X-Hivenet-Agent, X-Hivenet-Step, X-Hivenet-Attempts, X-Hivenet-Queue-Ms";
constexpr size_t most_asked = 4096;

std::string_view value_of(const http::request_head &head, std::string_view name) {
  const http::field *f = http::find_field(head.fields, name);
  return f == nullptr ? std::string_view() : f->value;
}

// A list of field names, and nothing that could be more than that.
bool is_name_list(std::string_view text) {
  return text.size() <= most_asked && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  std::string_view("-_, ").find(c) != std::string_view::npos;
         });
}

}  // namespace

cors::cors(std::vector<std::string> origins) : origins_(std::move(origins)) {
  any_ = std::find(origins_.begin(), origins_.end(), "*") != origins_.end();
}

bool cors::allows(std::string_view origin) const {
  return !origin.empty() && (any_ || std::find(origins_.begin(), origins_.end(), origin) != origins_.end());
}

std::string cors::lines_for(const http::request_head &head) const {
  if (origins_.empty() || head.path.substr(0, 6) == "/admin") return {};
  const std::string_view origin = value_of(head, "origin");
  // A cache must not give one origin's answer to another.
  std::string lines = any_ ? "" : "Vary: Origin\r\n";
  if (!allows(origin)) return lines;
  lines += "Access-Control-Allow-Origin: ";
  lines += any_ ? std::string_view("*") : origin;
  lines += "\r\nAccess-Control-Expose-Headers: ";
  lines += exposed;
  lines += "\r\n";
  return lines;
}

bool cors::is_preflight(const http::request_head &head) const {
  return head.method == "OPTIONS" && !origins_.empty() && head.path.substr(0, 6) != "/admin" && allows(value_of(head, "origin")) &&
         !value_of(head, "access-control-request-method").empty();
}

std::vector<http::field> cors::permissions(const http::request_head &head) const {
  // SDKs send a dozen fields of their own (x-stainless-*, anthropic-*), and more with every release: what is asked for is allowed.
  const std::string_view asked = value_of(head, "access-control-request-headers");
  const std::string_view names = !asked.empty() && is_name_list(asked) ? asked : std::string_view("Authorization, Content-Type, X-Api-Key");
  return {{"Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS"},
          {"Access-Control-Allow-Headers", names},
          {"Access-Control-Max-Age", "600"}};
}

}  // namespace hive::gateway
