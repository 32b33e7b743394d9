// Fields of a request's JSON with a value to fall back on. Pure.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace hive::sim {

inline std::string text_of(const boost::json::object &o, const char *key, std::string fallback = {}) {
  const boost::json::value *v = o.if_contains(key);
  return v != nullptr && v->is_string() ? std::string(v->as_string()) : std::move(fallback);
}

inline int64_t number_of(const boost::json::object &o, const char *key, int64_t fallback) {
  const boost::json::value *v = o.if_contains(key);
  if (v == nullptr) return fallback;
  if (v->is_int64()) return v->as_int64();
  if (v->is_bool()) return v->as_bool() ? 1 : 0;
  if (v->is_double()) return static_cast<int64_t>(v->as_double());
  return fallback;
}

inline std::string quoted(std::string_view text) { return boost::json::serialize(boost::json::string_view(text.data(), text.size())); }

}  // namespace hive::sim
