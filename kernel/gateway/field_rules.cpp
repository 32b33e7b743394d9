#include "gateway/field_rules.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace hive::gateway {

namespace {

constexpr std::array<std::string_view, 23> request_fields_kept_back = {
    "authorization", "x-api-key",  "api-key",          "cookie",            "connection",      "keep-alive",
    "proxy-connection", "transfer-encoding", "te",     "trailer",          "upgrade",           "host",            "content-length",
    "expect",        "accept-encoding", "x-request-id", "proxy-authorization", "proxy-authenticate", "forwarded",
    "x-forwarded-for", "x-real-ip", "x-forwarded-host", "http2-settings"};

// Those of the connection, and those with which the router's own host would speak to the client: an engine opens no session at it, asks
// for no key there, sends nobody elsewhere and says nothing of how the host is to be reached.
constexpr std::array<std::string_view, 19> answer_fields_kept_back = {
    "connection", "keep-alive",     "proxy-connection", "transfer-encoding", "te",           "trailer",
    "upgrade",    "content-length", "server",           "date",              "x-request-id", "proxy-authenticate",
    "set-cookie", "set-cookie2",    "www-authenticate", "location",          "alt-svc",      "strict-transport-security",
    "clear-site-data"};
constexpr std::array<std::string_view, 3> answer_prefixes_kept_back = {"access-control-", "x-ratelimit-", "x-hivenet-"};

bool listed(std::string_view name, std::span<const std::string_view> list) {
  return std::any_of(list.begin(), list.end(), [&](std::string_view n) { return n.size() == name.size() && iequals(n, name); });
}

bool starts_with_folded(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && iequals(text.substr(0, prefix.size()), prefix);
}

bool named_in_connection(std::string_view name, std::span<const http::field> fields) {
  for (const http::field &f : fields) {
    if (f.name.size() != 10 || !iequals(f.name, "connection")) continue;
    for (const std::string &token : split_trimmed(f.value, ','))
      if (iequals(token, name)) return true;
  }
  return false;
}

}  // namespace

bool goes_to_engine(std::string_view name, std::span<const http::field> client_fields) {
  return !listed(name, request_fields_kept_back) && !named_in_connection(name, client_fields);
}

bool goes_to_client(std::string_view name) {
  return !listed(name, answer_fields_kept_back) &&
         std::none_of(answer_prefixes_kept_back.begin(), answer_prefixes_kept_back.end(),
                      [&](std::string_view prefix) { return starts_with_folded(name, prefix); });
}

}  // namespace hive::gateway
