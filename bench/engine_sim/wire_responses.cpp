// OpenAI's responses: named, numbered events, no [DONE].
#include "engine_sim/json_read.hpp"
#include "engine_sim/wire.hpp"

namespace hive::sim {

namespace {

class responses final : public wire {
 public:
  using wire::wire;

  void begin(std::string &out) override {
    event("response.created", "\"response\":" + response("in_progress", "[]", false), out);
    event("response.in_progress", "\"response\":" + response("in_progress", "[]", false), out);
    event("response.output_item.added", "\"output_index\":0,\"item\":" + item("in_progress", "", false), out);
    if (facts_.tool.empty()) event("response.content_part.added", place() + ",\"part\":" + part(""), out);
  }

  void token(uint32_t index, std::string &out) override {
    if (facts_.tool.empty()) return event("response.output_text.delta", place() + ",\"logprobs\":[],\"delta\":" + piece(index), out);
    event("response.function_call_arguments.delta", call_place() + ",\"delta\":" + piece(index), out);
  }

  void finish(std::string &out) override {
    const std::string text = facts_.text();
    if (facts_.tool.empty()) {
      event("response.output_text.done", place() + ",\"logprobs\":[],\"text\":" + quoted(text), out);
      event("response.content_part.done", place() + ",\"part\":" + part(text), out);
    } else {
      event("response.function_call_arguments.done", call_place() + ",\"name\":" + quoted(facts_.tool) + ",\"arguments\":" + quoted(text), out);
    }
    event("response.output_item.done", "\"output_index\":0,\"item\":" + item("completed", text, true), out);
    event("response.completed", "\"response\":" + response("completed", "[" + item("completed", text, true) + "]", true), out);
  }

  void error(std::string_view text, std::string &out) override {
    event("error", "\"code\":\"server_error\",\"param\":null,\"message\":" + quoted(text), out);
  }

  std::string whole() override { return response("completed", "[" + item("completed", facts_.text(), true) + "]", true); }

 private:
  void event(std::string_view name, std::string_view fields, std::string &out) {
    ((((out += "event: ") += name) += "\ndata: {\"type\":\"") += name) += "\",\"sequence_number\":";
    (((out += std::to_string(sequence_++)) += ',') += fields) += "}\n\n";
  }
  std::string item_id() const { return (facts_.tool.empty() ? "msg_sim_" : "fc_sim_") + facts_.id; }
  std::string place() const { return "\"item_id\":\"" + item_id() + "\",\"output_index\":0,\"content_index\":0"; }
  std::string call_place() const { return "\"item_id\":\"" + item_id() + "\",\"output_index\":0"; }
  static std::string part(std::string_view text) { return "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":" + quoted(text) + "}"; }
  std::string item(std::string_view status, std::string_view text, bool full) const {
    const std::string start = "{\"id\":\"" + item_id() + "\",\"status\":\"" + std::string(status) + "\",\"type\":";
    if (facts_.tool.empty()) return start + "\"message\",\"role\":\"assistant\",\"content\":[" + (full ? part(text) : std::string()) + "]}";
    return start + "\"function_call\",\"call_id\":\"call-sim-" + facts_.id + "\",\"name\":" + quoted(facts_.tool) + ",\"arguments\":" + quoted(text) + "}";
  }
  std::string response(std::string_view status, std::string_view output, bool with_usage) const {
    const std::string usage = with_usage ? "{\"input_tokens\":" + std::to_string(facts_.prompt_tokens) +
                                               ",\"input_tokens_details\":{\"cached_tokens\":" +
                                               std::to_string(facts_.cached_tokens.value_or(0)) + "},\"output_tokens\":" +
                                               std::to_string(facts_.output_tokens) +
                                               ",\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":" +
                                               std::to_string(facts_.prompt_tokens + facts_.output_tokens) + "}"
                                         : std::string("null");
    return "{\"id\":\"resp_sim_" + facts_.id + "\",\"object\":\"response\",\"created_at\":1700000000,\"status\":\"" + std::string(status) +
           "\",\"error\":null,\"incomplete_details\":null,\"instructions\":null,\"metadata\":null,\"model\":" + facts_.model +
           ",\"output\":" + std::string(output) +
           ",\"parallel_tool_calls\":true,\"temperature\":1.0,\"tool_choice\":\"auto\",\"tools\":[],\"top_p\":1.0,\"usage\":" + usage + "}";
  }

  uint64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<wire> responses_wire(generation_facts f) { return std::make_unique<responses>(std::move(f)); }

}  // namespace hive::sim
