// The credential in a request's header fields. Pure, any thread; views borrow from the fields.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "http/message.hpp"

namespace hive::tenancy {

inline constexpr size_t most_token_bytes = 4096;

struct credential {
  std::string_view token;    // "" = none, or none that could be a key
  bool conflicting = false;  // two that differ: which one counts would be a guess
};

// The key in the value of an Authorization field: `Bearer KEY` (any case, any white space between) or the bare KEY; nothing when
// the value is blank or the scheme alone, "" for another scheme.
std::optional<std::string_view> key_in(std::string_view value);

// `Authorization: Bearer KEY` (any case, any white space between) or the bare KEY there, and `x-api-key: KEY`. Another scheme
// (Basic, Digest, ...) counts as a credential that opens nothing.
credential credential_of(std::span<const http::field> fields);

}  // namespace hive::tenancy
