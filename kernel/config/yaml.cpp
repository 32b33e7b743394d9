#include "config/yaml.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.hpp"

namespace hive::config::yaml {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

// Drops the digits at the front; false if there are none.
bool skip_digits(std::string_view &text) {
  const size_t n = std::min(text.size(), static_cast<size_t>(std::find_if_not(text.begin(), text.end(), digit) - text.begin()));
  text.remove_prefix(n);
  return n > 0;
}

bool is_whole(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.size() > 1 && text.front() == '0') return false;
  return skip_digits(text) && text.empty();
}

enum class truth { no, yes, neither };

truth truth_of(std::string_view text) {
  for (const char *word : {"true", "True", "TRUE"})
    if (text == word) return truth::yes;
  for (const char *word : {"false", "False", "FALSE"})
    if (text == word) return truth::no;
  return truth::neither;
}

std::string quoted_text(std::string_view text) {
  constexpr size_t shown = 80;
  return "\"" + std::string(text.substr(0, shown)) + (text.size() > shown ? "...\"" : "\"");
}

// What is there instead of the wanted scalar.
std::string found(const node &n) {
  switch (n.kind()) {
    case kind::null: return "nothing";
    case kind::list: return "a list";
    case kind::map: return "a map";
    case kind::scalar: break;
  }
  return quoted_text(n.text());
}

// Why text that looks like a number is none.
std::string number_hint(std::string_view text, bool whole) {
  std::string_view digits = text;
  if (digits.starts_with('-')) digits.remove_prefix(1);
  if (digits.size() > 1 && digits.front() == '0' && std::all_of(digits.begin(), digits.end(), digit))
    return " has a leading zero; write it without";
  if (digits.starts_with("0x") || digits.starts_with("0X") || digits.starts_with("0o")) return " is not decimal; write the number in decimal";
  if (!digits.empty() && digit(digits.front()) && digits.find('_') != std::string_view::npos) return " holds an underscore; write digits only";
  if (whole && is_number(text)) return " is not a whole number";
  return whole ? " is not a whole number; write one like 12" : " is not a number; write one like 12 or 0.5";
}

}  // namespace

bool is_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.size() > 1 && text.front() == '0' && digit(text[1])) return false;
  const bool whole = skip_digits(text);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!skip_digits(text) && !whole) return false;  // ".9" and "1." are numbers to YAML, "." is none
  } else if (!whole) {
    return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    if (!skip_digits(text)) return false;
  }
  return text.empty();
}

std::string node::where() const { return std::string(file()) + ":" + std::to_string(line_ > 0 ? line_ : 1); }

status node::wrong(std::string message) const {
  if (!file_) return fail(errc::invalid, std::move(message), path_);  // it was JSON
  return fail(errc::invalid, std::move(message), path_.empty() ? where() : where() + ": " + path_);
}

const node *node::find(std::string_view key) const {
  for (const entry &e : entries_)
    if (e.key == key) return &e.value;
  return nullptr;
}

result<std::string> node::as_text() const {
  if (is_scalar() || (is_null() && !text_.empty())) return text_;
  return wrong(found(*this) + " stands where text is needed");
}

result<bool> node::as_bool() const {
  if (is_scalar()) {
    const truth value = quoted_ ? truth::neither : truth_of(text_);
    if (value != truth::neither) return value == truth::yes;
  }
  return wrong(found(*this) + " is neither true nor false; write one of the two" + (quoted_ ? " without quotes" : ""));
}

result<int64_t> node::as_int(int64_t min, int64_t max) const {
  if (!is_scalar()) return wrong(found(*this) + " stands where a whole number is needed");
  if (quoted_) return wrong(quoted_text(text_) + " is quoted, so it is text; write the number without quotes");
  if (!is_whole(text_)) return wrong(quoted_text(text_) + number_hint(text_, true));
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
  if (error != std::errc() || end != text_.data() + text_.size() || value < min || value > max)
    return wrong(text_ + " is out of range; it must be between " + std::to_string(min) + " and " + std::to_string(max));
  return value;
}

result<double> node::as_number() const {
  if (!is_scalar()) return wrong(found(*this) + " stands where a number is needed");
  if (quoted_) return wrong(quoted_text(text_) + " is quoted, so it is text; write the number without quotes");
  if (!is_number(text_)) return wrong(quoted_text(text_) + number_hint(text_, false));
  double value = 0;
  const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
  if (error != std::errc() || end != text_.data() + text_.size() || !std::isfinite(value))
    return wrong(text_ + " does not fit a double");
  return value;
}

result<uint64_t> node::as_duration_ns() const {
  if (is_scalar())
    if (const auto value = parse_duration_ns(text_)) return *value;
  if (is_scalar() && is_number(text_) && !text_.starts_with('-')) return wrong(text_ + " has no unit; write " + text_ + "s or " + text_ + "ms");
  return wrong(found(*this) + " is not a duration; write one like 500ms, 5s, 2m or 1h30m");
}

result<std::vector<std::string>> node::as_texts() const {
  std::vector<std::string> out;
  if (!is_list()) {
    auto one = as_text();
    if (!one) return one.why();
    out.push_back(*std::move(one));
    return out;
  }
  for (const node &item : items_) {
    auto one = item.as_text();
    if (!one) return one.why();
    out.push_back(*std::move(one));
  }
  return out;
}

status node::want_map() const {
  if (is_map() || is_null()) return {};
  return wrong(found(*this) + " stands where a map (key: value) is needed");
}

status node::want_list() const {
  if (is_list() || is_null()) return {};
  return wrong(found(*this) + " stands where a list is needed");
}

std::vector<status> node::unknown_keys(std::initializer_list<std::string_view> allowed) const {
  return unknown_keys(std::vector<std::string>(allowed.begin(), allowed.end()));
}

std::vector<status> node::unknown_keys(const std::vector<std::string> &allowed) const {
  std::vector<status> out;
  for (const entry &e : entries_) {
    if (std::find(allowed.begin(), allowed.end(), e.key) != allowed.end()) continue;
    const std::string close = nearest(e.key, allowed);
    const std::string place = file_ ? std::string(file()) + ":" + std::to_string(e.key_line) + ": " : std::string();
    out.push_back(fail(errc::invalid,
                       "unknown key" + (close.empty() ? std::string() : "; did you mean \"" + close + "\"?"),
                       place + e.value.path()));
  }
  return out;
}

boost::json::value node::to_json() const {
  switch (kind_) {
    case kind::null: return nullptr;
    case kind::list: {
      boost::json::array out;
      out.reserve(items_.size());
      for (const node &item : items_) out.push_back(item.to_json());
      return out;
    }
    case kind::map: {
      boost::json::object out;
      out.reserve(entries_.size());
      for (const entry &e : entries_) out.insert_or_assign(e.key, e.value.to_json());
      return out;
    }
    case kind::scalar: break;
  }
  if (quoted_) return boost::json::string(text_);
  if (const truth value = truth_of(text_); value != truth::neither) return value == truth::yes;
  const char *begin = text_.data();
  const char *end = begin + text_.size();
  if (is_whole(text_)) {
    int64_t whole = 0;
    if (std::from_chars(begin, end, whole).ec == std::errc()) return whole;
    uint64_t large = 0;
    if (text_.front() != '-' && std::from_chars(begin, end, large).ec == std::errc()) return large;
  }
  double number = 0;
  if (is_number(text_) && std::from_chars(begin, end, number).ec == std::errc()) return number;
  return boost::json::string(text_);
}

}  // namespace hive::config::yaml
