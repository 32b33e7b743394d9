// The error envelope of the client API: {"error":{"code","message","source","type","request_id"}} (docs/http-api.md).
// Code and status go together in one table; messages are free text. Pure, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hive::gateway {

enum class dialect {
  openai,
  anthropic,
  responses,  // OpenAI's, with typed events in a stream
};

struct api_error {
  int status = 500;
  std::string_view code = "backend_error";  // static
  std::string message;
  std::string_view source = "router";       // router | backend; static
  uint64_t retry_after_s = 0;               // 0 = no header
};

// An error with the status that belongs to its code; unknown codes are 500. Every 429 has a Retry-After, of a second where nobody says
// more.
api_error make_error(std::string_view code, std::string message, std::string_view source = "router", uint64_t retry_after_s = 0);
// The router refuses with `code`, too, and knows when asking again makes sense: the later of the two moments is the true one.
void keep_longer_wait(api_error &, std::string_view code, uint64_t retry_after_s);
// OpenAI and Anthropic SDKs choose their exception by it.
std::string_view type_of(int status, dialect);

std::string error_body(const api_error &, dialect, std::string_view request_id);
// The same inside a stream that has begun: one event in the dialect, and nothing after it.
std::string error_event(const api_error &, dialect, std::string_view request_id);

std::string json_quote(std::string_view text);  // invalid UTF-8 is replaced
std::string plain_error_body(std::string_view words);  // {"error":"words"}: of /admin and of the listener for metrics

}  // namespace hive::gateway
