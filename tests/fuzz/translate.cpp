// Translation between the two providers' APIs: what is made is well formed and complete whatever came in, the same however a stream
// is cut, and a refusal says why.
#include <boost/json.hpp>

#include <string>

#include "fuzz.hpp"
#include "providers/event_reader.hpp"
#include "providers/translate.hpp"

using namespace hive;
using fuzz::must;
namespace json = boost::json;

namespace {

json::value read(std::string_view text) {
  json::parse_options options;
  options.max_depth = 1024;
  options.allow_invalid_utf8 = true;
  boost::system::error_code error;
  json::value v = json::parse(text, error, {}, options);
  must(!error && v.is_object(), "what is made is a JSON object");
  return v;
}

providers::answer_context context(uint8_t kind) {
  providers::answer_context c;
  c.model = "the-model";
  c.processed_by = "provider:x";
  c.created_s = 1;
  c.tools = (kind & 8) != 0;
  c.include_usage = (kind & 16) != 0;
  return c;
}

void request(std::string_view text, bool chat) {
  const auto made = chat ? providers::messages_request(text, "the-model") : providers::chat_request(text, "the-model");
  if (!made) return must(!made.why().message().empty(), "a refusal says why");
  const json::value v = read(*made);
  must(v.at("model") == "the-model", "the model is the policy's");
  must(!v.at("messages").as_array().empty(), "somebody speaks");
  must(!chat || v.at("max_tokens").to_number<uint64_t>() > 0, "Messages is told a limit");
  for (const json::value &m : v.at("messages").as_array()) must(m.at("role").is_string(), "every message has its role");
}

void answer(std::string_view text, bool to_chat, uint8_t kind) {
  const auto made = to_chat ? providers::chat_answer(text, context(kind)) : providers::messages_answer(text, context(kind));
  if (!made) return must(!made.why().message().empty(), "a refusal says why");
  const json::value v = read(made->text);
  must(v.at("processed_by") == "provider:x", "it says who made it");
  if (to_chat) must(v.at("choices").as_array().size() == 1 && v.at("choices").at(0).at("finish_reason").is_string(), "a completion");
  else must(v.at("content").is_array() && v.at("stop_reason").is_string() && v.at("usage").at("output_tokens").is_number(), "a message");
}

struct streamed {
  std::string text;
  bool good = true, over = false;
  bool operator==(const streamed &) const = default;
};

template <class Cut>
streamed stream(std::string_view wire, bool to_chat, uint8_t kind, Cut &&next_size) {
  const auto t = to_chat ? providers::stream_to_chat(context(kind)) : providers::stream_to_messages(context(kind));
  providers::event_reader reader;
  streamed out;
  const auto take = [&](std::string_view data) {
    const size_t before = out.text.size();
    const bool was_over = t->over();
    const status s = t->event(data, out.text);
    must(!was_over || out.text.size() == before, "nothing follows the end");
    return s;
  };
  while (!wire.empty() && out.good) {
    const fuzz::exact_copy piece(wire.substr(0, next_size()));
    out.good = reader.feed(piece.text(), take).ok();
    wire.remove_prefix(piece.text().size());
  }
  if (out.good) out.good = reader.end(take).ok();
  out.over = t->over();
  return out;
}

void well_formed(const streamed &s, bool to_chat) {
  std::string_view rest = s.text;
  while (!rest.empty()) {
    const size_t end = rest.find("\n\n");
    must(end != std::string_view::npos, "only whole events");
    std::string_view event = rest.substr(0, end);
    rest.remove_prefix(end + 2);
    if (!to_chat) {
      must(event.starts_with("event: "), "Messages' events have names");
      event.remove_prefix(event.find('\n') + 1);
    }
    must(event.starts_with("data: ") && event.find('\n') == std::string_view::npos, "one line of data");
    event.remove_prefix(6);
    if (event == "[DONE]") must(to_chat && rest.empty() && s.over, "[DONE] is the last word");
    else read(event);
  }
  if (s.over) must(s.text.ends_with(to_chat ? "data: [DONE]\n\n" : "\"message_stop\"}\n\n"), "a complete stream ends as one");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::input in(data, size);
  const uint8_t kind = in.byte();
  const fuzz::exact_copy copy(in.rest());
  const bool first = (kind & 1) != 0;
  if ((kind & 6) == 0) {
    request(copy.text(), first);
  } else if ((kind & 6) == 2) {
    answer(copy.text(), first, kind);
  } else {
    const streamed whole = stream(copy.text(), first, kind, [&] { return copy.text().size(); });
    well_formed(whole, first);
    must(whole == stream(copy.text(), first, kind, [] { return size_t{1}; }), "byte by byte");
    fuzz::cuts cut(kind);
    must(whole == stream(copy.text(), first, kind, [&] { return cut.next(); }), "cut anywhere");
  }
  return 0;
}
