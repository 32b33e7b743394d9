// What the keys inside messages and parts of a prompt hold, in every dialect: OpenAI's chat, completions and responses, Anthropic's
// messages, and what engines take beside them. Pure, any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "gateway/folded_name.hpp"

namespace hive::gateway {

// Where in a request a value stands.
enum class place : uint8_t { elsewhere, message_list, message, content, tool_calls };

// What a value is there.
enum class key_role : uint8_t { none, text, calls, raw, type };

inline key_role exact_role(place at, std::string_view k) {
  switch (at) {
    case place::message:
      if (k == "content" || k == "reasoning_content" || k == "reasoning") return key_role::text;
      return k == "tool_calls" ? key_role::calls : key_role::none;
    case place::content:  // a part, or an item of the responses route
      if (k == "text" || k == "thinking" || k == "content" || k == "output" || k == "arguments" || k == "summary") return key_role::text;
      if (k == "type") return key_role::type;
      return k == "input" ? key_role::raw : key_role::none;
    case place::tool_calls:
      if (k == "function") return key_role::calls;
      return k == "arguments" ? key_role::text : key_role::none;
    default: return key_role::none;
  }
}

// In whatever spelling: what some engine may read is counted. It may be counted twice then, which hides nothing.
inline key_role role_of(place at, std::string_view key) {
  if (at == place::elsewhere) return key_role::none;
  const key_role role = exact_role(at, key);
  return role == key_role::none && may_fold(key) ? exact_role(at, folded(key)) : role;
}

}  // namespace hive::gateway
