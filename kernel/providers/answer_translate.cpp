// Whole answers, both ways.
#include <algorithm>
#include <utility>

#include "providers/json_read.hpp"
#include "providers/translate.hpp"
#include "providers/usage_json.hpp"

namespace hive::providers {

std::string_view finish_reason_of(std::string_view stop_reason) {
  if (stop_reason == "max_tokens" || stop_reason == "model_context_window_exceeded") return "length";
  if (stop_reason == "tool_use") return "tool_calls";
  if (stop_reason == "refusal") return "content_filter";
  return "stop";
}

std::string_view stop_reason_of(std::string_view finish_reason) {
  if (finish_reason == "length") return "max_tokens";
  if (finish_reason == "tool_calls" || finish_reason == "function_call") return "tool_use";
  if (finish_reason == "content_filter") return "refusal";
  return "end_turn";
}

token_counts counts_of_message(const json::object &usage) {
  token_counts n;
  n.known = usage.contains("input_tokens") || usage.contains("output_tokens");
  n.input = count_in(usage, "input_tokens");
  n.cache_read = count_in(usage, "cache_read_input_tokens");
  n.cache_write = count_in(usage, "cache_creation_input_tokens");
  n.output = count_in(usage, "output_tokens");
  return n;
}

token_counts counts_of_completion(const json::object &usage) {
  token_counts n;
  n.known = usage.contains("prompt_tokens") || usage.contains("completion_tokens");
  const uint64_t prompt = count_in(usage, "prompt_tokens");
  if (const json::object *details = object_in(usage, "prompt_tokens_details")) n.cache_read = std::min(prompt, count_in(*details, "cached_tokens"));
  n.input = prompt - n.cache_read;
  n.output = count_in(usage, "completion_tokens");
  return n;
}

json::object completion_usage(const token_counts &n) {
  json::object out{{"prompt_tokens", n.prompt()}, {"completion_tokens", n.output}, {"total_tokens", n.prompt() + n.output}};
  if (n.cache_read != 0) out["prompt_tokens_details"] = {{"cached_tokens", n.cache_read}};
  return out;
}

json::object message_usage(const token_counts &n) {
  json::object out{{"input_tokens", n.input}, {"output_tokens", n.output}};
  if (n.cache_read != 0) out["cache_read_input_tokens"] = n.cache_read;
  return out;
}

result<translated_answer> chat_answer(std::string_view text, const answer_context &context) {
  const auto read = read_object(text, "the answer");
  if (!read) return read.why();
  const json::object &message = *read;
  const json::array *content = array_in(message, "content");
  if (content == nullptr) return fail(errc::invalid, "the answer holds no content");

  std::string words;
  bool spoke = false;
  json::array calls;
  for (const json::value &each : *content) {
    const json::object *block = each.if_object();
    if (block == nullptr) continue;
    const std::string_view type = text_in(*block, "type");
    if (type == "text") {
      spoke = true;
      words += text_in(*block, "text");
    } else if (type == "tool_use") {
      const json::value *input = member(*block, "input");
      calls.push_back(json::object{{"id", text_in(*block, "id")},
                                   {"type", "function"},
                                   {"function", {{"name", text_in(*block, "name")}, {"arguments", input != nullptr ? json::serialize(*input) : "{}"}}}});
    }
  }
  if (!spoke && (calls.empty() || !context.tools)) return fail(errc::invalid, "the answer holds no text content");

  json::object said{{"role", "assistant"}, {"content", nullptr}, {"refusal", nullptr}};
  if (!words.empty() || calls.empty()) said["content"] = words;
  if (!calls.empty()) said["tool_calls"] = std::move(calls);

  translated_answer out;
  json::object whole{{"id", text_in(message, "id")}, {"object", "chat.completion"}, {"created", context.created_s}};
  const std::string_view model = text_in(message, "model");
  whole["model"] = json::value(model.empty() ? context.model : model);
  json::object choice{{"index", 0}, {"message", std::move(said)}, {"logprobs", nullptr}};
  choice["finish_reason"] = json::value(finish_reason_of(text_in(message, "stop_reason")));
  whole["choices"] = json::array{std::move(choice)};
  if (const json::object *usage = object_in(message, "usage")) {
    out.usage = counts_of_message(*usage);
    whole["usage"] = completion_usage(out.usage);
  }
  whole["processed_by"] = json::value(context.processed_by);
  out.text = json::serialize(whole);
  return out;
}

namespace {

json::array blocks_of(const json::object &message) {
  json::array blocks;
  std::string words = joined_text(member(message, "content"), "");
  words += text_in(message, "refusal");
  if (!words.empty()) blocks.push_back(json::object{{"type", "text"}, {"text", words}});
  const json::array *calls = array_in(message, "tool_calls");
  if (calls == nullptr) return blocks;
  for (const json::value &each : *calls) {
    const json::object *call = each.if_object();
    const json::object *function = call != nullptr ? object_in(*call, "function") : nullptr;
    if (function == nullptr) continue;
    json::object input;
    const std::string_view arguments = text_in(*function, "arguments");
    if (auto parsed = read_object(arguments, "arguments")) input = std::move(*parsed);
    else if (!arguments.empty()) input["arguments"] = json::value(arguments);  // the model's own slip, kept
    blocks.push_back(json::object{{"type", "tool_use"}, {"id", text_in(*call, "id")}, {"name", text_in(*function, "name")}, {"input", std::move(input)}});
  }
  return blocks;
}

}  // namespace

result<translated_answer> messages_answer(std::string_view text, const answer_context &context) {
  const auto read = read_object(text, "the answer");
  if (!read) return read.why();
  const json::array *choices = array_in(*read, "choices");
  if (choices == nullptr || choices->empty()) return fail(errc::invalid, "the answer holds no choices");
  const json::object *choice = choices->front().if_object();
  const json::object *message = choice != nullptr ? object_in(*choice, "message") : nullptr;
  if (message == nullptr) return fail(errc::invalid, "the answer holds no message");

  translated_answer out;
  json::object whole{{"id", text_in(*read, "id")}, {"type", "message"}, {"role", "assistant"}};
  const std::string_view model = text_in(*read, "model");
  whole["model"] = json::value(model.empty() ? context.model : model);
  const json::array *calls = array_in(*message, "tool_calls");
  const bool called = calls != nullptr && !calls->empty();
  whole["content"] = blocks_of(*message);
  const std::string_view reason = stop_reason_of(text_in(*choice, "finish_reason"));
  whole["stop_reason"] = json::value(called && reason == "end_turn" ? std::string_view("tool_use") : reason);
  whole["stop_sequence"] = nullptr;
  if (const json::object *usage = object_in(*read, "usage")) out.usage = counts_of_completion(*usage);
  whole["usage"] = message_usage(out.usage);
  whole["processed_by"] = json::value(context.processed_by);
  out.text = json::serialize(whole);
  return out;
}

}  // namespace hive::providers
