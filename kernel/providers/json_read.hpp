// Reading JSON of others: what is missing, null or of another type is absent. Internal to providers/. Pure, any thread.
#pragma once

#include <boost/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace hive::providers {

namespace json = boost::json;

// `what` names the text in the error.
inline result<json::object> read_object(std::string_view text, const char *what) {
  json::parse_options options;
  options.max_depth = 256;
  options.allow_invalid_utf8 = true;
  boost::system::error_code error;
  json::value read = json::parse(text, error, {}, options);
  if (error) return fail(errc::invalid, std::string(what) + " is no JSON: " + error.message());
  if (!read.is_object()) return fail(errc::invalid, std::string(what) + " is no JSON object");
  return std::move(read.get_object());
}

inline const json::value *member(const json::object &o, std::string_view name) {
  const json::value *v = o.if_contains(name);
  return v != nullptr && !v->is_null() ? v : nullptr;
}

inline const json::object *object_in(const json::object &o, std::string_view name) {
  const json::value *v = o.if_contains(name);
  return v != nullptr ? v->if_object() : nullptr;
}

inline const json::array *array_in(const json::object &o, std::string_view name) {
  const json::value *v = o.if_contains(name);
  return v != nullptr ? v->if_array() : nullptr;
}

inline std::string_view text_of(const json::value *v) {
  return v != nullptr && v->is_string() ? std::string_view(v->get_string().data(), v->get_string().size()) : std::string_view();
}

inline std::string_view text_in(const json::object &o, std::string_view name) { return text_of(o.if_contains(name)); }

inline bool true_in(const json::object &o, std::string_view name) {
  const json::value *v = o.if_contains(name);
  return v != nullptr && v->is_bool() && v->get_bool();
}

inline bool false_in(const json::object &o, std::string_view name) {
  const json::value *v = o.if_contains(name);
  return v != nullptr && v->is_bool() && !v->get_bool();
}

// A count that is not negative; 0 for everything else, fractions cut off.
inline uint64_t count_in(const json::object &o, std::string_view name) {
  constexpr uint64_t most = 1ull << 50;  // sums stay sums
  const json::value *v = o.if_contains(name);
  if (v == nullptr) return 0;
  if (v->is_uint64()) return std::min(v->get_uint64(), most);
  if (v->is_int64()) return v->get_int64() > 0 ? std::min(static_cast<uint64_t>(v->get_int64()), most) : 0;
  if (v->is_double() && v->get_double() > 0 && v->get_double() < static_cast<double>(most)) return static_cast<uint64_t>(v->get_double());
  return 0;
}

inline double number_of(const json::value &v) {
  return v.is_double() ? v.get_double() : v.is_int64() ? static_cast<double>(v.get_int64()) : v.is_uint64() ? static_cast<double>(v.get_uint64()) : 0;
}

// The text of a string, or of the text parts of an array, with `between` between two of them.
inline std::string joined_text(const json::value *v, std::string_view between) {
  std::string out(text_of(v));
  const json::array *parts = v != nullptr ? v->if_array() : nullptr;
  if (parts == nullptr) return out;
  for (const json::value &part : *parts) {
    const std::string_view text = part.is_object() ? text_in(part.get_object(), "text") : text_of(&part);
    if (text.empty()) continue;
    if (!out.empty()) out += between;
    out += text;
  }
  return out;
}

}  // namespace hive::providers
