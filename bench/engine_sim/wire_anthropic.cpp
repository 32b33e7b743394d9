// Anthropic's messages: named events, no [DONE].
#include "engine_sim/json_read.hpp"
#include "engine_sim/wire.hpp"

namespace hive::sim {

namespace {

class messages final : public wire {
 public:
  using wire::wire;

  void begin(std::string &out) override {
    event("message_start", "\"message\":" + message("[]", "null", 0), out);
    event("content_block_start",
          facts_.tool.empty() ? std::string(R"("index":0,"content_block":{"type":"text","text":""})")
                              : "\"index\":0,\"content_block\":" + tool_block("{}"), out);
  }

  void token(uint32_t index, std::string &out) override {
    event("content_block_delta",
          std::string("\"index\":0,\"delta\":{") +
              (facts_.tool.empty() ? "\"type\":\"text_delta\",\"text\":" : "\"type\":\"input_json_delta\",\"partial_json\":") +
              piece(index) + "}", out);
  }

  void finish(std::string &out) override {
    event("content_block_stop", "\"index\":0", out);
    event("message_delta", "\"delta\":{\"stop_reason\":" + std::string(reason()) + ",\"stop_sequence\":null},\"usage\":" + usage(facts_.output_tokens), out);
    out += "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
  }

  void error(std::string_view text, std::string &out) override {
    event("error", "\"error\":{\"type\":\"api_error\",\"message\":" + quoted(text) + "}", out);
  }

  std::string whole() override {
    const std::string block = facts_.tool.empty() ? "{\"type\":\"text\",\"text\":" + quoted(facts_.text()) + "}" : tool_block(facts_.text());
    return message("[" + block + "]", reason(), facts_.output_tokens);
  }

 private:
  static void event(std::string_view name, std::string_view fields, std::string &out) {
    ((((out += "event: ") += name) += "\ndata: {\"type\":\"") += name) += "\",";
    (out += fields) += "}\n\n";
  }
  std::string_view reason() const { return facts_.tool.empty() ? "\"max_tokens\"" : "\"tool_use\""; }
  std::string tool_block(std::string_view input) const {
    return "{\"type\":\"tool_use\",\"id\":\"toolu_sim_" + facts_.id + "\",\"name\":" + quoted(facts_.tool) + ",\"input\":" + std::string(input) + "}";
  }
  std::string usage(uint32_t output) const {
    return "{\"input_tokens\":" + std::to_string(facts_.prompt_tokens) + ",\"output_tokens\":" + std::to_string(output) + "}";
  }
  std::string message(std::string_view content, std::string_view stop, uint32_t output) const {
    return "{\"id\":\"msg_sim_" + facts_.id + "\",\"type\":\"message\",\"role\":\"assistant\",\"content\":" + std::string(content) +
           ",\"model\":" + facts_.model + ",\"stop_reason\":" + std::string(stop) + ",\"stop_sequence\":null,\"usage\":" + usage(output) + "}";
  }
};

}  // namespace

std::unique_ptr<wire> messages_wire(generation_facts f) { return std::make_unique<messages>(std::move(f)); }

}  // namespace hive::sim
