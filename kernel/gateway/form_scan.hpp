// Reads `model` and `stream` out of a multipart/form-data body (audio uploads): what request_scan is to JSON. The body goes to
// the engine as it came. Pure, any thread; linear in the body, whatever it holds.
//
// Rule: the parts are those between CRLF "--" BOUNDARY lines of the header's boundary (RFC 7578, RFC 2046). A field is a part
// whose Content-Disposition is form-data with that name and no filename; `model` must occur exactly once, of 1 to 256 bytes;
// `stream` is on when it says true. The closing boundary must be there.
#pragma once

#include <optional>
#include <string_view>

#include "gateway/request_scan.hpp"

namespace hive::gateway {

bool is_form(std::string_view content_type);
// Fills model and stream. Null when all is well.
std::optional<scan_error> scan_form(std::string_view content_type, std::string_view body, request_scan &out);

}  // namespace hive::gateway
