#include "gateway/routes.hpp"

#include <algorithm>
#include <array>

#include "base/hex_digit.hpp"

namespace hive::gateway {

namespace {

constexpr route get(route_kind kind, std::string_view path) {
  return {.kind = kind, .method = "GET", .path = path, .label = path, .capability = {}};
}

constexpr route post(std::string_view path, std::string_view capability, usage_source usage) {
  return {.kind = route_kind::inference, .method = "POST", .path = path, .label = path, .capability = capability, .usage = usage};
}

constexpr route streamed(route r, dialect speaks = dialect::openai, bool buffered_head = false) {
  r.streams = true;
  r.speaks = speaks;
  r.buffered_head = buffered_head;
  return r;
}

constexpr route admitted(route r) {
  r.admitted = true;
  return r;
}

constexpr route below(route r, std::string_view label) {
  r.rest = true;
  r.label = label;
  return r;
}

constexpr route in_dialect(route r, dialect speaks) {
  r.speaks = speaks;
  return r;
}

constexpr std::array<route, 12> table = {{
    get(route_kind::health, "/health"),
    get(route_kind::ready, "/health/ready"),
    get(route_kind::models, "/v1/models"),
    below(get(route_kind::model_detail, "/v1/models/"), "/v1/models/*model"),
    admitted(streamed(post("/v1/chat/completions", "llm", usage_source::asked), dialect::openai, true)),
    admitted(streamed(post("/v1/completions", "llm", usage_source::asked))),
    admitted(streamed(post("/v1/responses", "llm", usage_source::told), dialect::responses)),
    admitted(streamed(post("/v1/messages", "llm", usage_source::told), dialect::anthropic)),
    in_dialect(post("/v1/messages/count_tokens", "llm", usage_source::none), dialect::anthropic),
    post("/v1/embeddings", "embedding", usage_source::told),
    post("/v1/rerank", "reranker", usage_source::told),
    {.kind = route_kind::admin, .method = "", .path = "/admin/", .label = "/admin", .capability = "", .rest = true},
}};

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
std::string suggest(std::string_view path, std::span<const route> extra) {
  std::string other;
  if (path.substr(0, 7) == "/v1/v1/") other = std::string(path.substr(3));
  else if (path.substr(0, 4) != "/v1/") other = "/v1" + std::string(path);
  const auto leads_to = [&](const route &r) {
    return r.kind != route_kind::admin && (r.path == other || (r.rest && std::string_view(other).substr(0, r.path.size()) == r.path));
  };
  if (!other.empty() && (std::any_of(table.begin(), table.end(), leads_to) || std::any_of(extra.begin(), extra.end(), leads_to)))
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

std::vector<route> extra_rows(std::span<const config::allowed_route> allowed) {
  std::vector<route> rows;
  for (const config::allowed_route &a : allowed) {
    route r = streamed(post(a.path, a.capability, usage_source::told));
    r.engine_path = a.engine_path;
    r.forms = true;
    rows.push_back(r);
  }
  return rows;
}

route_match find_route(std::string_view method, std::string_view path, std::span<const route> extra) {
  route_match match;
  const bool admin = path.substr(0, 6) == "/admin";
  const bool untidy = path.ends_with('/') || path.find("//") != std::string_view::npos;
  std::string tidy;
  if (!admin && untidy) {
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
  if (path.starts_with("/v1/messages")) match.speaks = dialect::anthropic;
  const auto look = [&](const route &r) {
    const bool fits = r.rest ? path.size() > r.path.size() && path.substr(0, r.path.size()) == r.path : path == r.path;
    if (!fits || (r.kind == route_kind::admin && !admin)) return false;
    if (!method_fits(r, method)) {
      match.known_path = true;
      match.allow = r.method == "GET" ? "GET, HEAD" : r.method;
      return false;
    }
    match.found = &r;
    match.speaks = r.speaks;
    if (r.rest) match.argument = r.kind == route_kind::admin ? std::string(path.substr(r.path.size()))
                                                             : percent_decode(path.substr(r.path.size()));
    return true;
  };
  if (std::any_of(table.begin(), table.end(), look) || std::any_of(extra.begin(), extra.end(), look)) return match;
  if (!match.known_path && !admin) match.suggestion = suggest(path, extra);
  return match;
}

}  // namespace hive::gateway
