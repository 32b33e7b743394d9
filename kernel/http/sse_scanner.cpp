#include "http/sse_scanner.hpp"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace hive::http {

namespace {

namespace dom = simdjson::dom;
constexpr std::string_view bom = "\xEF\xBB\xBF";
constexpr size_t kept_error = 4096;

bool number_of(const dom::object &o, std::string_view key, uint64_t &out) {
  return o[key].get_uint64().get(out) == simdjson::SUCCESS;
}

std::string_view text_of(const dom::object &o, std::string_view key) {
  std::string_view text;
  if (o[key].get_string().get(text) != simdjson::SUCCESS) return {};
  return text;
}

// Reports merge: a prompt figure replaces an earlier one, a completion figure never goes back (spec/http-api.md 12.5).
void merge_usage(const dom::object &parent, token_usage &usage) {
  dom::object o;
  if (parent["usage"].get_object().get(o) != simdjson::SUCCESS) return;
  uint64_t prompt = 0, cached = 0, completion = 0;
  const bool has_prompt = number_of(o, "prompt_tokens", prompt) || number_of(o, "input_tokens", prompt);
  for (const char *key : {"cache_read_input_tokens", "cache_creation_input_tokens"}) {
    uint64_t n = 0;
    if (number_of(o, key, n)) cached += n;
  }
  const bool has_completion = number_of(o, "completion_tokens", completion) || number_of(o, "output_tokens", completion);
  if (!has_prompt && !has_completion) return;
  usage.present = true;
  if (prompt + cached > 0) usage.prompt = prompt + cached;
  usage.completion = std::max(usage.completion, completion);
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
  dom::object delta;
  if (choice["delta"].get_object().get(delta) != simdjson::SUCCESS) return;
  for (const char *key : {"content", "reasoning", "reasoning_content", "refusal"}) count_delta(f, text_of(delta, key));
  dom::array calls;
  if (delta["tool_calls"].get_array().get(calls) == simdjson::SUCCESS) {
    for (const dom::element call : calls) {
      f.content = true;
      dom::object function;
      if (call["function"].get_object().get(function) == simdjson::SUCCESS) count_delta(f, text_of(function, "arguments"));
    }
  }
  dom::object function;
  if (delta["function_call"].get_object().get(function) == simdjson::SUCCESS) {
    f.content = true;
    count_delta(f, text_of(function, "arguments"));
  }
}

// Events that carry a `type`: Anthropic messages and OpenAI responses.
void read_typed(std::string_view type, const dom::object &o, stream_facts &f) {
  dom::object inner;
  if (type == "error" || type == "response.failed") f.error = true;
  if (type == "message_stop" || type == "response.completed" || type == "response.incomplete") f.done = true;
  if (o["message"].get_object().get(inner) == simdjson::SUCCESS) merge_usage(inner, f.usage);
  if (o["response"].get_object().get(inner) == simdjson::SUCCESS) merge_usage(inner, f.usage);
  if (f.done) f.finished = true;
  if (o["content_block"].get_object().get(inner) == simdjson::SUCCESS) {
    if (text_of(inner, "type") == "tool_use") f.content = true;
    count_delta(f, text_of(inner, "text"));
  }
  if (o["delta"].get_object().get(inner) == simdjson::SUCCESS) {
    for (const char *key : {"text", "thinking", "partial_json"}) count_delta(f, text_of(inner, key));
    if (!text_of(inner, "stop_reason").empty()) f.finished = true;
  } else if (type.ends_with(".delta")) {
    count_delta(f, text_of(o, "delta"));
  }
}

}  // namespace

struct sse_scanner::parser {
  dom::parser json;
};

sse_scanner::sse_scanner() = default;
sse_scanner::~sse_scanner() = default;

void sse_scanner::feed(std::string_view bytes) {
  while (bom_ < bom.size() && !bytes.empty()) {
    if (bytes.front() != bom[bom_]) {
      partial_.assign(bom.substr(0, bom_));  // it only looked like one
      bom_ = bom.size();
    } else {
      ++bom_;
      bytes.remove_prefix(1);
    }
  }
  const char *p = bytes.data();
  const char *const last = p + bytes.size();
  const char *lf = nullptr;  // the next LF at or after p, found once
  while (p < last) {
    if (std::exchange(skip_lf_, false) && *p == '\n') {
      ++p;
      continue;
    }
    if (lf == nullptr || lf < p) {
      lf = static_cast<const char *>(std::memchr(p, '\n', static_cast<size_t>(last - p)));
      if (lf == nullptr) lf = last;
    }
    const char *stop = static_cast<const char *>(std::memchr(p, '\r', static_cast<size_t>(lf - p)));
    if (stop == nullptr) stop = lf;
    const std::string_view piece(p, static_cast<size_t>(stop - p));
    if (!overlong_ && partial_.size() + piece.size() > max_line) {
      // What cannot be read may have been content: it commits, so that no retry repeats it.
      overlong_ = facts_.unread = facts_.content = true;
      std::string().swap(partial_);
    }
    if (stop == last) {
      if (!overlong_) partial_ += piece;
      return;
    }
    if (!overlong_) {
      if (partial_.empty()) {
        line(piece);
      } else {
        partial_ += piece;
        line(partial_);
      }
    }
    partial_.clear();
    overlong_ = false;
    skip_lf_ = *stop == '\r';
    p = stop + 1;
  }
}

void sse_scanner::end() {
  if (!partial_.empty() && !overlong_) line(partial_);
  std::string().swap(partial_);
  overlong_ = false;
}

void sse_scanner::line(std::string_view text) {
  if (text.empty()) {
    error_event_ = false;
    return;
  }
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  if (name == "data") {
    data(value);
  } else if (name == "event" && value == "error") {
    error_event_ = facts_.error = true;
  } else if (name == "error") {
    facts_.error = true;
    if (facts_.error_text.empty()) facts_.error_text = value.substr(0, kept_error);
  }
}

void sse_scanner::data(std::string_view json) {
  ++facts_.events;
  while (!json.empty() && (json.back() == ' ' || json.back() == '\t')) json.remove_suffix(1);
  if (json == "[DONE]") {
    facts_.done = true;
    return;
  }
  bool failed = error_event_;
  if (!parser_) parser_ = std::make_unique<parser>();
  dom::object o;
  if (!json.empty() && parser_->json.parse(json.data(), json.size(), true).get_object().get(o) == simdjson::SUCCESS) {
    dom::element error;
    if (o["error"].get(error) == simdjson::SUCCESS && !error.is_null()) failed = true;
    dom::array choices;
    if (o["choices"].get_array().get(choices) == simdjson::SUCCESS) {
      for (const dom::element choice : choices) {
        dom::object c;
        if (choice.get_object().get(c) == simdjson::SUCCESS) read_choice(c, facts_);
      }
    }
    const bool had_error = std::exchange(facts_.error, false);
    if (const std::string_view type = text_of(o, "type"); !type.empty()) read_typed(type, o, facts_);
    if (text_of(o, "object") == "error") facts_.error = true;  // SGLang's flat form
    failed = failed || facts_.error;
    facts_.error = facts_.error || had_error;
    merge_usage(o, facts_.usage);
  }
  if (!failed) return;
  facts_.error = true;
  if (facts_.error_text.empty()) facts_.error_text = json.substr(0, kept_error);
}

token_usage usage_of_answer(std::string_view json) {
  token_usage usage;
  dom::parser parser;
  dom::object o;
  if (!json.empty() && parser.parse(json.data(), json.size(), true).get_object().get(o) == simdjson::SUCCESS) merge_usage(o, usage);
  return usage;
}

}  // namespace hive::http
