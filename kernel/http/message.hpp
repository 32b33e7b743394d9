// The parts of an HTTP message that cross rooms. Views are borrowed from the connection's head buffer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hive::http {

struct field {
  std::string_view name;  // as received
  std::string_view value;
};

// The first field of that name (ASCII case folded), or null.
const field *find_field(std::span<const field> fields, std::string_view name);

// Whether a value of Content-Type says JSON: application/json or TYPE/SUBTYPE+json, with or without parameters.
bool is_json(std::string_view content_type);

// Appends a field's value as it may stand in a head: what would end its line becomes a blank.
void append_field_value(std::string &out, std::string_view value);

struct request_head {
  std::string_view method;
  std::string_view target;  // origin form, as received
  std::string_view path;    // target up to '?', not decoded
  std::string_view query;   // after '?', without it
  int version = 11;         // 10 or 11
  bool keep_alive = true;
  bool chunked = false;
  bool expect_continue = false;
  std::optional<uint64_t> content_length;
  std::span<const field> fields;
};

struct response_head {
  int status = 200;
  std::span<const field> fields;  // no Content-Length, Transfer-Encoding, Connection, Date: the server writes those; what has no
                                  // token for a name is left out
  bool until_close = false;       // of an answer that was received: nothing but the connection's end ends its body
  std::string_view date = {};     // likewise: its Date, from which a date in Retry-After counts
};

// A body, held once and shared by everyone who still needs it. Its capacity exceeds its size by at least 64 bytes, so
// that simdjson may read past the end.
using body_ptr = std::shared_ptr<const std::string>;
inline constexpr size_t body_padding = 64;

// The reason phrase of RFC 9110, or "Status".
std::string_view reason_of(int status);

}  // namespace hive::http
