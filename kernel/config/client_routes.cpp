#include "config/client_routes.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace hive::config {

namespace {

constexpr std::array<std::string_view, 7> built_in = {
    "/v1/chat/completions", "/v1/completions",           "/v1/embeddings", "/v1/rerank",
    "/v1/messages",         "/v1/messages/count_tokens", "/v1/responses"};

struct known_route {
  std::string_view name, engine_path, capability;
};

// vLLM, SGLang and llama.cpp serve some of these outside /v1.
constexpr std::array<known_route, 8> known = {{
    {"audio/speech", "/v1/audio/speech", "llm"},
    {"audio/transcriptions", "/v1/audio/transcriptions", "llm"},
    {"audio/translations", "/v1/audio/translations", "llm"},
    {"classify", "/classify", "any"},
    {"detokenize", "/detokenize", "any"},
    {"pooling", "/pooling", "any"},
    {"score", "/v1/score", "reranker"},
    {"tokenize", "/tokenize", "any"},
}};

// What engines call their control routes begins like this.
constexpr std::array<std::string_view, 50> control_words = {
    "abort", "activate", "add", "admin", "api", "begin", "cancel", "close", "collective", "config", "continue",
    "debug", "delete", "destroy", "files", "fine_tun", "flush", "freeze", "get", "health", "init", "internal", "is_",
    "kill", "load", "lora", "metrics", "models", "pause", "ping", "profile", "props", "release", "remove", "reset",
    "restart", "resume", "scale", "server", "set", "shutdown", "sleep", "slots", "start", "stop", "unload", "unpause",
    "update", "version", "wake"};

bool is_control(std::string_view segment) {
  const std::string word = lower(segment);
  const auto starts = [&](std::string_view w) { return word.starts_with(w); };
  return std::any_of(control_words.begin(), control_words.end(), starts);
}

status check_name(std::string_view name) {
  const std::string quoted = "\"" + std::string(name.substr(0, 128)) + "\"";
  const auto wrong = [&] {
    return fail(errc::invalid, quoted + " is not the path of a route after /v1/; write one like audio/transcriptions, of letters, digits, _, - and .");
  };
  if (name.empty() || name.size() > 128) return wrong();
  for (size_t from = 0; from <= name.size();) {
    const size_t slash = std::min(name.find('/', from), name.size());
    const std::string_view segment = name.substr(from, slash - from);
    const bool text = std::all_of(segment.begin(), segment.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    });
    if (segment.empty() || !text || segment.find_first_not_of('.') == std::string_view::npos) return wrong();
    if (is_control(segment))
      return fail(errc::invalid, quoted + " cannot be allowed: \"" + std::string(segment) +
                                 "\" names what controls an engine or the router, not a request of a client");
    from = slash + 1;
  }
  return {};
}

}  // namespace

std::span<const std::string_view> built_in_engine_paths() { return built_in; }

std::string known_route_names() {
  std::string out;
  for (const known_route &k : known) (out += out.empty() ? "" : ", ") += k.name;
  return out;
}

result<allowed_route> parse_allowed_route(std::string_view text) {
  const size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  if (const status s = check_name(name); !s) return s;
  allowed_route out;
  out.path = "/v1/" + std::string(name);
  if (std::find(built_in.begin(), built_in.end(), out.path) != built_in.end())
    return fail(errc::invalid, out.path + " is served anyway; take it out");
  const auto it = std::find_if(known.begin(), known.end(), [&](const known_route &k) { return k.name == name; });
  out.engine_path = it == known.end() ? out.path : std::string(it->engine_path);
  if (equals != std::string_view::npos) {
    out.capability = text.substr(equals + 1);
    const auto is = [&](std::string_view c) { return out.capability == c; };
    if (!is("llm") && !is("embedding") && !is("reranker") && !is("any"))
      return fail(errc::invalid, "\"" + out.capability + "\" is no capability; llm, embedding, reranker or any is right");
  } else if (it != known.end()) {
    out.capability = it->capability;
  } else {
    return fail(errc::invalid, "the route \"" + std::string(name) + "\" is not known; write it with what a model must do to serve it, like " +
                                   std::string(name) + "=llm. Known are " + known_route_names());
  }
  return out;
}

status is_allowed_route(const std::string &text) { return parse_allowed_route(text).why(); }

bool is_built_in_engine_path(std::string_view path) {
  return std::find(built_in.begin(), built_in.end(), path.substr(0, path.find('?'))) != built_in.end();
}

bool engine_path_allowed(std::string_view path, std::span<const allowed_route> told) {
  path = path.substr(0, path.find('?'));
  return is_built_in_engine_path(path) ||
         std::any_of(known.begin(), known.end(), [&](const known_route &k) { return k.engine_path == path; }) ||
         std::any_of(told.begin(), told.end(), [&](const allowed_route &r) { return r.engine_path == path; });
}

}  // namespace hive::config
