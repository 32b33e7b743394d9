// The engine paths that a client's request may be sent to: those of the built-in routes, and those of routes that an operator
// allows by name (--allow-route). Router and agent both read the rule here, so neither reaches what the other would not.
// Engine control paths (adapters, sleep, weights, metrics) are in neither and cannot be allowed. Pure, any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace hive::config {

struct allowed_route {
  std::string path;         // of clients: /v1/NAME
  std::string engine_path;  // where the engine has it; for most the same
  std::string capability;   // llm, embedding, reranker, or any
  bool operator==(const allowed_route &) const = default;
};

// Engine paths of the built-in routes.
std::span<const std::string_view> built_in_engine_paths();
bool is_built_in_engine_path(std::string_view path);  // the query is not part of it

// NAME or NAME=CAPABILITY, NAME being the path after /v1/. A name that this program knows needs no capability; any other needs
// one. Refused: what is no path, a built-in route, an engine's control path.
result<allowed_route> parse_allowed_route(std::string_view text);
status is_allowed_route(const std::string &text);  // the same as a check of settings

// Whether an agent may ask its engine for this path: a built-in one, that of a known route, or one it was told to allow.
// The query is not part of it.
bool engine_path_allowed(std::string_view path, std::span<const allowed_route> told);

// The known names, for help and messages: "audio/speech, audio/transcriptions, ...".
std::string known_route_names();

}  // namespace hive::config
