#include "gateway/answer_usage.hpp"

#include <string>

#include "gateway/answer_shape.hpp"

namespace hive::gateway {

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
