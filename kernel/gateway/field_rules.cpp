#include "gateway/field_rules.hpp"

#include <algorithm>
#include <span>

#include "base/text.hpp"

namespace hive::gateway {

namespace {

constexpr std::string_view request_fields_kept_back[] = {
    "authorization", "x-api-key", "api-key",        "cookie", "connection",      "keep-alive",   "transfer-encoding", "te",        "trailer",
    "upgrade",       "host",      "content-length", "expect", "accept-encoding", "x-request-id", "forwarded",         "x-real-ip", "http2-settings"};
constexpr std::string_view request_prefixes_kept_back[] = {"proxy-", "x-forwarded-"};

// Those of the connection, and those with which the router's own host would speak to the client, or to a proxy in front: an engine opens
// no session at it, asks for no key there, sends nobody elsewhere, says nothing of how the host is to be reached, and has no proxy
// answer with a file or from another address.
constexpr std::string_view answer_fields_kept_back[] = {
    "connection", "keep-alive",  "transfer-encoding", "te",       "trailer", "upgrade",     "content-length",
    "server",     "date",        "x-request-id",      "location", "refresh", "alt-svc",     "strict-transport-security",
    "set-cookie", "set-cookie2", "www-authenticate",  "clear-site-data",     "x-sendfile",  "x-lighttpd-send-file",
    "content-security-policy",   "content-security-policy-report-only"};
constexpr std::string_view answer_prefixes_kept_back[] = {"proxy-", "access-control-", "x-ratelimit-", "x-hivenet-", "x-accel-", "x-reproxy-"};

bool listed(std::string_view name, std::span<const std::string_view> list) {
  return std::any_of(list.begin(), list.end(), [&](std::string_view n) { return n.size() == name.size() && iequals(n, name); });
}

bool begins(std::string_view name, std::span<const std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view p) { return iequals(name.substr(0, p.size()), p); });
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
  return !listed(name, request_fields_kept_back) && !begins(name, request_prefixes_kept_back) && !named_in_connection(name, client_fields);
}

bool goes_to_client(std::string_view name) {
  return !listed(name, answer_fields_kept_back) && !begins(name, answer_prefixes_kept_back);
}

}  // namespace hive::gateway
