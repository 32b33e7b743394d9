// Credentials in a request's fields: two that differ are never resolved by order, and what is found stands in a field.
#include <algorithm>
#include <vector>

#include "base/text.hpp"
#include "fuzz.hpp"
#include "tenancy/credential.hpp"

using namespace hive;
using fuzz::must;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static constexpr std::string_view names[] = {"Authorization", "authorization", "x-api-key", "X-API-Key", "Cookie", "x-api-keys"};
  fuzz::input in(data, size);
  std::vector<http::field> fields;
  while (!in.empty() && fields.size() < 8) {
    const uint8_t how = in.byte();
    fields.push_back({names[how % std::size(names)], in.take(how >> 3)});
  }
  const auto found = tenancy::credential_of(fields);
  must(found.token.size() <= tenancy::most_token_bytes, "bounded token");
  must(trim(found.token) == found.token, "no white space around it");
  const bool stands = std::any_of(fields.begin(), fields.end(), [&](const http::field &f) {
    return f.name.size() != 6 && f.name.size() != 10 && f.value.find(found.token) != std::string_view::npos;
  });
  must(found.token.empty() || stands, "it stands in a field of its own");
  std::reverse(fields.begin(), fields.end());
  const auto reversed = tenancy::credential_of(fields);
  must(found.conflicting == reversed.conflicting, "a conflict is one in any order");
  must(found.conflicting || found.token == reversed.token, "without a conflict the order does not matter");
  return 0;
}
