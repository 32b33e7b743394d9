#include "gateway/routes.hpp"

#include <array>

namespace hive::gateway {

namespace {

constexpr std::array<route, 6> table = {{
    {route_kind::health, "GET", "/health", "/health", ""},
    {route_kind::ready, "GET", "/health/ready", "/health/ready", ""},
    {route_kind::models, "GET", "/v1/models", "/v1/models", ""},
    {.kind = route_kind::model_detail, .method = "GET", .path = "/v1/models/", .label = "/v1/models/*model", .capability = "",
     .rest = true},
    {.kind = route_kind::inference, .method = "POST", .path = "/v1/chat/completions", .label = "/v1/chat/completions",
     .capability = "llm", .buffered_head = true},
    {.kind = route_kind::admin, .method = "", .path = "/admin/", .label = "/admin", .capability = "", .rest = true},
}};

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string squeezed(std::string_view path) {
  std::string out;
  out.reserve(path.size());
  for (char c : path)
    if (c != '/' || out.empty() || out.back() != '/') out += c;
  return out;
}

bool method_fits(const route &r, std::string_view method) {
  return r.method.empty() || r.method == method || (r.method == "GET" && method == "HEAD");
}

// A path that only lacks /v1 or has it twice.
std::string suggest(std::string_view path) {
  std::string other;
  if (path.substr(0, 7) == "/v1/v1/") other = std::string(path.substr(3));
  else if (path.substr(0, 4) != "/v1/") other = "/v1" + std::string(path);
  for (const route &r : table)
    if (r.kind != route_kind::admin && !other.empty() &&
        (r.path == other || (r.rest && std::string_view(other).substr(0, r.path.size()) == r.path)))
      return other;
  return {};
}

}  // namespace

std::span<const route> route_table() { return table; }

std::string percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_value(text[i + 2]) : -1;
    if (low < 0) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

route_match find_route(std::string_view method, std::string_view path) {
  route_match match;
  const bool admin = path.substr(0, 6) == "/admin";
  std::string tidy;
  if (!admin) {
    // A model id may hold slashes of its own: only what stands before it is tidied.
    const std::string_view models = "/v1/models/";
    tidy = squeezed(path);
    if (std::string_view(tidy).substr(0, models.size()) == models && tidy.size() > models.size()) {
      const size_t at = path.find("models");
      size_t rest = path.find_first_not_of('/', at + 6);
      if (rest == std::string_view::npos) rest = path.size();
      tidy = std::string(models) + std::string(path.substr(rest));
    } else if (tidy.size() > 1 && tidy.back() == '/') {
      tidy.pop_back();
    }
    path = tidy;
  }
  for (const route &r : table) {
    const bool fits = r.rest ? path.size() > r.path.size() && path.substr(0, r.path.size()) == r.path : path == r.path;
    if (!fits || (r.kind == route_kind::admin && !admin)) continue;
    if (!method_fits(r, method)) {
      match.known_path = true;
      match.allow = r.method == "GET" ? "GET, HEAD" : r.method;
      continue;
    }
    match.found = &r;
    if (r.rest) match.argument = r.kind == route_kind::admin ? std::string(path.substr(r.path.size()))
                                                             : percent_decode(path.substr(r.path.size()));
    return match;
  }
  if (!match.known_path && !admin) match.suggestion = suggest(path);
  return match;
}

}  // namespace hive::gateway
