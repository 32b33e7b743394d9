#include "gateway/answer_usage.hpp"

#include <string>

namespace hive::gateway {

namespace {

// Of the object that starts at its brace, or 0 when it does not end within the text.
size_t object_length(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      else if (c == '"') quoted = false;
      continue;
    }
    if (c == '"') quoted = true;
    else if (c == '{') ++depth;
    else if (c == '}' && --depth == 0) return i + 1;
  }
  return 0;
}

}  // namespace

http::token_usage usage_of_part(std::string_view part) {
  constexpr std::string_view name = "\"usage\"";
  constexpr std::string_view blank = " \t\r\n";
  for (size_t at = part.rfind(name); at != std::string_view::npos; at = at == 0 ? std::string_view::npos : part.rfind(name, at - 1)) {
    if (at > 0 && part[at - 1] == '\\') continue;
    size_t next = part.find_first_not_of(blank, at + name.size());
    if (next == std::string_view::npos || part[next] != ':') continue;
    next = part.find_first_not_of(blank, next + 1);
    if (next == std::string_view::npos || part[next] != '{') continue;
    const size_t length = object_length(part.substr(next));
    if (length == 0) continue;
    std::string whole = "{\"usage\":";
    whole += part.substr(next, length);
    whole += '}';
    if (const auto found = http::usage_of_answer(whole); found.present) return found;
  }
  return {};
}

}  // namespace hive::gateway
