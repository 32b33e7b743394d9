// Chat chunks in the form of Messages' events.
#include <optional>
#include <utility>

#include "providers/json_read.hpp"
#include "providers/stream_error.hpp"
#include "providers/translate.hpp"
#include "providers/usage_json.hpp"

namespace hive::providers {

namespace {

class to_messages final : public stream_translator {
 public:
  explicit to_messages(const answer_context &context) : model_(context.model) {}

  status event(std::string_view data, std::string &out) override {
    if (over_) return {};
    if (data == "[DONE]") return finish(out);
    const auto read = read_object(data, "an event");
    if (!read) return read.why();
    const json::object &chunk = *read;
    if (member(chunk, "error") != nullptr) return reported_error(chunk);
    if (const json::object *usage = object_in(chunk, "usage")) {
      const token_counts told = counts_of_completion(*usage);
      if (told.known) usage_ = told;
    }
    const json::array *choices = array_in(chunk, "choices");
    if (!started_ && choices != nullptr && !choices->empty()) start(chunk, out);  // nothing else is a part of an answer
    const json::object *choice = choices != nullptr && !choices->empty() ? choices->front().if_object() : nullptr;
    if (choice == nullptr || count_in(*choice, "index") != 0) return {};
    if (const json::object *delta = object_in(*choice, "delta"))
      if (const status s = take(*delta, out); !s) return s;
    if (const std::string_view reason = text_in(*choice, "finish_reason"); !reason.empty()) reason_ = reason;
    return {};
  }

 private:
  static void write(std::string_view name, const json::object &o, std::string &out) {
    out.append("event: ").append(name).append("\ndata: ").append(json::serialize(o)).append("\n\n");
  }

  void start(const json::object &chunk, std::string &out) {
    started_ = true;
    if (const std::string_view model = text_in(chunk, "model"); !model.empty()) model_ = model;
    write("message_start",
          {{"type", "message_start"},
           {"message", {{"id", text_in(chunk, "id")},
                        {"type", "message"},
                        {"role", "assistant"},
                        {"model", model_},
                        {"content", json::array()},
                        {"stop_reason", nullptr},
                        {"stop_sequence", nullptr},
                        {"usage", {{"input_tokens", 0}, {"output_tokens", 0}}}}}},
          out);
  }

  status take(const json::object &delta, std::string &out) {
    for (const char *kind : {"content", "refusal"}) {
      const std::string_view text = text_in(delta, kind);
      if (text.empty()) continue;
      if (!open_ || tool_) begin({{"type", "text"}, {"text", ""}}, std::nullopt, out);
      write("content_block_delta",
            {{"type", "content_block_delta"}, {"index", block_}, {"delta", {{"type", "text_delta"}, {"text", text}}}}, out);
    }
    const json::array *calls = array_in(delta, "tool_calls");
    if (calls == nullptr) return {};
    for (const json::value &each : *calls)
      if (const json::object *call = each.if_object())
        if (const status s = take_call(*call, out); !s) return s;
    return {};
  }

  // Blocks stand one behind the other there; a call that goes on after the next has begun has no form.
  status take_call(const json::object &call, std::string &out) {
    const uint64_t index = count_in(call, "index");
    const json::object *function = object_in(call, "function");
    if (!tool_ || *tool_ != index) {
      if (index < calls_) return fail(errc::unsupported, "the pieces of two tool calls are mixed");
      const std::string_view id = text_in(call, "id");
      const std::string made = "call_" + std::to_string(index);
      const std::string_view name = function != nullptr ? text_in(*function, "name") : std::string_view();
      begin({{"type", "tool_use"}, {"id", id.empty() ? std::string_view(made) : id}, {"name", name}, {"input", json::object()}}, index, out);
      calls_ = index + 1;
    }
    const std::string_view text = function != nullptr ? text_in(*function, "arguments") : std::string_view();
    if (!text.empty())
      write("content_block_delta",
            {{"type", "content_block_delta"}, {"index", block_}, {"delta", {{"type", "input_json_delta"}, {"partial_json", text}}}}, out);
    return {};
  }

  void begin(json::object block, std::optional<uint64_t> tool, std::string &out) {
    close(out);
    open_ = true;
    tool_ = tool;
    write("content_block_start", {{"type", "content_block_start"}, {"index", block_}, {"content_block", std::move(block)}}, out);
  }

  void close(std::string &out) {
    if (!open_) return;
    write("content_block_stop", {{"type", "content_block_stop"}, {"index", block_}}, out);
    open_ = false;
    tool_.reset();
    ++block_;
  }

  status finish(std::string &out) {
    if (!started_) return fail(errc::invalid, "the stream ends before it has begun");
    close(out);
    std::string_view reason = stop_reason_of(reason_);
    if (reason == "end_turn" && calls_ > 0) reason = "tool_use";
    write("message_delta",
          {{"type", "message_delta"}, {"delta", {{"stop_reason", reason}, {"stop_sequence", nullptr}}}, {"usage", message_usage(usage_)}}, out);
    write("message_stop", {{"type", "message_stop"}}, out);
    over_ = true;
    return {};
  }

  std::string model_, reason_;
  bool started_ = false, open_ = false;
  uint64_t block_ = 0;               // the open one, or the next
  std::optional<uint64_t> tool_;     // of the open block: which call it is
  uint64_t calls_ = 0;               // calls with a lower index have begun
};

}  // namespace

std::unique_ptr<stream_translator> stream_to_messages(const answer_context &context) { return std::make_unique<to_messages>(context); }

}  // namespace hive::providers
