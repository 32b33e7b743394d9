#include "plugins/schema.hpp"

#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "base/text.hpp"

namespace hive::plugins {
namespace {

namespace json = boost::json;
constexpr int depth_limit = 32;

constexpr std::array types = {"null", "boolean", "object", "array", "number", "string", "integer"};

std::string join(const std::string &path, std::string_view key) { return path.empty() ? std::string(key) : path + "." + std::string(key); }
std::string join(const std::string &path, size_t index) { return path + "[" + std::to_string(index) + "]"; }

bool known_type(const json::value &v) {
  if (!v.is_string()) return false;
  for (const char *t : types) {
    if (v.get_string() == t) return true;
  }
  return false;
}

status bad(const std::string &path, std::string message) { return fail(errc::invalid, std::move(message), path); }

// 80 bits hold every int64, uint64 and double exactly.
long double number(const json::value &v) {
  if (v.is_int64()) return static_cast<long double>(v.get_int64());
  if (v.is_uint64()) return static_cast<long double>(v.get_uint64());
  return v.get_double();
}

bool is_integer(const json::value &v) {
  return v.is_int64() || v.is_uint64() || (v.is_double() && std::isfinite(v.get_double()) && std::trunc(v.get_double()) == v.get_double());
}

bool equal(const json::value &a, const json::value &b) {
  if (a.is_number() && b.is_number()) return number(a) == number(b);
  if (a.kind() != b.kind()) return false;
  if (a.is_array()) {
    const auto &x = a.get_array(), &y = b.get_array();
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!equal(x[i], y[i])) return false;
    }
    return true;
  }
  if (a.is_object()) {
    const auto &x = a.get_object(), &y = b.get_object();
    if (x.size() != y.size()) return false;
    for (const auto &member : x) {
      const json::value *other = y.if_contains(member.key());
      if (other == nullptr || !equal(member.value(), *other)) return false;
    }
    return true;
  }
  return a == b;
}

size_t code_points(std::string_view s) {
  size_t n = 0;
  for (const char c : s) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return n;
}

status check_schema(const json::value &s, const std::string &path, int depth) {
  if (depth > depth_limit) return bad(path, "the schema is nested deeper than 32 levels");
  if (s.is_bool()) return {};
  if (!s.is_object()) return bad(path, "a schema must be an object or a boolean");
  for (const auto &[key, v] : s.get_object()) {
    const std::string at = join(path, key);
    if (key == "title" || key == "description" || key == "examples" || key == "default" || key == "const") continue;
    if (key == "type") {
      bool fine = known_type(v);
      if (v.is_array()) {
        fine = !v.get_array().empty();
        for (const auto &t : v.get_array()) fine = fine && known_type(t);
      }
      if (!fine) return bad(at, "must name types among null, boolean, object, array, number, string, integer");
    } else if (key == "enum") {
      if (!v.is_array() || v.get_array().empty()) return bad(at, "must be a list of at least one value");
    } else if (key == "required") {
      if (!v.is_array()) return bad(at, "must be a list of names");
      for (const auto &name : v.get_array()) {
        if (!name.is_string()) return bad(at, "must be a list of names");
      }
    } else if (key == "properties") {
      if (!v.is_object()) return bad(at, "must be an object of schemas");
      for (const auto &[name, sub] : v.get_object()) {
        if (auto st = check_schema(sub, join(at, name), depth + 1); !st) return st;
      }
    } else if (key == "additionalProperties") {
      if (auto st = check_schema(v, at, depth + 1); !st) return st;
    } else if (key == "items") {
      if (v.is_array()) return bad(at, "must be one schema; a list of schemas is not in the subset");
      if (auto st = check_schema(v, at, depth + 1); !st) return st;
    } else if (key == "minimum" || key == "maximum") {
      if (!v.is_number()) return bad(at, "must be a number");
    } else if (key == "minLength" || key == "maxLength") {
      if (!v.is_number() || !is_integer(v) || number(v) < 0) return bad(at, "must be a whole number, zero or more");
    } else {
      return bad(path, "the keyword \"" + std::string(key) + "\" is not in the subset of JSON Schema a component may use (docs/abi/rules.md)");
    }
  }
  return {};
}

bool has_type(const json::value &v, std::string_view type) {
  if (type == "null") return v.is_null();
  if (type == "boolean") return v.is_bool();
  if (type == "object") return v.is_object();
  if (type == "array") return v.is_array();
  if (type == "string") return v.is_string();
  if (type == "integer") return v.is_number() && is_integer(v);
  return v.is_number();
}

std::string type_names(const json::value &t) {
  if (t.is_string()) return std::string(t.get_string());
  std::string out;
  for (const auto &name : t.get_array()) {
    if (!out.empty()) out += " or ";
    out += std::string_view(name.get_string());
  }
  return out;
}

std::string shown(const json::value &v) {
  std::string s = json::serialize(v);
  if (s.size() > 60) s = s.substr(0, 57) + "...";
  return s;
}

status check(const json::value &s, const json::value &v, const std::string &path, int depth);

status check_object(const json::object &s, const json::object &v, const std::string &path, int depth) {
  const json::value *properties = s.if_contains("properties");
  const json::value *additional = s.if_contains("additionalProperties");
  if (const json::value *required = s.if_contains("required")) {
    for (const auto &name : required->get_array()) {
      if (!v.contains(name.get_string())) return bad(join(path, name.get_string()), "is required");
    }
  }
  for (const auto &[key, member] : v) {
    const json::value *sub = properties != nullptr ? properties->get_object().if_contains(key) : nullptr;
    if (sub == nullptr) sub = additional;
    if (sub == nullptr) continue;
    if (sub == additional && sub->is_bool() && !sub->get_bool()) {
      std::vector<std::string> names;
      if (properties != nullptr) {
        for (const auto &p : properties->get_object()) names.emplace_back(p.key());
      }
      std::string message = "unknown key";
      if (const std::string near = nearest(key, names); !near.empty()) message += "; did you mean \"" + near + "\"?";
      else if (names.empty()) message += "; none is allowed here";
      else {
        message += "; known keys:";
        for (size_t i = 0; i < names.size() && i < 20; ++i) message += (i == 0 ? " " : ", ") + names[i];
      }
      return bad(join(path, key), message);
    }
    if (auto st = check(*sub, member, join(path, key), depth + 1); !st) return st;
  }
  return {};
}

status check(const json::value &s, const json::value &v, const std::string &path, int depth) {
  if (depth > depth_limit) return bad(path, "is nested deeper than 32 levels");
  if (s.is_bool()) return s.get_bool() ? status() : bad(path, "is not allowed");
  const json::object &o = s.get_object();
  if (const json::value *type = o.if_contains("type")) {
    bool fits = false;
    if (type->is_string()) fits = has_type(v, type->get_string());
    else {
      for (const auto &t : type->get_array()) fits = fits || has_type(v, t.get_string());
    }
    if (!fits) return bad(path, "must be of type " + type_names(*type) + ", is " + shown(v));
  }
  if (const json::value *list = o.if_contains("enum")) {
    bool found = false;
    for (const auto &one : list->get_array()) found = found || equal(one, v);
    if (!found) return bad(path, "must be one of " + shown(*list) + ", is " + shown(v));
  }
  if (const json::value *one = o.if_contains("const"); one != nullptr && !equal(*one, v)) {
    return bad(path, "must be " + shown(*one) + ", is " + shown(v));
  }
  if (v.is_number()) {
    const json::value *low = o.if_contains("minimum"), *high = o.if_contains("maximum");
    if (low != nullptr && number(v) < number(*low)) return bad(path, "must be at least " + shown(*low) + ", is " + shown(v));
    if (high != nullptr && number(v) > number(*high)) return bad(path, "must be at most " + shown(*high) + ", is " + shown(v));
  }
  if (v.is_string()) {
    const json::value *low = o.if_contains("minLength"), *high = o.if_contains("maxLength");
    const auto n = static_cast<long double>(low != nullptr || high != nullptr ? code_points(v.get_string()) : 0);
    if (low != nullptr && n < number(*low)) return bad(path, "must have at least " + shown(*low) + " characters");
    if (high != nullptr && n > number(*high)) return bad(path, "must have at most " + shown(*high) + " characters");
  }
  if (v.is_object()) return check_object(o, v.get_object(), path, depth);
  if (const json::value *items = o.if_contains("items"); items != nullptr && v.is_array()) {
    for (size_t i = 0; i < v.get_array().size(); ++i) {
      if (auto st = check(*items, v.get_array()[i], join(path, i), depth + 1); !st) return st;
    }
  }
  return {};
}

void fill_in(const json::value &s, json::value &v, int depth) {
  if (!s.is_object() || depth > depth_limit) return;
  const json::object &o = s.get_object();
  if (v.is_object()) {
    const json::value *properties = o.if_contains("properties");
    if (properties == nullptr) return;
    for (const auto &[key, sub] : properties->get_object()) {
      json::value *member = v.get_object().if_contains(key);
      if (member == nullptr && sub.is_object()) {
        if (const json::value *d = sub.get_object().if_contains("default")) member = &(v.get_object()[key] = *d);
      }
      if (member != nullptr) fill_in(sub, *member, depth + 1);
    }
  } else if (const json::value *items = o.if_contains("items"); items != nullptr && v.is_array()) {
    for (auto &one : v.get_array()) fill_in(*items, one, depth + 1);
  }
}

status defaults_in(const json::value &s, const std::string &path) {
  if (!s.is_object()) return {};
  const json::object &o = s.get_object();
  if (const json::value *d = o.if_contains("default")) {
    if (auto st = check(s, *d, {}, 0); !st) return bad(join(path, "default"), "does not obey its own schema: " + st.text());
  }
  if (const json::value *properties = o.if_contains("properties")) {
    for (const auto &[key, sub] : properties->get_object()) {
      if (auto st = defaults_in(sub, join(join(path, "properties"), key)); !st) return st;
    }
  }
  if (const json::value *items = o.if_contains("items")) return defaults_in(*items, join(path, "items"));
  return {};
}

}  // namespace

result<schema> schema::parse(std::string_view text) {
  boost::system::error_code ec;
  json::value document = json::parse(json::string_view(text.data(), text.size()), ec);
  if (ec) return fail(errc::invalid, "is not JSON: " + ec.message());
  return from(std::move(document));
}

result<schema> schema::from(json::value document) {
  if (auto st = check_schema(document, {}, 0); !st) return st;
  schema s;
  s.root_ = std::move(document);
  return s;
}

status schema::validate(const json::value &value) const { return check(root_, value, {}, 0); }
void schema::fill(json::value &value) const { fill_in(root_, value, 0); }
status schema::check_defaults() const { return defaults_in(root_, {}); }

result<std::string> schema::apply(std::string_view text) const {
  if (text.empty()) text = "{}";
  boost::system::error_code ec;
  json::value value = json::parse(json::string_view(text.data(), text.size()), ec);
  if (ec) return fail(errc::invalid, "is not JSON: " + ec.message());
  if (auto st = validate(value); !st) return st;
  fill(value);
  return json::serialize(value);
}

}  // namespace hive::plugins
