#include "base/json_text.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace hive {

namespace {

bool needs_care(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte > 0x7e || c == '"' || c == '\\';
}

void append_escape(std::string &out, unsigned char byte) {
  static constexpr char hex[] = "0123456789abcdef";
  out += '\\';
  switch (byte) {
    case '"': out += '"'; return;
    case '\\': out += '\\'; return;
    case '\n': out += 'n'; return;
    case '\r': out += 'r'; return;
    case '\t': out += 't'; return;
    default: break;
  }
  out += "u00";
  out += hex[byte >> 4];
  out += hex[byte & 15];
}

}  // namespace

bool is_plain_json(std::string_view text) {
  constexpr uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
  // A borrow or a carry out of a byte marks its neighbour at most where a bad byte is anyway. Adding one finds 0x7f.
  const auto bad = [](uint64_t w) {
    const uint64_t quote = w ^ ('"' * ones), slash = w ^ ('\\' * ones);
    return w | (w + ones) | (w - 0x20 * ones) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash);
  };
  const char *p = text.data();
  size_t left = text.size();
  uint64_t found = 0, word;
  if (left >= sizeof word) {
    for (; left > sizeof word; p += sizeof word, left -= sizeof word) {
      std::memcpy(&word, p, sizeof word);
      found |= bad(word);
    }
    std::memcpy(&word, p + left - sizeof word, sizeof word);  // some bytes of it twice
    return ((found | bad(word)) & tops) == 0;
  }
  word = 0;
  for (; left > 0; --left) word = word << 8 | static_cast<unsigned char>(*p++);
  for (left = sizeof word - text.size(); left > 0; --left) word = word << 8 | ' ';
  return (bad(word) & tops) == 0;
}

size_t utf8_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t n = lead >= 0xf0 && lead <= 0xf4 ? 4 : lead >= 0xe0 && lead < 0xf0 ? 3 : lead >= 0xc2 && lead < 0xe0 ? 2 : 0;
  if (n == 0 || text.size() < n) return 0;
  for (size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f) || (lead == 0xf0 && byte(1) < 0x90) ||
      (lead == 0xf4 && byte(1) > 0x8f))
    return 0;
  return n;
}

void append_json_string(std::string &out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const auto plain = static_cast<size_t>(std::find_if(text.begin(), text.end(), needs_care) - text.begin());
    out.append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) break;
    const size_t n = utf8_sequence(text);
    if (n == 0) out += "\xef\xbf\xbd";
    else if (n > 1) out.append(text.substr(0, n));
    else append_escape(out, static_cast<unsigned char>(text.front()));
    text.remove_prefix(std::max<size_t>(n, 1));
  }
  out += '"';
}

}  // namespace hive
