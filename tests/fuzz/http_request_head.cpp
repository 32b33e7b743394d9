// Heads of client requests: what is accepted can mean one thing only, and says the same when it is written out again.
#include <algorithm>

#include "base/text.hpp"
#include "fuzz.hpp"
#include "http/head.hpp"

using namespace hive;
using fuzz::must;

namespace {

size_t count_named(const http::request_head &h, std::string_view name) {
  size_t n = 0;
  for (const auto &f : h.fields) n += iequals(f.name, name);
  return n;
}

bool same(const http::request_head &a, const http::request_head &b) {
  if (a.method != b.method || a.target != b.target || a.path != b.path || a.query != b.query || a.version != b.version ||
      a.keep_alive != b.keep_alive || a.chunked != b.chunked || a.expect_continue != b.expect_continue ||
      a.content_length != b.content_length || a.fields.size() != b.fields.size())
    return false;
  for (size_t i = 0; i < a.fields.size(); ++i)
    if (a.fields[i].name != b.fields[i].name || a.fields[i].value != b.fields[i].value) return false;
  return true;
}

void check_accepted(const http::request_head &h) {
  must(h.version == 10 || h.version == 11, "a version of ours");
  must(!(h.chunked && h.content_length), "one framing");
  must(!h.chunked || h.version == 11, "chunked needs HTTP/1.1");
  must(count_named(h, "content-length") == (h.content_length ? 1u : 0u), "one length");
  must(count_named(h, "transfer-encoding") == (h.chunked ? 1u : 0u), "one coding");
  must(count_named(h, "host") == 1 || (h.version == 10 && count_named(h, "host") == 0), "one host");
  must(h.fields.size() <= http::max_fields, "bounded fields");
  must(!h.method.empty() && !h.target.empty(), "method and target");
  must(h.target == "*" || h.target.front() == '/', "origin form");
  must(h.target.starts_with(h.path), "the path is the target's beginning");
  must(h.path.size() == h.target.size() || h.target.substr(h.path.size()) == "?" + std::string(h.query), "path ? query");
  for (const char c : h.target) must(static_cast<unsigned char>(c) > 0x20 && c != 0x7f && c != '#', "clean target");
  for (const auto &f : h.fields) {
    must(!f.name.empty() && f.name.find_first_of(std::string_view(" \t:\r\n\0", 6)) == std::string_view::npos, "a field name is a token");
    must(f.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos, "a value is one line");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view wire(reinterpret_cast<const char *>(data), size);
  size_t from = 0;
  const size_t end = http::find_head_end(wire, from);
  size_t seen = 0, found = 0;
  fuzz::cuts cut(size > 0 ? data[size - 1] : 0);
  for (size_t n = 0; n < wire.size() && found == 0;) found = http::find_head_end(wire.substr(0, n = std::min(wire.size(), n + cut.next())), seen);
  must(found == end, "the end of a head is found however it is cut");

  static http::request_head_parser parser;  // as a connection does: one for many heads
  const fuzz::exact_copy head(wire.substr(0, end > 0 ? end : wire.size()));
  const auto refusal = parser.parse(head.text());
  if (refusal) {
    must(!refusal->what.empty(), "a refusal says why");
    must(refusal->status == 400 || refusal->status == 417 || refusal->status == 431 || refusal->status == 505, "a status of the table");
    return 0;
  }
  must(end > 0, "only a whole head is accepted");
  const http::request_head &h = parser.head();
  check_accepted(h);

  std::string again = std::string(h.method) + " " + std::string(h.target) + (h.version == 10 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n");
  for (const auto &f : h.fields) again.append(f.name).append(": ").append(f.value).append("\r\n");
  again += "\r\n";
  http::request_head_parser fresh;
  must(!fresh.parse(again), "what was accepted is accepted when written out");
  must(same(h, fresh.head()), "and means the same");
  parser.release(16);
  return 0;
}
