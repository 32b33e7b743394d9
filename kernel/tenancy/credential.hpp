// The credential in a request's header fields. Pure, any thread; views borrow from the fields.
#pragma once

#include <span>
#include <string_view>

#include "http/message.hpp"

namespace hive::tenancy {

inline constexpr size_t most_token_bytes = 4096;

struct credential {
  std::string_view token;    // "" = none, or none that could be a key
  bool conflicting = false;  // two that differ: which one counts would be a guess
};

// `Authorization: Bearer KEY` (any case, any white space between) or the bare KEY there, and `x-api-key: KEY`. Another scheme
// (Basic, Digest, ...) counts as a credential that opens nothing.
credential credential_of(std::span<const http::field> fields);

}  // namespace hive::tenancy
