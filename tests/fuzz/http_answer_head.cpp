// Heads of engines' answers.
#include "base/text.hpp"
#include "fuzz.hpp"
#include "http/head.hpp"

using namespace hive;
using fuzz::must;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view wire(reinterpret_cast<const char *>(data), size);
  size_t from = 0;
  const size_t end = http::find_head_end(wire, from);
  static http::answer_head_parser parser;
  const fuzz::exact_copy head(wire.substr(0, end > 0 ? end : wire.size()));
  if (const auto refusal = parser.parse(head.text())) {
    must(!refusal->what.empty(), "a refusal says why");
    return 0;
  }
  must(end > 0, "only a whole head is accepted");
  const http::answer_head &h = parser.head();
  must(h.status >= 100 && h.status <= 599, "a status of the range");
  must(h.version == 10 || h.version == 11, "a version of ours");
  must(!(h.chunked && h.content_length), "one framing");
  must(!h.chunked || h.version == 11, "chunked needs HTTP/1.1");
  must(h.fields.size() <= http::max_fields, "bounded fields");
  std::string again = "HTTP/1." + std::to_string(h.version - 10) + " " + std::to_string(h.status) + " X\r\n";
  for (const auto &f : h.fields) {
    for (const char *mine : {"content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "proxy-connection"})
      must(!iequals(f.name, mine), "no field of the connection goes on");
    must(!f.name.empty() && f.name.find_first_of(std::string_view(" \t:\r\n\0", 6)) == std::string_view::npos, "a field name is a token");
    must(f.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos, "a value is one line");
    again.append(f.name).append(": ").append(f.value).append("\r\n");
  }
  again += "\r\n";
  http::answer_head_parser fresh;
  must(!fresh.parse(again), "what goes on is accepted by the next one");
  must(fresh.head().status == h.status && fresh.head().fields.size() == h.fields.size(), "and means the same");
  for (size_t i = 0; i < h.fields.size(); ++i)
    must(h.fields[i].name == fresh.head().fields[i].name && h.fields[i].value == fresh.head().fields[i].value, "field by field");
  must(!fresh.head().chunked && !fresh.head().content_length, "no framing goes on");
  return 0;
}
