// Text as a JSON string, appended. Pure, any thread.
#pragma once

#include <string>
#include <string_view>

namespace hive {

// With its quotes. Quotes, backslashes and control characters are escaped, each byte that is no UTF-8 becomes U+FFFD. Text
// that needs none of it is copied at once.
void append_json_string(std::string &out, std::string_view text);

// Whether the text is its own JSON form: printable ASCII without quotes and backslashes.
bool is_plain_json(std::string_view text);

// Length of the valid UTF-8 sequence that `text` starts with, 0 when there is none. Requires: not empty.
size_t utf8_sequence(std::string_view text);

}  // namespace hive
