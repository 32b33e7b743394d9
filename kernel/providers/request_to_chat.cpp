// A Messages request in the form of Chat Completions.
#include <utility>

#include "providers/json_read.hpp"
#include "providers/translate.hpp"

namespace hive::providers {

namespace {

status no_chat(const std::string &what, std::string where) {
  return fail(errc::unsupported, what + " cannot be told to OpenAI's Chat Completions API", std::move(where));
}

json::object text_part(std::string_view text) { return {{"type", "text"}, {"text", text}}; }

std::string data_url(const json::object &source) {
  return "data:" + std::string(text_in(source, "media_type")) + ";base64," + std::string(text_in(source, "data"));
}

result<json::object> image_part(const json::object &block, const std::string &where) {
  const json::object *source = object_in(block, "source");
  const std::string_view kind = source != nullptr ? text_in(*source, "type") : std::string_view();
  if (kind != "base64" && kind != "url") return no_chat("an image that is neither in the request nor at a url", where);
  const std::string url = kind == "url" ? std::string(text_in(*source, "url")) : data_url(*source);
  return json::object{{"type", "image_url"}, {"image_url", {{"url", url}}}};
}

result<json::object> document_part(const json::object &block, const std::string &where) {
  const json::object *source = object_in(block, "source");
  const std::string_view kind = source != nullptr ? text_in(*source, "type") : std::string_view();
  if (kind == "text") return text_part(text_in(*source, "data"));
  if (kind != "base64") return no_chat("a document that is not in the request", where);
  const std::string_view title = text_in(block, "title");
  return json::object{{"type", "file"},
                      {"file", {{"filename", title.empty() ? std::string_view("document.pdf") : title}, {"file_data", data_url(*source)}}}};
}

class chat_conversation {
 public:
  void add_system(const std::string &text) {
    if (!text.empty()) out.push_back(json::object{{"role", "system"}, {"content", text}});
  }

  status add(const json::value &one, const std::string &where) {
    const json::object *message = one.if_object();
    if (message == nullptr) return fail(errc::invalid, "a message is no object", where);
    const std::string_view role = text_in(*message, "role");
    const json::value *content = member(*message, "content");
    if (role == "system") {
      add_system(joined_text(content, "\n"));
      return {};
    }
    if (role == "user") return add_user(content, where);
    if (role == "assistant") return add_assistant(content, where);
    return no_chat("a message of the role \"" + std::string(role) + "\"", where);
  }

  json::array out;

 private:
  // Results of tools are messages of their own there, before what the user says beside them.
  status add_user(const json::value *content, const std::string &where) {
    if (const std::string_view text = text_of(content); !text.empty()) out.push_back(json::object{{"role", "user"}, {"content", text}});
    const json::array *blocks = content != nullptr ? content->if_array() : nullptr;
    if (blocks == nullptr) return {};
    json::array parts;
    for (size_t i = 0; i < blocks->size(); ++i)
      if (const status s = add_user_block((*blocks)[i], parts, where + ".content[" + std::to_string(i) + "]"); !s) return s;
    if (parts.empty()) return {};
    json::value said = std::move(parts);
    const json::array &all = said.get_array();
    if (all.size() == 1 && text_in(all[0].get_object(), "type") == "text") said = json::value(text_in(all[0].get_object(), "text"));
    out.push_back(json::object{{"role", "user"}, {"content", std::move(said)}});
    return {};
  }

  status add_user_block(const json::value &one, json::array &parts, const std::string &where) {
    const json::object *block = one.if_object();
    if (block == nullptr) return fail(errc::invalid, "a block of the content is no object", where);
    const std::string_view type = text_in(*block, "type");
    if (type == "tool_result") return add_tool_result(*block, parts, where);
    return add_part(*block, type, parts, where);
  }

  static status add_part(const json::object &block, std::string_view type, json::array &parts, const std::string &where) {
    if (type == "text") {
      parts.push_back(text_part(text_in(block, "text")));
      return {};
    }
    if (type != "image" && type != "document") return no_chat("a block of the type \"" + std::string(type) + "\"", where);
    auto part = type == "image" ? image_part(block, where) : document_part(block, where);
    if (!part) return part.why();
    parts.push_back(std::move(*part));
    return {};
  }

  // A tool's message holds text there; its images go to the user's message behind it.
  status add_tool_result(const json::object &block, json::array &parts, const std::string &where) {
    const json::value *content = member(block, "content");
    out.push_back(json::object{{"role", "tool"}, {"tool_call_id", text_in(block, "tool_use_id")}, {"content", joined_text(content, "\n")}});
    const json::array *inner = content != nullptr ? content->if_array() : nullptr;
    if (inner == nullptr) return {};
    for (const json::value &each : *inner) {
      const json::object *o = each.if_object();
      const std::string_view type = o != nullptr ? text_in(*o, "type") : std::string_view("text");
      if (type == "text") continue;
      if (const status s = add_part(*o, type, parts, where); !s) return s;
    }
    return {};
  }

  status add_assistant(const json::value *content, const std::string &where) {
    json::object said{{"role", "assistant"}};
    std::string text(text_of(content));
    json::array calls;
    if (const json::array *blocks = content != nullptr ? content->if_array() : nullptr) {
      for (const json::value &each : *blocks) {
        const json::object *block = each.if_object();
        const std::string_view type = block != nullptr ? text_in(*block, "type") : std::string_view();
        if (type == "text") {
          text += text_in(*block, "text");
        } else if (type == "tool_use") {
          const json::value *input = member(*block, "input");
          calls.push_back(json::object{{"id", text_in(*block, "id")},
                                       {"type", "function"},
                                       {"function", {{"name", text_in(*block, "name")}, {"arguments", input != nullptr ? json::serialize(*input) : "{}"}}}});
        } else if (type != "thinking" && type != "redacted_thinking") {
          return no_chat("a block of the type \"" + std::string(type) + "\"", where);
        }
      }
    }
    if (text.empty() && calls.empty()) return {};
    if (text.empty()) said["content"] = nullptr;
    else said["content"] = text;
    if (!calls.empty()) said["tool_calls"] = std::move(calls);
    out.push_back(std::move(said));
    return {};
  }
};

status add_chat_tools(const json::object &from, json::object &out) {
  const json::array *given = array_in(from, "tools");
  if (given == nullptr || given->empty()) return {};
  json::array tools;
  for (size_t i = 0; i < given->size(); ++i) {
    const json::object *tool = (*given)[i].if_object();
    const std::string_view type = tool != nullptr ? text_in(*tool, "type") : std::string_view("?");
    if (!type.empty() && type != "custom")
      return no_chat("a tool of the type \"" + std::string(type) + "\"", "tools[" + std::to_string(i) + "]");
    json::object function{{"name", text_in(*tool, "name")}};
    if (const auto words = text_in(*tool, "description"); !words.empty()) function["description"] = words;
    if (const json::object *schema = object_in(*tool, "input_schema")) function["parameters"] = *schema;
    tools.push_back(json::object{{"type", "function"}, {"function", std::move(function)}});
  }
  out["tools"] = std::move(tools);
  const json::object *choice = object_in(from, "tool_choice");
  if (choice == nullptr) return {};
  const std::string_view type = text_in(*choice, "type");
  if (type == "auto" || type == "none") out["tool_choice"] = type;
  else if (type == "any") out["tool_choice"] = "required";
  else if (type == "tool") out["tool_choice"] = {{"type", "function"}, {"function", {{"name", text_in(*choice, "name")}}}};
  else return no_chat("this tool_choice", "tool_choice");
  if (true_in(*choice, "disable_parallel_tool_use")) out["parallel_tool_calls"] = false;
  return {};
}

}  // namespace

result<std::string> chat_request(std::string_view text, std::string_view model) {
  const auto read = read_object(text, "the request");
  if (!read) return read.why();
  const json::object &from = *read;
  for (const char *elsewhere : {"container", "mcp_servers"})
    if (member(from, elsewhere) != nullptr) return no_chat(elsewhere, elsewhere);

  json::object out{{"model", model}};
  if (const uint64_t most = count_in(from, "max_tokens"); most != 0) out["max_completion_tokens"] = most;
  chat_conversation talk;
  talk.add_system(joined_text(member(from, "system"), "\n"));
  const size_t before = talk.out.size();
  if (const json::array *messages = array_in(from, "messages"))
    for (size_t i = 0; i < messages->size(); ++i)
      if (const status s = talk.add((*messages)[i], "messages[" + std::to_string(i) + "]"); !s) return s;
  if (talk.out.size() == before) return fail(errc::invalid, "the request holds no non-system message", "messages");
  out["messages"] = std::move(talk.out);

  for (const char *same : {"temperature", "top_p"})
    if (const json::value *v = member(from, same); v != nullptr && v->is_number()) out[same] = *v;
  if (const json::array *ends = array_in(from, "stop_sequences"); ends != nullptr && !ends->empty()) out["stop"] = *ends;
  if (const status s = add_chat_tools(from, out); !s) return s;
  if (const json::object *config = object_in(from, "output_config"))
    if (const json::object *format = object_in(*config, "format"))
      if (const json::object *schema = object_in(*format, "schema"))
        out["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "answer"}, {"schema", *schema}, {"strict", true}}}};
  if (true_in(from, "stream")) {
    out["stream"] = true;
    out["stream_options"] = {{"include_usage", true}};  // Messages always tells it
  }
  return json::serialize(out);
}

}  // namespace hive::providers
