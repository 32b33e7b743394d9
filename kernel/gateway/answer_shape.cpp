#include "gateway/answer_shape.hpp"

#include "base/text.hpp"

namespace hive::gateway {

namespace {

std::string_view without_margins(std::string_view text) {
  constexpr std::string_view bom = "\xEF\xBB\xBF";
  if (text.starts_with(bom)) text.remove_prefix(bom.size());
  return trim(text);
}

}  // namespace

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

bool is_one_object(std::string_view text) {
  text = without_margins(text);
  return text.starts_with('{') && object_length(text) == text.size();
}

bool looks_like_object(std::string_view text) {
  text = without_margins(text);
  return text.size() >= 2 && text.front() == '{' && text.back() == '}';
}

}  // namespace hive::gateway
