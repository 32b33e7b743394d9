// Reads `model` and `stream` out of a multipart/form-data body (audio uploads): what request_scan is to JSON. The body goes to
// the engine as it came. Pure, any thread; linear in the body, whatever it holds.
//
// Rule: the parts are those between CRLF "--" BOUNDARY lines of the header's boundary (RFC 7578, RFC 2046). A field is a part
// whose Content-Disposition is form-data with that name and no filename; `model` must occur exactly once, of 1 to 256 bytes;
// `stream` is on when it says true. The closing boundary must be there.
//
// Readers of forms differ: where a quoted text ends, which of two names counts, what a line end is. A form that another reader could
// find another model in is refused.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "gateway/request_scan.hpp"
#include "http/message.hpp"

namespace hive::gateway {

bool is_form(std::string_view content_type);
// Fills model and stream. Null when all is well.
std::optional<scan_error> scan_form(std::string_view content_type, std::string_view body, request_scan &out);

// Of a request on a route that takes forms, whatever its body is: where an engine could find a model that is not read here. A second
// Content-Type; a query string that names one (Go's FormValue reads both); a body that is also application/x-www-form-urlencoded.
std::optional<scan_error> read_otherwise(std::span<const http::field>, std::string_view query, std::string_view body);

}  // namespace hive::gateway
