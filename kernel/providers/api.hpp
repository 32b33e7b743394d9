// The client APIs that a provider can answer, and which provider speaks which. Pure, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace hive::providers {

enum class api : uint8_t {
  chat,         // OpenAI's /v1/chat/completions
  completions,  // /v1/completions
  responses,    // /v1/responses
  messages,     // Anthropic's /v1/messages
};

// By the path of the route table. Nothing else falls back: not count_tokens, no embeddings, no routes of an operator's own.
std::optional<api> api_of(std::string_view path);
std::string_view path_of(api);

// Engines of fallback_provider that can answer this path, translated or as it is; empty = none.
std::span<const std::string_view> engines_for(std::string_view path);

enum class vendor : uint8_t { openai, anthropic };
std::string_view to_string(vendor);

// Which API a request of `asked` reaches that vendor in.
api spoken_by(vendor, api asked);

}  // namespace hive::providers
