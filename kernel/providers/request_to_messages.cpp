// A chat request in the form of Messages.
#include <algorithm>
#include <utility>

#include "providers/json_read.hpp"
#include "providers/translate.hpp"

namespace hive::providers {

namespace {

constexpr uint64_t default_max_tokens = 4096;  // Messages must be told one

status no_messages(const std::string &what, std::string where) {
  return fail(errc::unsupported, what + " cannot be told to Anthropic's Messages API", std::move(where));
}

// "data:TYPE;base64,BYTES"
bool split_data_url(std::string_view url, std::string_view &type, std::string_view &bytes) {
  constexpr std::string_view scheme = "data:", mark = ";base64,";
  if (!url.starts_with(scheme)) return false;
  const size_t at = url.find(mark);
  if (at == std::string_view::npos) return false;
  type = url.substr(scheme.size(), at - scheme.size());
  type = type.substr(0, type.find(';'));
  bytes = url.substr(at + mark.size());
  return true;
}

json::object source_of(std::string_view url) {
  std::string_view type, bytes;
  if (split_data_url(url, type, bytes)) return {{"type", "base64"}, {"media_type", type}, {"data", bytes}};
  return {{"type", "url"}, {"url", url}};
}

json::object text_block(std::string_view text) { return {{"type", "text"}, {"text", text}}; }

json::value parsed_arguments(std::string_view text) {
  if (text.empty()) return json::object();
  if (auto read = read_object(text, "arguments")) return std::move(*read);
  return json::object{{"arguments", text}};  // a model's own slip: kept as it is
}

class messages_conversation {
 public:
  status add(const json::value &one, const std::string &where) {
    const json::object *message = one.if_object();
    if (message == nullptr) return fail(errc::invalid, "a message is no object", where);
    const std::string_view role = text_in(*message, "role");
    const json::value *content = member(*message, "content");
    if (role == "system" || role == "developer") {
      add_system(joined_text(content, "\n"));
      return {};
    }
    if (role == "tool") {
      blocks("user").push_back(json::object{
          {"type", "tool_result"}, {"tool_use_id", text_in(*message, "tool_call_id")}, {"content", joined_text(content, "\n")}});
      return {};
    }
    if (role == "assistant") return add_answer(*message, content, where);
    if (role != "user") return no_messages("a message of the role \"" + std::string(role) + "\"", where);
    return add_parts(content, blocks("user"), where);
  }

  void add_system(const std::string &text) {
    if (text.empty()) return;
    if (!system.empty()) system += '\n';
    system += text;
  }

  // One text alone is a string, as most clients write it.
  json::array finish() {
    json::array out;
    for (json::value &message : messages_) {
      json::array &content = message.as_object()["content"].as_array();
      if (content.empty()) continue;
      if (content.size() == 1 && content[0].as_object()["type"] == "text") message.as_object()["content"] = json::value(content[0].as_object()["text"]);
      out.push_back(std::move(message));
    }
    return out;
  }

  std::string system;

 private:
  // Messages wants the turns in turn: results of tools and what the user says next are one.
  json::array &blocks(std::string_view role) {
    if (messages_.empty() || text_in(messages_.back().as_object(), "role") != role)
      messages_.push_back(json::object{{"role", role}, {"content", json::array()}});
    return messages_.back().as_object()["content"].as_array();
  }

  static status add_parts(const json::value *content, json::array &into, const std::string &where) {
    if (content == nullptr) return {};
    if (const std::string_view text = text_of(content); !text.empty()) into.push_back(text_block(text));
    const json::array *parts = content->if_array();
    if (parts == nullptr) return {};
    for (size_t i = 0; i < parts->size(); ++i)
      if (const status s = add_part((*parts)[i], into, where + ".content[" + std::to_string(i) + "]"); !s) return s;
    return {};
  }

  static status add_part(const json::value &one, json::array &into, const std::string &where) {
    const json::object *part = one.if_object();
    if (part == nullptr) return fail(errc::invalid, "a part of the content is no object", where);
    const std::string_view type = text_in(*part, "type");
    if (type == "text" || type == "refusal") {
      const std::string_view text = text_in(*part, type);
      if (!text.empty()) into.push_back(text_block(text));
      return {};
    }
    if (type == "image_url") {
      const json::object *image = object_in(*part, "image_url");
      const std::string_view url = image != nullptr ? text_in(*image, "url") : text_in(*part, "image_url");
      if (url.empty()) return fail(errc::invalid, "an image without its url", where);
      into.push_back(json::object{{"type", "image"}, {"source", source_of(url)}});
      return {};
    }
    if (type == "file") {
      const json::object *file = object_in(*part, "file");
      std::string_view media, bytes;
      if (file == nullptr || !split_data_url(text_in(*file, "file_data"), media, bytes)) return no_messages("a file that is not in the request", where);
      into.push_back(json::object{{"type", "document"}, {"source", source_of(text_in(*file, "file_data"))}});
      return {};
    }
    return no_messages("a part of the type \"" + std::string(type) + "\"", where);
  }

  status add_answer(const json::object &message, const json::value *content, const std::string &where) {
    json::array &into = blocks("assistant");
    if (const status s = add_parts(content, into, where); !s) return s;
    if (member(message, "function_call") != nullptr) return no_messages("function_call, which tool_calls have replaced,", where);
    const json::array *calls = array_in(message, "tool_calls");
    if (calls == nullptr) return {};
    for (const json::value &one : *calls) {
      const json::object *call = one.if_object();
      const json::object *function = call != nullptr ? object_in(*call, "function") : nullptr;
      if (function == nullptr) return no_messages("a tool call that is no function's", where + ".tool_calls");
      into.push_back(json::object{{"type", "tool_use"},
                                  {"id", text_in(*call, "id")},
                                  {"name", text_in(*function, "name")},
                                  {"input", parsed_arguments(text_in(*function, "arguments"))}});
    }
    return {};
  }

  json::array messages_;
};

result<json::array> tools_of(const json::array &given) {
  json::array out;
  for (size_t i = 0; i < given.size(); ++i) {
    const json::object *tool = given[i].if_object();
    const json::object *function = tool != nullptr ? object_in(*tool, "function") : nullptr;
    if (function == nullptr) return no_messages("a tool that is no function", "tools[" + std::to_string(i) + "]");
    json::object made{{"name", text_in(*function, "name")}};
    if (const auto words = text_in(*function, "description"); !words.empty()) made["description"] = words;
    const json::object *schema = object_in(*function, "parameters");
    made["input_schema"] = schema != nullptr ? *schema : json::object{{"type", "object"}, {"properties", json::object()}};
    out.push_back(std::move(made));
  }
  return out;
}

result<json::object> choice_of(const json::value &given) {
  const std::string_view word = text_of(&given);
  if (word == "auto" || word == "none") return json::object{{"type", word}};
  if (word == "required") return json::object{{"type", "any"}};
  const json::object *o = given.if_object();
  const json::object *function = o != nullptr ? object_in(*o, "function") : nullptr;
  if (function == nullptr) return no_messages("this tool_choice", "tool_choice");
  return json::object{{"type", "tool"}, {"name", text_in(*function, "name")}};
}

status add_messages_tools(const json::object &chat, json::object &out) {
  const json::array *given = array_in(chat, "tools");
  if (member(chat, "functions") != nullptr) return no_messages("functions, which tools have replaced,", "functions");
  if (given == nullptr || given->empty()) return {};
  auto tools = tools_of(*given);
  if (!tools) return tools.why();
  out["tools"] = std::move(*tools);
  json::object choice;
  if (const json::value *said = member(chat, "tool_choice")) {
    auto made = choice_of(*said);
    if (!made) return made.why();
    choice = std::move(*made);
  }
  if (false_in(chat, "parallel_tool_calls")) {
    if (choice.empty()) choice["type"] = "auto";
    if (choice["type"] != "none") choice["disable_parallel_tool_use"] = true;
  }
  if (!choice.empty()) out["tool_choice"] = std::move(choice);
  return {};
}

status add_format(const json::object &chat, json::object &out) {
  const json::object *format = object_in(chat, "response_format");
  if (format == nullptr || text_in(*format, "type") == "text") return {};
  const json::object *schema = object_in(*format, "json_schema");
  const json::object *inner = schema != nullptr ? object_in(*schema, "schema") : nullptr;
  if (inner == nullptr) return no_messages("a response_format without a schema", "response_format");
  out["output_config"] = {{"format", {{"type", "json_schema"}, {"schema", *inner}}}};
  return {};
}

void add_sampling(const json::object &chat, json::object &out) {
  // OpenAI's scale ends at 2.
  if (const json::value *t = member(chat, "temperature"); t != nullptr && t->is_number()) {
    if (number_of(*t) > 1) out["temperature"] = 1;
    else out["temperature"] = *t;
  }
  if (const json::value *p = member(chat, "top_p"); p != nullptr && p->is_number()) out["top_p"] = *p;
  const json::value *stop = member(chat, "stop");
  if (stop == nullptr) return;
  json::array ends;
  const auto take = [&](std::string_view text) {
    if (text.find_first_not_of(" \t\r\n") != std::string_view::npos) ends.push_back(json::value(text));  // others are refused there
  };
  take(text_of(stop));
  if (const json::array *list = stop->if_array())
    for (const json::value &each : *list) take(text_of(&each));
  if (!ends.empty()) out["stop_sequences"] = std::move(ends);
}

status refuse_what_changes_the_answer(const json::object &chat) {
  if (count_in(chat, "n") > 1) return no_messages("n > 1", "n");
  if (member(chat, "audio") != nullptr) return no_messages("audio", "audio");
  if (const json::array *kinds = array_in(chat, "modalities"))
    for (const json::value &kind : *kinds)
      if (text_of(&kind) != "text") return no_messages("a modality other than text", "modalities");
  return {};
}

}  // namespace

result<std::string> messages_request(std::string_view text, std::string_view model) {
  const auto read = read_object(text, "the request");
  if (!read) return read.why();
  const json::object &chat = *read;
  if (const status s = refuse_what_changes_the_answer(chat); !s) return s;

  json::object out{{"model", model}};
  const uint64_t newer = count_in(chat, "max_completion_tokens"), older = count_in(chat, "max_tokens");
  out["max_tokens"] = newer != 0 ? newer : older != 0 ? older : default_max_tokens;

  messages_conversation talk;
  talk.add_system(joined_text(member(chat, "system"), "\n"));
  if (const json::array *messages = array_in(chat, "messages"))
    for (size_t i = 0; i < messages->size(); ++i)
      if (const status s = talk.add((*messages)[i], "messages[" + std::to_string(i) + "]"); !s) return s;
  json::array messages = talk.finish();
  if (messages.empty()) return fail(errc::invalid, "the request holds no non-system message", "messages");
  if (!talk.system.empty()) out["system"] = talk.system;
  out["messages"] = std::move(messages);

  add_sampling(chat, out);
  if (const status s = add_messages_tools(chat, out); !s) return s;
  if (const status s = add_format(chat, out); !s) return s;
  if (true_in(chat, "stream")) out["stream"] = true;
  return json::serialize(out);
}

}  // namespace hive::providers
