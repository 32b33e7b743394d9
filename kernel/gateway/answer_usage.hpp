// Tokens of an answer that was too large to be held whole. Pure, any thread; never judges the answer.
#pragma once

#include <string_view>

#include "http/sse_scanner.hpp"

namespace hive::gateway {

// The usage object of a JSON answer of which only the first or the last bytes are at hand. Engines write it behind everything
// else or before it, at the top level; what stands inside a string is escaped and so never taken for it.
http::token_usage usage_of_part(std::string_view part);

}  // namespace hive::gateway
