// The structural scan of event_json.hpp: one pass, no tree, nothing copied. It reads complete JSON, so that no broken event
// tells anything a parser would not have believed.
#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/hex_digit.hpp"
#include "http/event_json.hpp"

namespace hive::http {

namespace {

constexpr uint64_t ones = 0x0101010101010101u;
constexpr uint64_t high_bits = 0x80 * ones;
constexpr int max_depth = 32;  // of recursion; deeper text is the parser's

// What a value means to us, by the object it stands in and its key there. One a key, so that a bit each tells repeated keys.
enum class role : uint8_t {
  none, choices, choice, finish, delta, calls, call, function_call, function,
  text, content, reasoning, reasoning_content, refusal, arguments,   // texts of choices
  typed_text, thinking, partial_json,                                // texts of typed events
  type, object, error, meta, typed_delta, typed_stop, usage, usage_field, usage_details, cached,
  message, response, content_block, item                             // parts of typed events
};
static_assert(static_cast<unsigned>(role::item) < 32);

bool is_text(role r) { return r >= role::text && r <= role::arguments; }
bool is_typed_text(role r) { return r >= role::typed_text && r <= role::partial_json; }
bool is_part(role r) { return r >= role::message; }

enum class place : uint8_t { elsewhere, top, choice, delta, call, function, typed_delta, usage, usage_details };

place inside(role r) {
  switch (r) {
    case role::choice: return place::choice;
    case role::delta: return place::delta;
    case role::call: return place::call;
    case role::function_call:
    case role::function: return place::function;
    case role::typed_delta: return place::typed_delta;
    case role::usage: return place::usage;
    case role::usage_details: return place::usage_details;
    default: return place::elsewhere;
  }
}

role top_role(std::string_view k) {
  switch (k.size()) {
    case 4: return k == "type" ? role::type : k == "meta" ? role::meta : k == "item" ? role::item : role::none;
    case 5: return k == "error" ? role::error : k == "usage" ? role::usage : k == "delta" ? role::typed_delta : role::none;
    case 6: return k == "object" ? role::object : role::none;
    case 7: return k == "choices" ? role::choices : k == "message" ? role::message : role::none;
    case 8: return k == "response" ? role::response : role::none;
    case 13: return k == "content_block" ? role::content_block : role::none;
    default: return role::none;
  }
}

role delta_role(std::string_view k) {
  if (k == "content") return role::content;
  if (k == "reasoning") return role::reasoning;
  if (k == "reasoning_content") return role::reasoning_content;
  if (k == "refusal") return role::refusal;
  if (k == "tool_calls") return role::calls;
  return k == "function_call" ? role::function_call : role::none;
}

role role_of(place at, std::string_view k) {
  switch (at) {
    case place::top: return top_role(k);
    case place::choice:
      return k == "delta" ? role::delta : k == "finish_reason" ? role::finish : k == "text" ? role::text : role::none;
    case place::delta: return delta_role(k);
    case place::call: return k == "function" ? role::function : role::none;
    case place::function: return k == "arguments" ? role::arguments : role::none;
    case place::typed_delta:
      if (k == "stop_reason") return role::typed_stop;
      if (k == "text") return role::typed_text;
      return k == "thinking" ? role::thinking : k == "partial_json" ? role::partial_json : role::none;
    default: return role::none;
  }
}

// To the first quote, backslash or control character, or `end`. `bits` gathers the bits of the bytes passed, and of up to seven
// more: without a high one all of them are ASCII.
const char *end_of_plain_text(const char *p, const char *end, uint64_t &bits) {
  while (end - p >= 8) {
    uint64_t w = 0;
    std::memcpy(&w, p, 8);
    const uint64_t quote = w ^ (0x22 * ones), slash = w ^ (0x5c * ones);
    // A high bit at every such byte; its lowest one is never a mistake (carries only go up).
    const uint64_t found = (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((w - 0x20 * ones) & ~w)) & high_bits;
    bits |= w;
    if (found != 0) {
      if constexpr (std::endian::native == std::endian::little) return p + std::countr_zero(found) / 8;
      break;
    }
    p += 8;
  }
  for (; p != end && *p != '"' && *p != '\\' && static_cast<unsigned char>(*p) >= 0x20; ++p) bits |= static_cast<unsigned char>(*p);
  return p;
}

class scan {
 public:
  explicit scan(std::string_view json) : p_(json.data()), end_(p_ + json.size()), json_(json) {}

  bool read() {
    skip_space();
    if (p_ == end_ || *p_ != '{' || !object(place::top, 0)) return false;
    skip_space();
    if (p_ != end_) return false;
    if ((bits_ & high_bits) != 0 && !simdjson::validate_utf8(json_)) return false;
    return type_.empty() || typed_is_plain();
  }

  void tell(stream_facts &f, lone_text &lone) const {
    counted c = counted_;
    bool finished = finished_;
    if (!type_.empty()) {
      if (typed_object_) {
        c.add(typed_);
        finished = finished || typed_stop_;
      } else if (type_.ends_with(".delta")) {
        c.add(typed_string_);
      }
    }
    f.content = f.content || call_ || c.pieces > 0;
    f.finished = f.finished || finished;
    f.delta_bytes += c.bytes;
    f.delta_pieces += c.pieces;
    if (usage_.present != 0) merge_usage(usage_, f.usage);
    lone = {};
    if (c.pieces == 1 && !call_ && !finished && usage_.present == 0)
      lone = {static_cast<size_t>(c.last.data() - json_.data()), c.last.size()};
  }

  bool meta() const { return meta_; }

 private:
  struct text {
    std::string_view raw;    // between the quotes
    size_t size = 0;         // bytes without escapes
    bool escaped = false;
  };
  struct counted {
    uint64_t bytes = 0;
    uint64_t pieces = 0;
    std::string_view last;
    void add(const text &t) {
      if (t.size == 0) return;
      bytes += t.size;
      pieces += 1;
      last = t.raw;
    }
    void add(const counted &c) {
      bytes += c.bytes;
      pieces += c.pieces;
      if (c.pieces > 0) last = c.last;
    }
  };

  bool typed_is_plain() const {
    if (part_) return false;
    return type_ != "error" && type_ != "response.failed" && type_ != "message_stop" && type_ != "response.completed" &&
           type_ != "response.incomplete";
  }

  void skip_space() {
    while (p_ != end_ && (*p_ == ' ' || *p_ == '\t' || *p_ == '\n' || *p_ == '\r')) ++p_;
  }

  bool string(text &t) {
    const char *const begin = ++p_;
    const char *p = begin;
    size_t less = 0;
    for (;;) {
      p = end_of_plain_text(p, end_, bits_);
      if (p == end_) return false;
      if (*p == '"') break;
      if (*p != '\\' || end_ - p < 2) return false;
      t.escaped = true;
      if (p[1] == 'u') {
        const int unit = end_ - p < 6 ? -1 : hex4_value(p + 2);
        if (unit < 0 || (unit >= 0xd800 && unit < 0xe000)) return false;
        less += unit < 0x80 ? 5 : unit < 0x800 ? 4 : 3;
        p += 6;
      } else {
        if (p[1] == '\0' || std::strchr("\"\\/bfnrt", p[1]) == nullptr) return false;
        less += 1;
        p += 2;
      }
    }
    t.raw = {begin, static_cast<size_t>(p - begin)};
    t.size = t.raw.size() - less;
    p_ = p + 1;
    return true;
  }

  bool object(place at, int depth) {
    unsigned seen = 0;
    ++p_;
    skip_space();
    if (p_ != end_ && *p_ == '}') return ++p_, true;
    for (;;) {
      text key;
      if (p_ == end_ || *p_ != '"' || !string(key)) return false;
      const role r = at == place::elsewhere ? role::none : known(at, key, seen);
      if (repeated_) return false;
      skip_space();
      if (p_ == end_ || *p_ != ':') return false;
      ++p_;
      skip_space();
      if (!value(r, depth)) return false;
      skip_space();
      if (p_ == end_) return false;
      if (*p_ == '}') return ++p_, true;
      if (*p_ != ',') return false;
      ++p_;
      skip_space();
    }
  }

  // The key's role; of a key that is escaped or comes twice a parser must say which counts.
  role known(place at, const text &key, unsigned &seen) {
    if (key.escaped) return repeated_ = true, role::none;
    if (at == place::usage) {
      for (size_t f = 0; f < usage_report::fields; ++f) {
        if (key.raw != usage_report::names[f]) continue;
        field_ = static_cast<usage_report::field>(f);
        repeated_ = (seen & (1u << f)) != 0;
        seen |= 1u << f;
        return role::usage_field;
      }
      const auto &details = usage_report::details_names;
      if (std::find(details.begin(), details.end(), key.raw) == details.end()) return role::none;
      repeated_ = (seen & (1u << usage_report::fields)) != 0;  // of both, too, the parser knows which counts
      seen |= 1u << usage_report::fields;
      return role::usage_details;
    }
    if (at == place::usage_details) {
      if (key.raw != usage_report::cached_name) return role::none;
      repeated_ = seen != 0;
      seen = 1;
      return role::cached;
    }
    const role r = role_of(at, key.raw);
    if (r == role::none) return r;
    const unsigned bit = 1u << static_cast<unsigned>(r);
    repeated_ = (seen & bit) != 0;
    seen |= bit;
    return r;
  }

  bool array(role r, int depth) {
    const role each = r == role::choices ? role::choice : r == role::calls ? role::call : role::none;
    ++p_;
    skip_space();
    if (p_ != end_ && *p_ == ']') return ++p_, true;
    for (;;) {
      if (each == role::call) call_ = true;
      if (!value(each, depth)) return false;
      skip_space();
      if (p_ == end_) return false;
      if (*p_ == ']') return ++p_, true;
      if (*p_ != ',') return false;
      ++p_;
      skip_space();
    }
  }

  bool value(role r, int depth) {
    if (p_ == end_) return false;
    switch (*p_) {
      case '"': {
        text t;
        return string(t) && take(r, t);
      }
      case '{':
        if (depth >= max_depth || r == role::error) return false;
        if (is_part(r)) part_ = true;
        if (r == role::meta) meta_ = true;
        if (r == role::function_call) call_ = true;
        if (r == role::typed_delta) typed_object_ = true;
        return object(inside(r), depth + 1);
      case '[': return depth < max_depth && r != role::error && array(r, depth + 1);
      case 'n': return word("null");
      case 't': return r != role::error && word("true");
      case 'f': return r != role::error && word("false");
      default: return r != role::error && number(r);
    }
  }

  bool take(role r, const text &t) {
    if (is_text(r)) return counted_.add(t), true;
    if (is_typed_text(r)) return typed_.add(t), true;
    switch (r) {
      case role::typed_delta: return typed_string_ = t, true;
      case role::finish: return finished_ = finished_ || !t.raw.empty(), true;
      case role::typed_stop: return typed_stop_ = !t.raw.empty(), true;
      case role::type: return type_ = t.raw, !t.escaped;
      case role::object: return !t.escaped && t.raw != "error";
      case role::error: return false;
      default: return true;
    }
  }

  bool word(std::string_view w) {
    if (static_cast<size_t>(end_ - p_) < w.size() || std::memcmp(p_, w.data(), w.size()) != 0) return false;
    p_ += w.size();
    return true;
  }

  // Numbers that any parser takes: up to 18 digits on either side of the point, no exponent.
  bool number(role r) {
    const bool negative = *p_ == '-';
    if (negative) ++p_;
    const char *const begin = p_;
    uint64_t n = 0;
    while (p_ != end_ && *p_ >= '0' && *p_ <= '9' && p_ - begin < 19) n = n * 10 + static_cast<uint64_t>(*p_++ - '0');
    const auto digits = p_ - begin;
    if (digits == 0 || digits > 18 || (*begin == '0' && digits > 1)) return false;
    bool whole = true;
    if (p_ != end_ && *p_ == '.') {
      const char *const fraction = ++p_;
      while (p_ != end_ && *p_ >= '0' && *p_ <= '9' && p_ - fraction < 19) ++p_;
      if (p_ == fraction || p_ - fraction > 18) return false;
      whole = false;
    }
    if (whole && !negative) {
      if (r == role::usage_field) usage_.set(field_, n);
      if (r == role::cached) usage_.set_cached(n);
    }
    return true;
  }

  const char *p_;
  const char *const end_;
  const std::string_view json_;
  uint64_t bits_ = 0;            // of every byte inside strings: a high one asks for a check of the UTF-8
  bool repeated_ = false;
  bool meta_ = false, part_ = false, call_ = false, finished_ = false;
  counted counted_;
  std::string_view type_;
  bool typed_object_ = false, typed_stop_ = false;
  text typed_string_;
  counted typed_;
  usage_report usage_;
  usage_report::field field_ = usage_report::prompt_tokens;
};

}  // namespace

bool plain_text(std::string_view text) {
  const char *const end = text.data() + text.size();
  uint64_t bits = 0;
  if (end_of_plain_text(text.data(), end, bits) != end) return false;
  return (bits & high_bits) == 0 || simdjson::validate_utf8(text);
}

scan_result scan_event(std::string_view json, stream_facts &facts, lone_text &lone) {
  scan s(json);
  if (!s.read()) return scan_result::not_read;
  s.tell(facts, lone);
  return s.meta() ? scan_result::read_with_meta : scan_result::read;
}

}  // namespace hive::http
