// RFC 8259 by itself: what a text is, decided by rules written once more and nothing of ours or simdjson's. Slow and plain.
// One thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace hive::fuzz {

class json_oracle {
 public:
  explicit json_oracle(std::string_view text) : text_(text) {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") at_ = 3;
    blank();
    object = peek() == '{';
    valid = utf8(text_) && value(0);
    blank();
    valid = valid && at_ == text_.size();
  }

  bool valid = false;          // one JSON value, a BOM and white space around it allowed
  bool object = false;         // and it is an object
  bool lone_surrogate = false; // some \u escape is half a pair: JSON's grammar allows it, UTF-8 cannot hold it
  int depth = 0;

 private:
  static constexpr int most = 1000;

  int peek() const { return at_ < text_.size() ? static_cast<unsigned char>(text_[at_]) : -1; }
  bool take(char c) {
    if (peek() != static_cast<unsigned char>(c)) return false;
    ++at_;
    return true;
  }
  void blank() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
  }
  bool word(std::string_view w) {
    if (text_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }
  bool value(int level) {
    if (level > depth) depth = level;
    if (level > most) return false;
    switch (peek()) {
      case '{': return members(level);
      case '[': return items(level);
      case '"': return string();
      case 't': return word("true");
      case 'f': return word("false");
      case 'n': return word("null");
      default: return number();
    }
  }
  bool members(int level) {
    ++at_;
    blank();
    if (take('}')) return true;
    do {
      blank();
      if (peek() != '"' || !string()) return false;
      blank();
      if (!take(':')) return false;
      blank();
      if (!value(level + 1)) return false;
      blank();
    } while (take(','));
    return take('}');
  }
  bool items(int level) {
    ++at_;
    blank();
    if (take(']')) return true;
    do {
      blank();
      if (!value(level + 1)) return false;
      blank();
    } while (take(','));
    return take(']');
  }
  int hex4() {
    int v = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const int c = peek();
      const int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
      if (d < 0) return -1;
      v = v * 16 + d;
    }
    return v;
  }
  bool string() {
    ++at_;
    while (true) {
      const int c = peek();
      if (c < 0x20) return false;
      ++at_;
      if (c == '"') return true;
      if (c != '\\') continue;
      const int escape = peek();
      ++at_;
      if (escape != 'u') {
        if (escape < 0 || std::string_view("\"\\/bfnrt").find(static_cast<char>(escape)) == std::string_view::npos) return false;
        continue;
      }
      const int unit = hex4();
      if (unit < 0) return false;
      if (unit < 0xd800 || unit >= 0xe000) continue;
      const size_t after = at_;
      if (unit < 0xdc00 && take('\\') && take('u')) {
        const int low = hex4();
        if (low >= 0xdc00 && low < 0xe000) continue;
      }
      at_ = after;
      lone_surrogate = true;
    }
  }
  bool digits() {
    const size_t from = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ > from;
  }
  bool number() {
    take('-');
    if (!take('0') && !digits()) return false;
    if (take('.') && !digits()) return false;
    if (peek() != 'e' && peek() != 'E') return true;
    ++at_;
    if (!take('+')) take('-');
    return digits();
  }
  // Unicode 15, table 3-7.
  static bool utf8(std::string_view s) {
    for (size_t i = 0; i < s.size();) {
      const auto byte = [&](size_t k) { return i + k < s.size() ? static_cast<unsigned char>(s[i + k]) : 0u; };
      const auto tail = [&](size_t k) { return byte(k) >= 0x80 && byte(k) < 0xc0; };
      const unsigned c = byte(0);
      if (c < 0x80) i += 1;
      else if (c >= 0xc2 && c < 0xe0 && tail(1)) i += 2;
      else if (c >= 0xe0 && c < 0xf0 && tail(1) && tail(2) && (c != 0xe0 || byte(1) >= 0xa0) && (c != 0xed || byte(1) < 0xa0)) i += 3;
      else if (c >= 0xf0 && c < 0xf5 && tail(1) && tail(2) && tail(3) && (c != 0xf0 || byte(1) >= 0x90) && (c != 0xf4 || byte(1) < 0x90)) i += 4;
      else return false;
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace hive::fuzz
