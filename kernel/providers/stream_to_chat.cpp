// Messages' events in the form of chat chunks.
#include <map>
#include <utility>

#include "providers/json_read.hpp"
#include "providers/stream_error.hpp"
#include "providers/translate.hpp"
#include "providers/usage_json.hpp"

namespace hive::providers {

namespace {

class to_chat final : public stream_translator {
 public:
  explicit to_chat(const answer_context &context)
      : model_(context.model), created_s_(context.created_s), include_usage_(context.include_usage) {}

  status event(std::string_view data, std::string &out) override {
    if (over_) return {};
    const auto read = read_object(data, "an event");
    if (!read) return read.why();
    const json::object &e = *read;
    const std::string_view type = text_in(e, "type");
    if (type == "error") return reported_error(e);
    if (type == "message_start") return start(e, out);
    if (type == "ping") return {};
    if (!started_) return fail(errc::invalid, "the stream does not begin with message_start");
    if (type == "content_block_start") return block_start(e, out);
    if (type == "content_block_delta") return block_delta(e, out);
    if (type == "content_block_stop") return block_stop(e, out);
    if (type == "message_delta") return message_delta(e, out);
    if (type == "message_stop") return stop(out);
    return {};
  }

 private:
  struct tool {
    uint64_t index = 0;       // among the tool calls
    bool told = false;        // some arguments were passed on
    std::string input;        // what the block began with
  };

  void chunk(json::object delta, json::value finish, std::string &out) {
    json::object choice{{"index", 0}, {"delta", std::move(delta)}, {"logprobs", nullptr}};
    choice["finish_reason"] = std::move(finish);
    json::object whole = head();
    whole["choices"] = json::array{std::move(choice)};
    write(whole, out);
  }
  json::object head() const {
    return {{"id", id_}, {"object", "chat.completion.chunk"}, {"created", created_s_}, {"model", model_}};
  }
  static void write(const json::object &o, std::string &out) { out.append("data: ").append(json::serialize(o)).append("\n\n"); }

  void arguments(uint64_t index, std::string_view text, std::string &out) {
    chunk({{"tool_calls", json::array{json::object{{"index", index}, {"function", {{"arguments", text}}}}}}}, nullptr, out);
  }

  status start(const json::object &e, std::string &out) {
    if (started_) return fail(errc::invalid, "the stream begins twice");
    started_ = true;
    if (const json::object *message = object_in(e, "message")) {
      id_ = text_in(*message, "id");
      if (const std::string_view model = text_in(*message, "model"); !model.empty()) model_ = model;
      if (const json::object *usage = object_in(*message, "usage")) usage_ = counts_of_message(*usage);
    }
    chunk({{"role", "assistant"}, {"content", ""}}, nullptr, out);
    return {};
  }

  status block_start(const json::object &e, std::string &out) {
    const json::object *block = object_in(e, "content_block");
    if (block == nullptr) return {};
    const std::string_view type = text_in(*block, "type");
    if (type == "text") {
      if (const std::string_view text = text_in(*block, "text"); !text.empty()) chunk({{"content", text}}, nullptr, out);
    } else if (type == "tool_use") {
      tool t;
      t.index = tools_.size();
      if (const json::object *input = object_in(*block, "input"); input != nullptr && !input->empty()) t.input = json::serialize(*input);
      json::object call{{"index", t.index},
                        {"id", text_in(*block, "id")},
                        {"type", "function"},
                        {"function", {{"name", text_in(*block, "name")}, {"arguments", ""}}}};
      if (!tools_.emplace(count_in(e, "index"), std::move(t)).second) return fail(errc::invalid, "a block begins twice");
      chunk({{"tool_calls", json::array{std::move(call)}}}, nullptr, out);
    }
    return {};
  }

  status block_delta(const json::object &e, std::string &out) {
    const json::object *delta = object_in(e, "delta");
    if (delta == nullptr) return {};
    const std::string_view type = text_in(*delta, "type");
    if (type == "text_delta") {
      if (const std::string_view text = text_in(*delta, "text"); !text.empty()) chunk({{"content", text}}, nullptr, out);
    } else if (type == "input_json_delta") {
      const std::string_view text = text_in(*delta, "partial_json");
      const auto found = tools_.find(count_in(e, "index"));
      if (found == tools_.end()) return fail(errc::invalid, "a piece of a tool call comes before its block");
      if (text.empty()) return {};
      found->second.told = true;
      arguments(found->second.index, text, out);
    }
    return {};
  }

  // Arguments are JSON there even if there are none; here such a block has no delta at all.
  status block_stop(const json::object &e, std::string &out) {
    const auto found = tools_.find(count_in(e, "index"));
    if (found == tools_.end() || found->second.told) return {};
    found->second.told = true;
    arguments(found->second.index, found->second.input.empty() ? "{}" : std::string_view(found->second.input), out);
    return {};
  }

  status message_delta(const json::object &e, std::string &out) {
    if (const json::object *usage = object_in(e, "usage")) {
      const token_counts told = counts_of_message(*usage);
      if (told.known) {
        usage_.known = true;
        usage_.output = told.output;
        if (told.prompt() != 0) {  // cumulative, and not told by all
          usage_.input = told.input;
          usage_.cache_read = told.cache_read;
          usage_.cache_write = told.cache_write;
        }
      }
    }
    const json::object *delta = object_in(e, "delta");
    const std::string_view reason = delta != nullptr ? text_in(*delta, "stop_reason") : std::string_view();
    if (!reason.empty()) chunk({}, json::value(finish_reason_of(reason)), out);
    return {};
  }

  status stop(std::string &out) {
    if (include_usage_) {
      json::object whole = head();
      whole["choices"] = json::array();
      whole["usage"] = completion_usage(usage_);
      write(whole, out);
    }
    out += "data: [DONE]\n\n";
    over_ = true;
    return {};
  }

  std::string id_, model_;
  const uint64_t created_s_;
  const bool include_usage_;
  bool started_ = false;
  std::map<uint64_t, tool> tools_;  // by block
};

}  // namespace

std::unique_ptr<stream_translator> stream_to_chat(const answer_context &context) { return std::make_unique<to_chat>(context); }

}  // namespace hive::providers
