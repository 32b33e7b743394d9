#include "admin/explain_query.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/text.hpp"
#include "gateway/error.hpp"
#include "gateway/routes.hpp"

namespace hive::admin {

namespace {

constexpr size_t most_owner_bytes = 200;   // docs/keys.md
constexpr size_t most_told_bytes = 256;
constexpr int32_t most_told_priority = 1000;

// Such that JSON can hold it: bytes that are no UTF-8 do not come back.
bool is_utf8(const std::string &value) { return boost::json::parse(gateway::json_quote(value)).get_string() == std::string_view(value); }

bool holds_control(std::string_view value) {
  return std::ranges::any_of(value, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

}  // namespace

std::string explain_query::read(std::string_view query) {
  for (const std::string &part : split_trimmed(query, '&')) {
    if (part.empty()) continue;
    const size_t at = part.find('=');
    const std::string name = part.substr(0, at);
    std::string value = at == std::string::npos ? "" : gateway::percent_decode(std::string_view(part).substr(at + 1));
    if (name != "route" && name != "tenant" && name != "session" && name != "priority")
      return "unknown parameter '" + name + "'; there are route, tenant, session, priority";
    const size_t most = name == "tenant" ? most_owner_bytes : most_told_bytes;
    if (value.size() > most || !is_utf8(value)) return name + " must be UTF-8 of at most " + std::to_string(most) + " bytes";
    if (name == "priority") {
      int32_t told = 0;
      const auto [end, bad] = std::from_chars(value.data(), value.data() + value.size(), told);
      if (bad != std::errc() || end != value.data() + value.size() || told < -most_told_priority || told > most_told_priority)
        return "priority must be a whole number between -1000 and 1000";
      priority = told;
    } else if (name == "tenant") {
      if (holds_control(value)) return "tenant may not hold a control character";
      tenant = std::move(value);
    } else if (name == "session") {
      session = std::move(value);
    } else {
      route = std::move(value);
    }
  }
  return {};
}

}  // namespace hive::admin
