// The parser's side of event_json.hpp: a whole document tree, for what is rare.
#include <simdjson.h>

#include <algorithm>

#include "http/event_json.hpp"

namespace hive::http {

namespace {

namespace dom = simdjson::dom;
constexpr size_t keep_parser_below = 128 * 1024;

// The thread's parser, given up behind a large text: its buffers are several times that text's size.
class borrowed_parser {
 public:
  explicit borrowed_parser(size_t size) : size_(size) {}
  ~borrowed_parser() {
    if (size_ > keep_parser_below) kept() = dom::parser();
  }
  borrowed_parser(const borrowed_parser &) = delete;
  borrowed_parser &operator=(const borrowed_parser &) = delete;

  bool read(std::string_view json, dom::object &o) {
    return !json.empty() && kept().parse(json.data(), json.size(), true).get_object().get(o) == simdjson::SUCCESS;
  }

 private:
  static dom::parser &kept() {
    thread_local dom::parser parser;
    return parser;
  }
  const size_t size_;
};

std::string_view text_of(const dom::object &o, std::string_view key) {
  std::string_view text;
  if (o[key].get_string().get(text) != simdjson::SUCCESS) return {};
  return text;
}

bool object_at(const dom::object &o, std::string_view key, dom::object &inner) {
  return o[key].get_object().get(inner) == simdjson::SUCCESS;
}

void merge_object(const dom::object &counts, token_usage &usage) {
  usage_report report;
  for (size_t f = 0; f < usage_report::fields; ++f) {
    uint64_t n = 0;
    if (counts[usage_report::names[f]].get_uint64().get(n) == simdjson::SUCCESS) report.set(static_cast<usage_report::field>(f), n);
  }
  for (const std::string_view name : usage_report::details_names) {
    dom::object details;
    uint64_t n = 0;
    if (object_at(counts, name, details) && details[usage_report::cached_name].get_uint64().get(n) == simdjson::SUCCESS) report.set_cached(n);
  }
  merge_usage(report, usage);
}

void merge_usage_of(const dom::object &parent, token_usage &usage) {
  dom::object counts;
  if (object_at(parent, "usage", counts)) merge_object(counts, usage);
}

void count_delta(stream_facts &f, std::string_view text) {
  if (text.empty()) return;
  f.content = true;
  f.delta_bytes += text.size();
  f.delta_pieces += 1;
}

void read_choice(const dom::object &choice, stream_facts &f) {
  count_delta(f, text_of(choice, "text"));
  if (!text_of(choice, "finish_reason").empty()) f.finished = true;
  dom::object delta, function;
  if (!object_at(choice, "delta", delta)) return;
  for (const char *key : {"content", "reasoning", "reasoning_content", "refusal"}) count_delta(f, text_of(delta, key));
  dom::array calls;
  if (delta["tool_calls"].get_array().get(calls) == simdjson::SUCCESS) {
    for (const dom::element call : calls) {
      f.content = true;
      if (call["function"].get_object().get(function) == simdjson::SUCCESS) count_delta(f, text_of(function, "arguments"));
    }
  }
  if (object_at(delta, "function_call", function)) {
    f.content = true;
    count_delta(f, text_of(function, "arguments"));
  }
}

// Events that carry a `type`: Anthropic messages and OpenAI responses. True: the type says error.
bool read_typed(std::string_view type, const dom::object &o, stream_facts &f) {
  dom::object inner;
  if (type == "message_stop" || type == "response.completed" || type == "response.incomplete") f.done = f.finished = true;
  if (object_at(o, "message", inner)) merge_usage_of(inner, f.usage);
  if (object_at(o, "response", inner)) merge_usage_of(inner, f.usage);
  if (object_at(o, "content_block", inner)) {
    if (text_of(inner, "type") == "tool_use") f.content = true;
    count_delta(f, text_of(inner, "text"));
  }
  // A call that has begun, before its first argument: what `tool_use` is to Anthropic.
  if (object_at(o, "item", inner) && text_of(inner, "type").ends_with("_call")) f.content = true;
  if (object_at(o, "delta", inner)) {
    for (const char *key : {"text", "thinking", "partial_json"}) count_delta(f, text_of(inner, key));
    if (!text_of(inner, "stop_reason").empty()) f.finished = true;
  } else if (type.ends_with(".delta")) {
    count_delta(f, text_of(o, "delta"));
  }
  return type == "error" || type == "response.failed";
}

}  // namespace

void merge_usage(const usage_report &r, token_usage &usage) {
  using u = usage_report;
  uint64_t prompt = r.value[r.has(u::prompt_tokens) ? u::prompt_tokens : u::input_tokens];
  const uint64_t completion = r.value[r.has(u::completion_tokens) ? u::completion_tokens : u::output_tokens];
  const unsigned either = 1u << u::prompt_tokens | 1u << u::input_tokens | 1u << u::completion_tokens | 1u << u::output_tokens;
  if ((r.present & either) == 0) {
    if (!r.has(u::total_tokens)) return;
    prompt = r.value[u::total_tokens];
  }
  prompt += r.value[u::cache_read] + r.value[u::cache_creation];
  usage.present = true;
  if (prompt > 0) usage.prompt = prompt;
  usage.completion = std::max(usage.completion, completion);
  if (r.cached) usage.cached = r.cached;
  else if (r.has(u::cache_read)) usage.cached = r.value[u::cache_read];
}

bool parse_event(std::string_view json, stream_facts &facts) {
  borrowed_parser parser(json.size());
  dom::object o;
  if (!parser.read(json, o)) return false;
  bool failed = false;
  dom::element error;
  if (o["error"].get(error) == simdjson::SUCCESS && !error.is_null()) failed = true;
  dom::array choices;
  if (o["choices"].get_array().get(choices) == simdjson::SUCCESS) {
    for (const dom::element choice : choices) {
      dom::object c;
      if (choice.get_object().get(c) == simdjson::SUCCESS) read_choice(c, facts);
    }
  }
  if (const std::string_view type = text_of(o, "type"); !type.empty()) failed = read_typed(type, o, facts) || failed;
  if (text_of(o, "object") == "error") failed = true;  // SGLang's flat form
  merge_usage_of(o, facts.usage);
  return failed;
}

token_usage usage_of_answer(std::string_view json) {
  stream_facts facts;
  lone_text lone;
  const scan_result found = scan_event(json, facts, lone);
  if (found == scan_result::read || (found == scan_result::read_with_meta && facts.usage.present)) return facts.usage;
  token_usage usage;
  borrowed_parser parser(json.size());
  dom::object o, meta, counts;
  if (!parser.read(json, o)) return usage;
  merge_usage_of(o, usage);
  if (usage.present || !object_at(o, "meta", meta)) return usage;
  if (object_at(meta, "tokens", counts)) merge_object(counts, usage);
  if (!usage.present && object_at(meta, "billed_units", counts)) merge_object(counts, usage);
  return usage;
}

}  // namespace hive::http
