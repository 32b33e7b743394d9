#include "gateway/estimate.hpp"

#include <boost/json/parse.hpp>

namespace hive::gateway {

namespace {

namespace json = boost::json;

constexpr int deepest = 6;

uint64_t text_in(const json::value &v, int depth);

uint64_t member(const json::object &o, const char *name, int depth) {
  const json::value *v = o.if_contains(name);
  return v == nullptr ? 0 : text_in(*v, depth + 1);
}

// A text, a list of parts, or an object that holds one under the names that answers use.
uint64_t text_in(const json::value &v, int depth) {
  if (depth > deepest) return 0;
  if (v.is_string()) return v.get_string().size();
  uint64_t bytes = 0;
  if (v.is_array()) {
    for (const json::value &item : v.get_array())
      if (!item.is_string()) bytes += text_in(item, depth + 1);
  } else if (v.is_object()) {
    const json::object &o = v.get_object();
    for (const char *name : {"message", "content", "text", "reasoning_content", "refusal", "thinking"}) bytes += member(o, name, depth);
  }
  return bytes;
}

}  // namespace

uint64_t answer_text_bytes(std::string_view text) {
  boost::system::error_code error;
  const json::value root = json::parse(text, error);
  if (error || !root.is_object()) return 0;
  const json::object &o = root.get_object();
  return member(o, "choices", 0) + member(o, "content", 0) + member(o, "output", 0);
}

}  // namespace hive::gateway
