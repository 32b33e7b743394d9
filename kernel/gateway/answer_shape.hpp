// Whether a text is the one JSON object that an answer should be. By its structure alone: what a cut leaves lacks the last brace, and
// what is inside is the client's to judge. Pure, any thread; linear in the text.
#pragma once

#include <cstddef>
#include <string_view>

namespace hive::gateway {

// Bytes of the object that begins with the text's first byte, a brace; 0 when it does not end within the text.
size_t object_length(std::string_view text);

// One whole object with nothing but white space and a BOM around it.
bool is_one_object(std::string_view text);

// The same by the first and the last byte that is no white space: enough where the framing has said that nothing is missing.
bool looks_like_object(std::string_view text);

}  // namespace hive::gateway
