// Points in time as people write them. Pure, any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.hpp"

namespace hive::tenancy {

// An RFC 3339 instant, "2027-01-31T12:00:00Z" or with an offset and a fraction, in Unix milliseconds; years 1970 to 9999. What is
// finer than a millisecond is cut off.
result<uint64_t> parse_instant(std::string_view text);

}  // namespace hive::tenancy
