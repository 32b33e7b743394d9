// Text that crosses the ABI, for the host's side. Pure, any thread; a view lives as long as what lent the text.
#pragma once

#include <string>
#include <string_view>

#include "hive/abi/base.h"

namespace hive::plugins {

// A null pointer is the empty text.
inline std::string_view view(hive_str s) { return s.ptr == nullptr ? std::string_view() : std::string_view(s.ptr, s.len); }
inline std::string text_of(hive_str s) { return std::string(view(s)); }

}  // namespace hive::plugins
