#include "tenancy/credential.hpp"

#include "base/text.hpp"

namespace hive::tenancy {

std::optional<std::string_view> key_in(std::string_view value) {
  value = trim(value);
  if (value.empty()) return std::nullopt;
  const size_t gap = value.find_first_of(" \t");
  if (iequals(value.substr(0, gap), "bearer")) {
    if (gap == std::string_view::npos) return std::nullopt;
    return trim(value.substr(gap));
  }
  return gap == std::string_view::npos ? value : std::string_view();
}

credential credential_of(std::span<const http::field> fields) {
  std::optional<std::string_view> found;
  credential out;
  for (const http::field &f : fields) {
    std::optional<std::string_view> here;
    if (f.name.size() == 13 && iequals(f.name, "authorization")) here = key_in(f.value);
    else if (f.name.size() == 9 && iequals(f.name, "x-api-key")) here = trim(f.value).empty() ? std::nullopt : std::optional(trim(f.value));
    if (!here) continue;
    if (found && *found != *here) out.conflicting = true;
    found = here;
  }
  if (found && found->size() <= most_token_bytes) out.token = *found;
  return out;
}

}  // namespace hive::tenancy
