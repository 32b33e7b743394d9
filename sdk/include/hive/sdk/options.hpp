// Reads the configuration an instance is given: canonical JSON that the host has already validated and filled with its
// defaults, so this only finds members and converts them. It is not a JSON parser for foreign text. A plugin that linked
// a JSON library would bind to the host's copy of it, whatever its version: hence these lines.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hive::sdk {

namespace detail {

constexpr bool json_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// The length of the JSON value at the start of `s`.
constexpr size_t json_length(std::string_view s) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < s.size(); ++i) {
    const char c = s[i];
    if (quoted) {
      if (c == '\\') ++i;
      else if (c == '"' && (quoted = false, depth == 0)) return i + 1;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return i;
      if (--depth == 0) return i + 1;
    } else if (depth == 0 && (c == ',' || c == ':' || json_space(c))) {
      return i;
    }
  }
  return s.size();
}

inline void put_utf8(std::string &out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

inline std::string json_unescape(std::string_view s) {
  std::string out;
  const auto unit = [&](size_t at) {
    uint32_t v = 0;
    if (at + 4 <= s.size()) std::from_chars(s.data() + at, s.data() + at + 4, v, 16);
    return v;
  };
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '\\' || i + 1 == s.size()) {
      out += s[i];
      continue;
    }
    switch (s[++i]) {
      case 'b': out += '\b'; break;
      case 'f': out += '\f'; break;
      case 'n': out += '\n'; break;
      case 'r': out += '\r'; break;
      case 't': out += '\t'; break;
      case 'u': {
        uint32_t c = unit(i + 1);
        i += 4;
        if (c >= 0xD800 && c < 0xDC00 && i + 6 < s.size() && s[i + 1] == '\\' && s[i + 2] == 'u') {
          c = 0x10000 + ((c - 0xD800) << 10) + (unit(i + 3) - 0xDC00);
          i += 6;
        }
        put_utf8(out, c);
        break;
      }
      default: out += s[i];
    }
  }
  return out;
}

}  // namespace detail

// A borrowed JSON value. Members are looked up in the order they stand; a type that does not fit reads as absent.
class options {
 public:
  explicit options(std::string_view json) : json_(json) {
    while (!json_.empty() && detail::json_space(json_.front())) json_.remove_prefix(1);
    while (!json_.empty() && detail::json_space(json_.back())) json_.remove_suffix(1);
  }

  std::string_view json() const { return json_; }
  bool has(std::string_view name) const { return find(name).has_value(); }

  std::optional<options> find(std::string_view name) const {
    std::optional<options> found;
    each_part('{', [&](std::string_view key, std::string_view value) {
      if (!found && detail::json_unescape(key) == name) found = options(value);
    });
    return found;
  }

  // The keys of an object, in order.
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    each_part('{', [&](std::string_view key, std::string_view) { out.push_back(detail::json_unescape(key)); });
    return out;
  }

  double number(std::string_view name, double fallback) const {
    const auto o = find(name);
    double v = fallback;
    return o && o->convert(v) ? v : fallback;
  }
  int64_t integer(std::string_view name, int64_t fallback) const {
    const auto o = find(name);
    if (!o) return fallback;
    int64_t v = fallback;
    if (o->convert(v)) return v;
    double d;  // 1e3, 5.0
    return o->convert(d) ? static_cast<int64_t>(d) : fallback;
  }
  bool boolean(std::string_view name, bool fallback) const {
    const auto o = find(name);
    return o ? o->json_ == "true" || (o->json_ != "false" && fallback) : fallback;
  }
  std::string text(std::string_view name, std::string_view fallback = {}) const {
    const auto o = find(name);
    return o && o->is_text() ? o->as_text() : std::string(fallback);
  }
  // The elements of an array member; empty when there is none.
  std::vector<options> list(std::string_view name) const {
    const auto o = find(name);
    return o ? o->items() : std::vector<options>{};
  }
  std::vector<options> items() const {
    std::vector<options> out;
    each_part('[', [&](std::string_view, std::string_view value) { out.emplace_back(value); });
    return out;
  }

  bool is_text() const { return json_.size() >= 2 && json_.front() == '"'; }
  std::string as_text() const { return is_text() ? detail::json_unescape(json_.substr(1, json_.size() - 2)) : std::string(); }
  std::optional<double> as_number() const {
    double v;
    return convert(v) ? std::optional<double>(v) : std::nullopt;
  }

 private:
  template <class N>
  bool convert(N &v) const {
    const auto r = std::from_chars(json_.data(), json_.data() + json_.size(), v);
    return r.ec == std::errc() && r.ptr == json_.data() + json_.size();
  }

  template <class F>
  void each_part(char open, F &&f) const {
    if (json_.empty() || json_.front() != open) return;
    std::string_view rest = json_.substr(1);
    const auto skip = [&] {
      while (!rest.empty() && (detail::json_space(rest.front()) || rest.front() == ',' || rest.front() == ':')) rest.remove_prefix(1);
    };
    const auto take = [&] {
      skip();
      const std::string_view part = rest.substr(0, detail::json_length(rest));
      rest.remove_prefix(part.size());
      return part;
    };
    for (skip(); !rest.empty() && rest.front() != '}' && rest.front() != ']'; skip()) {
      std::string_view key;
      if (open == '{') {
        key = take();
        key = key.size() >= 2 ? key.substr(1, key.size() - 2) : std::string_view();
      }
      const std::string_view value = take();
      if (value.empty()) return;
      f(key, value);
    }
  }

  std::string_view json_;
};

}  // namespace hive::sdk
