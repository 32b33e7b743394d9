#include "base/json_text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace hive {
namespace {

// The words of eight bytes are looked at together, the last of them twice: a bad byte must be found at every place, whatever
// stands beside it.
TEST(json_text, is_plain_exactly_without_what_a_json_string_escapes) {
  for (const char beside : {'a', ' ', '!', '~', '#', '[', ']'}) {
    for (size_t size = 0; size <= 26; ++size) {
      std::string text(size, beside);
      ASSERT_TRUE(is_plain_json(text)) << "size " << size << " of '" << beside << "'";
      for (size_t at = 0; at < size; ++at) {
        for (int byte = 0; byte < 256; ++byte) {
          text[at] = static_cast<char>(byte);
          const bool plain = byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
          ASSERT_EQ(is_plain_json(text), plain) << "byte " << byte << " at " << at << " of " << size;
        }
        text[at] = beside;
      }
    }
  }
}

}  // namespace
}  // namespace hive
