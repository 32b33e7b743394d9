// Paths of requests against the route table, the security boundary: nothing near a route is the route.
#include <algorithm>

#include "fuzz.hpp"
#include "gateway/routes.hpp"

using namespace hive;
using fuzz::must;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::input in(data, size);
  static constexpr const char *methods[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "get", "X"};
  const std::string method = methods[in.byte() % 8];
  const fuzz::exact_copy path(in.rest());
  const std::string_view text = path.text();

  const std::string decoded = gateway::percent_decode(text);
  must(decoded.size() <= text.size(), "decoding never grows");
  must(text.find('%') != std::string_view::npos || decoded == text, "no escape, no change");

  const gateway::route_match m = gateway::find_route(method, text);
  must(m.argument.size() <= text.size(), "bounded argument");
  if (m.found) {
    const auto table = gateway::route_table();
    must(m.found >= table.data() && m.found < table.data() + table.size(), "a row of the table");
    must(!m.known_path || m.suggestion.empty(), "found is not suggested");
    must(m.found->rest || m.argument.empty(), "only a prefix route has an argument");
    if (m.found->kind == gateway::route_kind::admin) {
      must(text.starts_with("/admin/") && text.substr(7) == m.argument, "nothing is forgiven under /admin");
    } else {
      must(!text.starts_with("/admin"), "no path under /admin is anything else");
      // Without slashes path and route are the same text, byte for byte, up to the argument.
      std::string plain, wanted;
      std::remove_copy(text.begin(), text.end(), std::back_inserter(plain), '/');
      const std::string_view fixed = m.found->path;
      std::remove_copy(fixed.begin(), fixed.end(), std::back_inserter(wanted), '/');
      must(m.found->rest ? plain.starts_with(wanted) : plain == wanted, "slashes are all that is forgiven");
    }
  } else if (!m.suggestion.empty()) {
    const bool real = std::any_of(std::begin(methods), std::end(methods),
                                  [&](const char *any) { return gateway::find_route(any, m.suggestion).found != nullptr; });
    must(real, "what is suggested exists");
  }
  must(m.found || !m.known_path || !m.allow.empty(), "405 says what would be taken");
  return 0;
}
