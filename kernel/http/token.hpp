// What may stand in a head before its values. A text from elsewhere that is something else could end its line there and begin one of
// its own. Pure, any thread.
#pragma once

#include <array>
#include <string_view>

namespace hive::http {

inline constexpr std::array<bool, 256> token_bytes = [] {
  constexpr std::string_view marks = "!#$%&'*+-.^_`|~";
  std::array<bool, 256> in{};
  for (unsigned c = '0'; c <= '9'; ++c) in[c] = true;
  for (unsigned c = 'a'; c <= 'z'; ++c) in[c] = in[c - 'a' + 'A'] = true;
  for (const char c : marks) in[static_cast<unsigned char>(c)] = true;
  return in;
}();

// A field's name, or a method (RFC 9110 section 5.6.2).
constexpr bool is_token(std::string_view text) {
  for (const char c : text)
    if (!token_bytes[static_cast<unsigned char>(c)]) return false;
  return !text.empty();
}

// Path and query of a request's first line: no blank and no control character.
constexpr bool is_target(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f) return false;
  return !text.empty();
}

}  // namespace hive::http
