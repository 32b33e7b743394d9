#include "gateway/estimate.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

namespace hive::gateway {

namespace {

namespace json = boost::json;

constexpr int deepest = 8;

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
    for (const char *name : {"message", "content", "text", "reasoning_content", "reasoning", "refusal", "thinking", "tool_calls", "function",
                             "function_call", "arguments"})
      bytes += member(o, name, depth);
    // A tool's input is an object that was generated as its text.
    if (const json::value *input = o.if_contains("input"); input != nullptr && input->is_object() && !input->get_object().empty())
      bytes += json::serialize(*input).size();
  }
  return bytes;
}

}  // namespace

token_estimate estimate_of(const tenancy::token_ratio &ratio, const request_scan &scan) {
  token_estimate e;
  e.ratio = ratio;
  e.prompt = tenancy::prompt_tokens(ratio, scan.text_bytes, scan.messages) + scan.token_ids;
  e.counted_prompt = ratio.learned ? e.prompt : scan.text_quarters + 4 * scan.text_entries + scan.token_ids;
  return e;
}

uint64_t token_estimate::output(uint64_t text_bytes) const {
  if (text_bytes == 0) return 0;
  return ratio.learned ? tenancy::prompt_tokens(ratio, text_bytes, 1) : text_bytes / 4 + 4;
}

uint64_t answer_text_bytes(std::string_view text) {
  boost::system::error_code error;
  const json::value root = json::parse(text, error);
  if (error || !root.is_object()) return 0;
  const json::object &o = root.get_object();
  return member(o, "choices", 0) + member(o, "content", 0) + member(o, "output", 0);
}

}  // namespace hive::gateway
