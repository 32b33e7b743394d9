#include "gateway/field_rules.hpp"

#include <gtest/gtest.h>

#include "http/message.hpp"

namespace hive::gateway {
namespace {

TEST(field_rules, credentials_and_hop_by_hop_fields_stop_here) {
  const http::field client[] = {{"Connection", "close"}, {"connection", "X-Other, X-Hop"}, {"X-Hop", "1"}};
  for (const char *name : {"Authorization", "x-API-key", "Api-Key", "COOKIE", "Proxy-Authorization", "Connection", "Transfer-Encoding", "Host",
                           "Content-Length", "Accept-Encoding", "X-Request-Id", "X-Forwarded-For", "x-forwarded-proto", "X-Forwarded-Port", "Proxy-Connection",
                           "proxy-anything",
                           "X-Real-IP", "Forwarded", "x-hop"})
    EXPECT_FALSE(goes_to_engine(name, client)) << name;
  for (const char *name : {"Content-Type", "anthropic-version", "traceparent", "X-OpenWebUI-User-Id", "User-Agent"})
    EXPECT_TRUE(goes_to_engine(name, client)) << name;
  for (const char *name : {"Server", "date", "Content-Length", "Access-Control-Allow-Origin", "X-RateLimit-Limit", "x-request-id",
                           "Set-Cookie", "set-cookie2", "WWW-Authenticate", "Location", "Strict-Transport-Security", "Alt-Svc", "Clear-Site-Data",
                           "X-Hivenet-Agent", "x-hivenet-anything", "X-Accel-Redirect", "x-accel-buffering", "X-Sendfile", "X-Reproxy-URL", "Refresh",
                           "Content-Security-Policy", "Proxy-Authenticate"})
    EXPECT_FALSE(goes_to_client(name)) << name;
  for (const char *name : {"Content-Type", "Cache-Control", "openai-processing-ms", "X-Accelerator", "Retry-After", "Content-Location"})
    EXPECT_TRUE(goes_to_client(name)) << name;
}

}  // namespace
}  // namespace hive::gateway
