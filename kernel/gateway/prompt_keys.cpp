#include "gateway/prompt_keys.hpp"

#include <charconv>
#include <string>

namespace hive::gateway {

namespace {

// A string token without its quotes, \u escapes below 0x80 and simple ones resolved; other escapes stay as they are.
std::string unescaped_ascii(std::string_view token) {
  std::string out;
  for (size_t i = 1; i + 1 < token.size(); ++i) {
    if (token[i] != '\\') {
      out += token[i];
      continue;
    }
    unsigned code = 0x80;
    if (token[i + 1] == 'u' && i + 6 < token.size()) std::from_chars(token.data() + i + 2, token.data() + i + 6, code, 16);
    if (code < 0x80) {
      out += static_cast<char>(code);
      i += 5;
    } else {
      out += token[++i];
    }
  }
  return out;
}

bool says(std::string_view token, std::string_view name) {
  const bool quoted = token.size() == name.size() + 2 && token.front() == '"' && token.back() == '"';
  return quoted && token.substr(1, name.size()) == name;
}

}  // namespace

bool is_image_type(std::string_view token) {
  if (token.find('\\') == std::string_view::npos) return says(token, "image_url") || says(token, "image") || says(token, "input_image");
  const std::string name = unescaped_ascii(token);
  return name == "image_url" || name == "image" || name == "input_image";
}

bool is_text_type(std::string_view token) {
  return token.find('\\') == std::string_view::npos ? says(token, "text") : unescaped_ascii(token) == "text";
}

}  // namespace hive::gateway
