// What the keys inside messages and parts of a prompt hold, in every dialect: OpenAI's chat, completions and responses, Anthropic's
// messages, and what engines take beside them. Pure, any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "gateway/folded_name.hpp"

namespace hive::gateway {

// Where in a request a value stands. A source is what a document or an image is made of.
enum class place : uint8_t { elsewhere, message_list, message, content, tool_calls, source, media };

// What a value is there. Data is text where the type beside it says so.
enum class key_role : uint8_t { none, text, calls, source, media, raw, type, image, data };

inline key_role exact_role(place at, std::string_view k) {
  switch (at) {
    case place::message:
      if (k == "content" || k == "reasoning_content" || k == "reasoning" || k == "refusal") return key_role::text;
      return k == "tool_calls" || k == "function_call" ? key_role::calls : key_role::none;
    case place::content:  // a part, or an item of the responses route
      if (k == "type") return key_role::type;
      if (k == "text" || k == "thinking" || k == "content" || k == "refusal" || k == "output" || k == "arguments" || k == "summary") return key_role::text;
      if (k == "title" || k == "context" || k == "prompt_string") return key_role::text;  // of a document; llama.cpp's prompts with media
      if (k == "source") return key_role::source;
      if (k == "image_url") return key_role::image;
      if (k == "multimodal_data") return key_role::media;
      return k == "input" ? key_role::raw : key_role::none;
    case place::source:
      if (k == "type") return key_role::type;
      if (k == "data") return key_role::data;
      return k == "content" ? key_role::text : key_role::none;
    case place::tool_calls:
      if (k == "function" || k == "custom") return key_role::calls;
      return k == "arguments" || k == "input" ? key_role::text : key_role::none;
    default: return key_role::none;
  }
}

// In whatever spelling: what some engine may read is counted. It may be counted twice then, which hides nothing.
inline key_role role_of(place at, std::string_view key) {
  if (at == place::elsewhere) return key_role::none;
  const key_role role = exact_role(at, key);
  return role == key_role::none && may_fold(key) ? exact_role(at, folded(key)) : role;
}

// The value of a type, a token of JSON, which may be written with escapes. Engines guess a type that is not there by the key that is.
bool is_image_type(std::string_view token);
bool is_text_type(std::string_view token);

// Where the values inside of it stand.
inline place inside(key_role role) {
  switch (role) {
    case key_role::text: return place::content;
    case key_role::calls: return place::tool_calls;
    case key_role::source: return place::source;
    case key_role::media: return place::media;
    default: return place::elsewhere;
  }
}

}  // namespace hive::gateway
