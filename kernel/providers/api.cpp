#include "providers/api.hpp"

#include <array>

namespace hive::providers {

namespace {
constexpr std::array<std::string_view, 4> paths = {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"};
constexpr std::array<std::string_view, 2> engines = {"openai", "anthropic"};
}  // namespace

std::optional<api> api_of(std::string_view path) {
  for (size_t i = 0; i < paths.size(); ++i)
    if (paths[i] == path) return static_cast<api>(i);
  return std::nullopt;
}

std::string_view path_of(api a) { return paths[static_cast<size_t>(a)]; }

std::string_view to_string(vendor v) { return engines[static_cast<size_t>(v)]; }

std::span<const std::string_view> engines_for(std::string_view path) {
  const auto asked = api_of(path);
  if (!asked) return {};
  const bool translated = *asked == api::chat || *asked == api::messages;
  return std::span(engines).first(translated ? 2 : 1);
}

api spoken_by(vendor v, api asked) {
  if (v == vendor::anthropic) return api::messages;
  return asked == api::messages ? api::chat : asked;
}

}  // namespace hive::providers
