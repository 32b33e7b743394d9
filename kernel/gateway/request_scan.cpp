#include "gateway/request_scan.hpp"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/hex_digit.hpp"
#include "base/json_text.hpp"
#include "gateway/folded_name.hpp"
#include "gateway/prompt_keys.hpp"
#include "http/answer_facts.hpp"

namespace hive::gateway {

namespace {

namespace od = simdjson::ondemand;
using simdjson::error_code;

bool digit(char c) { return c >= '0' && c <= '9'; }

// RFC 8259 section 6; simdjson would refuse what does not fit 64 bits, and an engine need not.
bool is_number(std::string_view t) {
  size_t i = 0;
  const auto digits = [&] {
    const size_t from = i;
    while (i < t.size() && digit(t[i])) ++i;
    return i > from;
  };
  if (i < t.size() && t[i] == '-') ++i;
  if (i < t.size() && t[i] == '0') {
    ++i;
  } else if (!digits()) {
    return false;
  }
  if (i < t.size() && t[i] == '.') {
    ++i;
    if (!digits()) return false;
  }
  if (i < t.size() && (t[i] == 'e' || t[i] == 'E')) {
    ++i;
    if (i < t.size() && (t[i] == '+' || t[i] == '-')) ++i;
    if (!digits()) return false;
  }
  return i == t.size();
}

std::optional<uint64_t> as_count(std::string_view number) {
  constexpr double most = static_cast<double>(http::most_tokens);
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (number.front() == '-') return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    const size_t exponent = number.find_first_of("eE");
    const bool tiny = exponent != std::string_view::npos && exponent + 1 < number.size() && number[exponent + 1] == '-';
    return tiny ? 0 : http::most_tokens;
  }
  if (error != std::errc() || end != number.data() + number.size() || !(value >= 0)) return std::nullopt;
  return static_cast<uint64_t>(std::min(value, most));
}

// UTF-8 bytes a string's inside stands for, or nothing when an escape is bad. A lone surrogate counts as three bytes.
std::optional<size_t> unescaped_size(std::string_view inside) {
  size_t size = inside.size();
  const char *p = inside.data();
  const char *const end = p + inside.size();
  while ((p = static_cast<const char *>(std::memchr(p, '\\', static_cast<size_t>(end - p)))) != nullptr) {
    if (end - p < 2) return std::nullopt;
    if (p[1] != 'u') {
      if (std::strchr("\"\\/bfnrt", p[1]) == nullptr || p[1] == '\0') return std::nullopt;
      size -= 1;
      p += 2;
      continue;
    }
    const int unit = end - p < 6 ? -1 : hex4_value(p + 2);
    if (unit < 0) return std::nullopt;
    const bool high = unit >= 0xd800 && unit < 0xdc00;
    const int low = high && end - p >= 12 && p[6] == '\\' && p[7] == 'u' ? hex4_value(p + 8) : -1;
    if (low >= 0xdc00 && low < 0xe000) {
      size -= 8;
      p += 12;
    } else {
      size -= unit < 0x80 ? 5 : unit < 0x800 ? 4 : 3;
      p += 6;
    }
  }
  return size;
}

size_t first_bad_utf8(std::string_view s) {
  for (size_t i = 0; i < s.size();) {
    const size_t n = utf8_sequence(s.substr(i));
    if (n == 0) return i;
    i += n;
  }
  return s.size();
}

// Visits every value once, because on-demand parsing judges only what is looked at.
class walker {
 public:
  walker(std::string_view body, request_scan &out) : body_(body), out_(out), last_(body.data()) {}

  // False on the first error; `message` says which, when simdjson does not.
  bool top(od::object &object) {
    for (auto entry : object) {
      od::field field;
      std::string_view key;
      if (!good(std::move(entry).get(field))) return false;
      last_ = field.key().raw() - 1;
      if (!good(field.unescaped_key().get(key))) return false;
      const int known = known_key(key);
      if (known >= 0) {
        if ((seen_ & (1u << known)) != 0) return wrong("the field \"" + std::string(key) + "\" occurs twice");
        seen_ |= 1u << known;
      } else if (const std::string other = name_meant(key); !other.empty()) {
        return misspelt(key, other);
      }
      od::value value = field.value();
      if (sets_choices(key)) note_choices(value);
      out_.odd_limits = out_.odd_limits || loosens_limits(key);
      if (!top_field(known, value)) return false;
    }
    return true;
  }

  std::string message;
  bool is_json = true;  // as far as `message` tells: a rule of ours is broken, or JSON's
  const char *where() const { return last_; }

 private:
  enum known_field {
    k_model, k_stream, k_stream_options, k_max_tokens, k_max_completion_tokens, k_user, k_messages, k_system, k_tools, k_prompt,
    k_input, k_instructions, k_query, k_documents, k_max_output_tokens, k_n_predict,
    k_functions, k_suffix
  };
  static int known_key(std::string_view k) {
    static constexpr std::string_view names[] = {"model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "user",
                                                 "messages", "system", "tools", "prompt", "input", "instructions", "query", "documents",
                                                 "max_output_tokens", "n_predict", "functions", "suffix"};
    const auto *it = std::find(std::begin(names), std::end(names), k);
    return it == std::end(names) ? -1 : static_cast<int>(it - std::begin(names));
  }
  // llama.cpp takes n_cmpl for n, and n_predict before the limits that others know; vLLM has prompts that are no text.
  static bool sets_choices(std::string_view k) { return k == "n" || k == "best_of" || k == "n_cmpl"; }
  static bool loosens_limits(std::string_view k) { return k == "n_predict" || k == "n_cmpl" || k == "prompt_embeds"; }
  // The name that we read and that an engine may take an unknown key for; else empty.
  static std::string name_meant(std::string_view key) {
    if (!may_fold(key)) return {};
    std::string name = folded(key);
    const bool read = known_key(name) >= 0 || sets_choices(name) || loosens_limits(name);
    return read ? name : std::string();
  }

  static bool good(error_code e) { return e == simdjson::SUCCESS; }
  bool wrong(std::string text) {
    message = std::move(text);
    return false;
  }
  bool misspelt(std::string_view key, const std::string &name) {
    return wrong("some engines take the field \"" + std::string(key) + "\" for \"" + name + "\": write \"" + name + "\"");
  }
  bool broken(const char *text) {
    is_json = false;
    message = text;
    return false;
  }
  static std::string_view trimmed(std::string_view token) {
    while (!token.empty() && (token.back() == ' ' || token.back() == '\t' || token.back() == '\n' || token.back() == '\r')) token.remove_suffix(1);
    return token;
  }
  bool token_of(od::value &v, std::string_view &token) {
    token = trimmed(v.raw_json_token());
    last_ = token.data();
    return true;
  }

  bool top_field(int known, od::value &v) {
    std::string_view token;
    token_of(v, token);
    const char first = token.empty() ? '\0' : token.front();
    const char *const begin = token.data();
    switch (known) {
      case k_model: {
        if (first != '"') {
          if (first == 'n') return walk(v, place::elsewhere, 1);
          return wrong("\"model\" must be a string");
        }
        std::string_view text;
        if (!good(v.get_string().get(text))) return false;
        out_.model.assign(text);
        out_.model_at = {static_cast<size_t>(begin - body_.data()), token.size()};
        return true;
      }
      case k_stream:
        out_.stream = token == "true";
        return walk(v, place::elsewhere, 1);
      case k_stream_options: {
        out_.stream_options_given = true;
        if (first != '{') return walk(v, place::elsewhere, 1);
        in_stream_options_ = true;
        const bool ok = walk(v, place::elsewhere, 1);
        in_stream_options_ = false;
        if (ok) out_.stream_options_at = {static_cast<size_t>(begin - body_.data()), length_behind(v, begin)};
        return ok;
      }
      case k_max_tokens:
      case k_max_completion_tokens:
      case k_max_output_tokens:
      case k_n_predict: {
        if (!walk(v, place::elsewhere, 1)) return false;
        if (first != '-' && !digit(first)) {
          out_.odd_limits = out_.odd_limits || token != "null";
          return true;
        }
        const auto count = as_count(token);
        limit_of(known) = count;
        out_.odd_limits = out_.odd_limits || !count;
        return true;
      }
      case k_messages: return walk_part(v, place::message_list, token, request_scan::main_part);
      case k_prompt:
        in_prompt_ = first == '[';
        return walk_part(v, place::content, token, request_scan::main_part);
      case k_input: return walk_part(v, place::content, token, request_scan::main_part);
      case k_system: return walk_part(v, place::content, token, request_scan::system_part);
      case k_instructions: return walk_part(v, place::content, token, request_scan::instructions_part);
      case k_query:
      case k_documents:
      case k_suffix: return walk(v, place::content, 1);
      case k_functions: return walk_counted(v, token, 1);
      case k_tools: {
        if (!walk_counted(v, token, 1)) return false;
        return note_part(v, token, request_scan::tools_part);
      }
      default: return walk(v, place::elsewhere, 1);
    }
  }

  std::optional<uint64_t> &limit_of(int known) {
    switch (known) {
      case k_max_tokens: return out_.max_tokens;
      case k_max_output_tokens: return out_.max_output_tokens;
      case k_n_predict: return out_.n_predict;
      default: return out_.max_completion_tokens;
    }
  }

  void note_choices(od::value &v) {
    std::string_view token;
    token_of(v, token);
    if (token == "null") return;
    const auto count = !token.empty() && digit(token.front()) ? as_count(token) : std::nullopt;
    if (count) out_.choices = std::max(out_.choices, *count);
    else out_.odd_limits = true;
  }

  bool walk_part(od::value &v, place at, std::string_view token, request_scan::prompt_part part) {
    return walk(v, at, 1) && note_part(v, token, part);
  }
  // Where a part of the prompt stands, now that it has been walked.
  bool note_part(od::value &v, std::string_view token, request_scan::prompt_part part) {
    byte_range &at = out_.prompt_at[part];
    if (at.present() || token.empty() || token == "null") return true;
    const bool container = token.front() == '{' || token.front() == '[';
    at = {static_cast<size_t>(token.data() - body_.data()), container ? length_behind(v, token.data()) : token.size()};
    return true;
  }

  // A value whose raw length counts as text.
  bool walk_counted(od::value &v, std::string_view token, int depth) {
    const char *const begin = token.data();
    if (!walk(v, place::elsewhere, depth)) return false;
    const bool container = !token.empty() && (token.front() == '{' || token.front() == '[');
    if (token != "null") out_.text_bytes += container ? length_behind(v, begin) : token.size();
    return true;
  }

  // Numbers and literals are judged by their text and not consumed: stepping to the next sibling passes over them, and so a
  // number of any size stays the engine's business.
  bool walk(od::value &v, place at, int depth) {
    std::string_view token;
    token_of(v, token);
    switch (token.empty() ? '\0' : token.front()) {
      case '{': return walk_object(v, at, depth);
      case '[': return walk_array(v, at, depth);
      case '"': {
        if (token.size() < 2 || token.back() != '"') return broken("a string is not closed");
        const auto size = unescaped_size(token.substr(1, token.size() - 2));
        if (!size) return broken("a string holds a bad escape");
        if (at == place::content) count_text(*size);
        out_.images += at == place::media;
        string_size_ = *size;
        // A string that is stepped over is taken for a key when a colon follows, and what comes next for its value.
        od::raw_json_string passed;
        return good(v.get_raw_json_string().get(passed));
      }
      default:
        if (is_number(token)) {
          out_.token_ids += at == place::content;
          return true;
        }
        return token == "true" || token == "false" || token == "null" || broken("a value is not JSON");
    }
  }

  bool walk_array(od::value &v, place at, int depth) {
    if (depth >= request_scanner::max_depth) return too_deep();
    od::array array;
    if (!good(v.get_array().get(array))) return false;
    const place inner = at == place::message_list ? place::message : at;
    const bool prompts = std::exchange(in_prompt_, false);
    bool ids = false;
    uint64_t items = 0;
    for (auto entry : array) {
      od::value value;
      if (!good(std::move(entry).get(value))) return false;
      if (inner == place::message) ++out_.messages;
      if (prompts) {
        std::string_view token;
        token_of(value, token);
        ids = ids || (!token.empty() && (token.front() == '-' || digit(token.front())));
        ++items;
      }
      if (!walk(value, inner, depth + 1)) return false;
    }
    if (prompts && !ids) out_.prompts = std::max<uint64_t>(1, items);
    return true;
  }

  bool walk_object(od::value &v, place at, int depth) {
    if (depth >= request_scanner::max_depth) return too_deep();
    od::object object;
    if (!good(v.get_object().get(object))) return false;
    bool image = false, text_source = false, has_data = false;
    size_t data = 0;
    const bool options = in_stream_options_ && depth == 1;
    for (auto entry : object) {
      od::field field;
      std::string_view key;
      if (!good(std::move(entry).get(field)) || !good(field.unescaped_key().get(key))) return false;
      od::value value = field.value();
      std::string_view token;
      token_of(value, token);
      if (options && key == "include_usage") {
        out_.include_usage = token == "true";
        out_.include_usage_given = true;
      } else if (options && may_fold(key) && folded(key) == "include_usage") {
        return misspelt(key, "include_usage");
      }
      const key_role role = role_of(at, key);
      if (role == key_role::type && at == place::source) text_source |= is_text_type(token);
      else if (role == key_role::type) image |= is_image_type(token);
      image |= role == key_role::image;
      if (!(role == key_role::raw ? walk_counted(value, token, depth + 1) : walk(value, inside(role), depth + 1))) return false;
      if (role != key_role::data || token.empty() || token.front() != '"') continue;
      has_data = true;
      data += string_size_;
    }
    out_.images += image;
    if (text_source && has_data) count_text(data);
    return true;
  }

  // Of a container that has been walked: the next token follows it, after white space.
  static size_t length_behind(od::value &v, const char *begin) {
    const char *next = begin;
    if (v.current_location().get(next) != simdjson::SUCCESS) return 0;
    return trimmed({begin, static_cast<size_t>(next - begin)}).size();
  }
  void count_text(size_t size) {
    out_.text_bytes += size;
    out_.text_entries += 1;
    out_.text_quarters += size / 4;
  }
  bool too_deep() { return wrong("the body is nested deeper than " + std::to_string(request_scanner::max_depth) + " levels"); }

  std::string_view body_;
  request_scan &out_;
  const char *last_;
  unsigned seen_ = 0;
  size_t string_size_ = 0;         // of the last string that was walked
  bool in_stream_options_ = false;
  bool in_prompt_ = false;         // the next array is the list of prompts
};

}  // namespace

struct request_scanner::parser {
  od::parser json;
};

std::optional<uint64_t> request_scan::most_output(bool one_prompt) const {
  const uint64_t limit = std::max({max_tokens.value_or(0), max_completion_tokens.value_or(0), max_output_tokens.value_or(0)});
  if (odd_limits || limit == 0) return std::nullopt;
  const uint64_t texts = one_prompt ? 1 : std::max<uint64_t>(1, text_entries + token_ids);
  uint64_t all = 0;
  if (__builtin_mul_overflow(limit, choices, &all) || __builtin_mul_overflow(all, texts, &all)) return std::nullopt;
  return all;
}

std::optional<uint64_t> request_scan::output_footprint(bool one_prompt) const {
  const auto each = declared_output();
  if (!each) return std::nullopt;
  uint64_t all = 0;
  if (__builtin_mul_overflow(*each, choices, &all) || __builtin_mul_overflow(all, one_prompt ? 1 : prompts, &all)) return http::most_tokens;
  return std::min(all, http::most_tokens);
}

request_scanner::request_scanner() : parser_(std::make_unique<parser>()) {}
request_scanner::~request_scanner() = default;

std::optional<scan_error> request_scanner::scan(std::string_view body, request_scan &out) {
  out = {};
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  const size_t bom = body.substr(0, 3) == "\xEF\xBB\xBF" ? 3 : 0;
  std::string_view text = body.substr(bom);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  if (std::all_of(text.begin(), text.end(), blank)) return scan_error{"the body is empty; a JSON object is expected", 0};
  const auto error_at = [&](std::string what, size_t offset) {
    what += " (byte " + std::to_string(offset) + ")";
    return scan_error{std::move(what), offset};
  };

  struct release {
    request_scanner &owner;
    size_t size;
    ~release() {
      if (size > keep_parser_below) owner.parser_ = std::make_unique<parser>();
    }
  } const after{*this, text.size()};
  od::document document;
  const size_t capacity = static_cast<size_t>(body.data() + body.size() - text.data()) + simdjson::SIMDJSON_PADDING;
  error_code e = parser_->json.iterate(simdjson::padded_string_view(text.data(), text.size(), capacity)).get(document);
  if (e == simdjson::UTF8_ERROR) return error_at("the body is not valid UTF-8", bom + first_bad_utf8(text));
  if (e == simdjson::UNCLOSED_STRING) return error_at("the body is not valid JSON: a string is not closed", body.size());
  if (e == simdjson::UNESCAPED_CHARS) {
    const auto bad = std::find_if(text.begin(), text.end(), [&](char c) { return static_cast<unsigned char>(c) < 0x20 && !blank(c); });
    return error_at("the body is not valid JSON: a string holds a control character",
                    bom + static_cast<size_t>((bad == text.end() ? text.begin() : bad) - text.begin()));
  }
  if (e != simdjson::SUCCESS) return error_at("the body is not valid JSON", bom);

  const size_t first = text.find_first_not_of(" \t\n\r");
  if (text[first] != '{') return error_at("the body must be one JSON object", bom + first);
  od::object object;
  if (document.get_object().get(object) != simdjson::SUCCESS) {
    return error_at("the body is not valid JSON: it does not end with the closing brace of its one object", bom + text.size() - 1);
  }
  out.object_at = bom + first;
  walker w(body, out);
  if (!w.top(object)) {
    const char *at = w.where();
    const char *seen = nullptr;
    if (w.message.empty() && document.current_location().get(seen) == simdjson::SUCCESS && seen > at) at = seen;
    std::string what = w.message.empty() ? "the body is not valid JSON" : w.is_json ? w.message : "the body is not valid JSON: " + w.message;
    return error_at(std::move(what), std::min(static_cast<size_t>(at - body.data()), body.size()));
  }
  const char *rest = nullptr;
  if (document.current_location().get(rest) == simdjson::SUCCESS && rest < text.data() + text.size()) {
    return error_at("the body must be one JSON object, and more follows it", static_cast<size_t>(rest - body.data()));
  }
  const std::string range = " must be a string of 1 to " + std::to_string(max_model_bytes) + " bytes";
  if (!out.model_at.present()) return scan_error{"\"model\" is missing: it" + range, out.object_at};
  if (out.model.empty() || out.model.size() > max_model_bytes) return error_at("\"model\"" + range, out.model_at.offset);
  return std::nullopt;
}

}  // namespace hive::gateway
