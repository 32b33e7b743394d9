// Chat completions and completions.
#include <boost/json/array.hpp>

#include "engine_sim/json_read.hpp"
#include "engine_sim/wire.hpp"

namespace hive::sim {

namespace {

constexpr std::string_view arguments_start = "{\"text\":\"", arguments_end = "\"}";

std::string usage_of(const generation_facts &f) {
  return "{\"prompt_tokens\":" + std::to_string(f.prompt_tokens) + ",\"completion_tokens\":" + std::to_string(f.output_tokens) +
         ",\"total_tokens\":" + std::to_string(f.prompt_tokens + f.output_tokens) +
         (f.cached_tokens ? ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(*f.cached_tokens) + "}}" : std::string("}"));
}

// Both routes differ in what stands in a choice.
class openai_wire : public wire {
 public:
  openai_wire(generation_facts f, std::string_view id_prefix, std::string_view chunk_object) : wire(std::move(f)) {
    head_ = "{\"id\":\"" + std::string(id_prefix) + facts_.id + "\",\"object\":\"";
    chunk_ = "data: " + head_ + std::string(chunk_object) + "\",\"created\":1700000000,\"model\":" + facts_.model + ",\"choices\":[";
  }

  void finish(std::string &out) override {
    last_choice(out);
    if (facts_.include_usage) (out += chunk_) += "],\"usage\":" + usage_of(facts_) + "}\n\n";
    out += "data: [DONE]\n\n";
  }

  void error(std::string_view message, std::string &out) override {
    out += "data: {\"error\":{\"message\":" + quoted(message) + ",\"type\":\"InternalServerError\",\"code\":500}}\n\n";
  }

 protected:
  virtual void last_choice(std::string &out) = 0;
  void event(std::string_view choice, std::string &out) const { ((out += chunk_) += choice) += "]}\n\n"; }
  std::string answer(std::string_view object, std::string_view choice) const {
    return head_ + std::string(object) + "\",\"created\":1700000000,\"model\":" + facts_.model + ",\"choices\":[" +
           std::string(choice) + "],\"usage\":" + usage_of(facts_) + "}";
  }

 private:
  std::string head_, chunk_;
};

class chat final : public openai_wire {
 public:
  explicit chat(generation_facts f) : openai_wire(std::move(f), "chatcmpl-sim-", "chat.completion.chunk") {}

  void begin(std::string &out) override {
    delta(R"({"role":"assistant","content":""})", "null", out);
    if (!facts_.tool.empty()) delta("{\"tool_calls\":[" + call(", \"index\":0", "") + "]}", "null", out);
  }

  void token(uint32_t index, std::string &out) override {
    if (facts_.tool.empty()) return delta("{\"content\":" + piece(index) + "}", "null", out);
    delta("{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":" + piece(index) + "}}]}", "null", out);
  }

  std::string whole() override {
    const std::string message = facts_.tool.empty() ? "{\"role\":\"assistant\",\"content\":" + quoted(facts_.text()) + "}"
                                                    : "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[" + call("", facts_.text()) + "]}";
    return answer("chat.completion", "{\"index\":0,\"message\":" + message + ",\"finish_reason\":" + std::string(reason()) + "}");
  }

 private:
  std::string_view reason() const { return facts_.tool.empty() ? "\"length\"" : "\"tool_calls\""; }
  std::string call(std::string_view more, std::string_view arguments) const {
    return "{\"id\":\"call-sim-" + facts_.id + "\",\"type\":\"function\"" + std::string(more) + ",\"function\":{\"name\":" +
           quoted(facts_.tool) + ",\"arguments\":" + quoted(arguments) + "}}";
  }
  void delta(std::string_view what, std::string_view finish, std::string &out) const {
    choice_.assign("{\"index\":0,\"delta\":").append(what).append(",\"finish_reason\":").append(finish) += '}';
    event(choice_, out);
  }
  void last_choice(std::string &out) override { delta("{}", reason(), out); }

  mutable std::string choice_;
};

class completion final : public openai_wire {
 public:
  explicit completion(generation_facts f) : openai_wire(std::move(f), "cmpl-sim-", "text_completion") {}
  void begin(std::string &) override {}
  void token(uint32_t index, std::string &out) override { event(choice(piece(index), "null"), out); }
  std::string whole() override { return answer("text_completion", choice(quoted(facts_.text()), "\"length\"")); }

 private:
  static std::string choice(std::string_view text, std::string_view finish) {
    return "{\"index\":0,\"text\":" + std::string(text) + ",\"logprobs\":null,\"finish_reason\":" + std::string(finish) + "}";
  }
  void last_choice(std::string &out) override { event(choice("\"\"", "\"length\""), out); }
};

}  // namespace

std::string generation_facts::text() const {
  std::string out;
  for (uint32_t i = 0; i < output_tokens; ++i) out += word;
  return tool.empty() ? out : std::string(arguments_start) + out + std::string(arguments_end);
}

std::string wire::piece(uint32_t index) const {
  if (facts_.tool.empty()) return quoted(facts_.word);
  std::string out;
  if (index == 0) out += arguments_start;
  out += facts_.word;
  if (index + 1 == facts_.output_tokens) out += arguments_end;
  return quoted(out);
}

std::string wanted_tool(const boost::json::object &request) {
  const auto *tools = request.if_contains("tools");
  if (tools == nullptr || !tools->is_array() || tools->as_array().empty() || !tools->as_array()[0].is_object()) return {};
  if (const auto *choice = request.if_contains("tool_choice"); choice != nullptr && choice->is_string() && choice->as_string() == "none") return {};
  const boost::json::object &tool = tools->as_array()[0].as_object();
  for (const char *key : {"messages", "input"}) {
    const auto *list = request.if_contains(key);
    if (list == nullptr || !list->is_array() || list->as_array().empty() || !list->as_array().back().is_object()) continue;
    const boost::json::object &last = list->as_array().back().as_object();
    if (text_of(last, "role") == "tool" || text_of(last, "type") == "function_call_output") return {};
    const auto *content = last.if_contains("content");
    if (content == nullptr || !content->is_array() || content->as_array().empty() || !content->as_array()[0].is_object()) continue;
    if (text_of(content->as_array()[0].as_object(), "type") == "tool_result") return {};
  }
  const auto *function = tool.if_contains("function");
  return function != nullptr && function->is_object() ? text_of(function->as_object(), "name") : text_of(tool, "name");
}

std::unique_ptr<wire> chat_wire(generation_facts f) { return std::make_unique<chat>(std::move(f)); }
std::unique_ptr<wire> completion_wire(generation_facts f) { return std::make_unique<completion>(std::move(f)); }

}  // namespace hive::sim
