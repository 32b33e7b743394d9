// Uploads in multipart/form-data: a model is found where a strict reader finds one, a reader that knows no quotes finds no other, and
// nothing behind the body matters.
#include <algorithm>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "fuzz.hpp"
#include "gateway/form_scan.hpp"

using namespace hive;
using fuzz::must;

namespace {

// As some engines read (cpp-httplib): lines end with CRLF, a parameter ends at a semicolon, quotes are only taken off.
class plain_reader {
 public:
  explicit plain_reader(std::string_view body) {
    const std::string all = "\r\n" + std::string(body), mark = "\r\n--x";
    for (size_t at = all.find(mark); at != std::string::npos;) {
      const size_t from = at + mark.size();
      at = all.find(mark, from);
      if (at == std::string::npos || all.compare(from, 2, "--") == 0) return;
      part(all.substr(from, at - from) + "\r\n");
    }
  }
  size_t models = 0;
  std::string value;

 private:
  static std::string_view bare(std::string_view text) {
    text = trim(text);
    while (!text.empty() && text.front() == '"') text.remove_prefix(1);
    while (!text.empty() && text.back() == '"') text.remove_suffix(1);
    return text;
  }
  void part(const std::string &text) {
    const size_t head = std::min(text.find("\r\n\r\n"), text.size());
    for (size_t from = 0; from < head;) {
      const size_t end = std::min(text.find("\r\n", from), head);
      line(std::string_view(text).substr(from, end - from), text, head);
      from = end + 2;
    }
  }
  void line(std::string_view words, const std::string &text, size_t head) {
    const size_t colon = words.find(':');
    if (colon == std::string_view::npos || !iequals(trim(words.substr(0, colon)), "content-disposition")) return;
    for (const std::string &pair : split_trimmed(words.substr(colon + 1), ';')) {
      const size_t equals = pair.find('=');
      if (equals == std::string::npos) continue;
      if (bare(std::string_view(pair).substr(0, equals)) != "name" || bare(std::string_view(pair).substr(equals + 1)) != "model") continue;
      ++models;
      value = text.size() >= head + 6 ? text.substr(head + 4, text.size() - head - 6) : std::string();
    }
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::input in(data, size);
  const uint8_t how = in.byte();
  const std::string type = (how & 1) != 0 ? "multipart/form-data; boundary=x" : std::string(in.take(how >> 1));
  if (!gateway::is_form(type)) return 0;  // whoever calls asks this first
  const fuzz::exact_copy body(in.rest());
  gateway::request_scan out, again;
  const auto elsewhere = gateway::read_otherwise({}, body.text(), {});
  must(!elsewhere || !elsewhere->message.empty(), "a refusal says why");
  const auto refusal = gateway::scan_form(type, body.text(), out);
  const auto second = gateway::scan_form(type, body.text(), again);
  must(refusal.has_value() == second.has_value() && out.model == again.model && out.stream == again.stream, "the same body says the same");
  if (refusal) {
    must(!refusal->message.empty() && refusal->offset <= body.text().size(), "a refusal says why and where");
    return 0;
  }
  must(!out.model.empty() && out.model.size() <= gateway::request_scanner::max_model_bytes, "a model of its size");
  must(body.text().find(out.model) != std::string_view::npos, "the model stands in the body");
  if ((how & 1) == 0) return 0;
  const plain_reader other(body.text());
  must(other.models == 1 && other.value == out.model, "another reader finds the same model");
  return 0;
}
