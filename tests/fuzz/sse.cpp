// The observer of answers: the same facts however the bytes are cut and whichever line end they have.
#include "fuzz.hpp"
#include "http/sse_scanner.hpp"

using namespace hive;
using fuzz::must;

namespace {

template <class Cut>
http::stream_facts scan(std::string_view wire, Cut &&next_size) {
  http::sse_scanner s;
  while (!wire.empty()) {
    const fuzz::exact_copy piece(wire.substr(0, next_size()));
    s.feed(piece.text());
    wire.remove_prefix(piece.text().size());
  }
  s.end();
  return s.facts();
}

bool same(const http::stream_facts &a, const http::stream_facts &b) {
  return a.content == b.content && a.error == b.error && a.done == b.done && a.finished == b.finished && a.unread == b.unread &&
         a.usage.present == b.usage.present && a.usage.prompt == b.usage.prompt && a.usage.completion == b.usage.completion &&
         a.usage.cached == b.usage.cached &&
         a.delta_bytes == b.delta_bytes && a.delta_pieces == b.delta_pieces && a.events == b.events && a.error_text == b.error_text;
}

std::string with_line_ends(std::string_view wire, std::string_view end) {
  std::string out;
  for (const char c : wire) {
    if (c == '\n') out += end;
    else out += c;
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::input in(data, size);
  const uint8_t seed = in.byte();
  const std::string_view wire = in.rest();
  const http::stream_facts whole = scan(wire, [&] { return wire.size(); });
  must(whole.events <= wire.size() / 4 && whole.error_text.size() <= 4096 && whole.delta_bytes <= wire.size(),
       "bounded facts");
  must(whole.delta_pieces <= whole.delta_bytes && (whole.delta_pieces == 0 || whole.content), "deltas are content");
  must(whole.usage.present || (whole.usage.prompt == 0 && whole.usage.completion == 0), "no usage, no tokens");
  must(whole.error || whole.error_text.empty(), "an error's text needs an error");
  must(same(whole, scan(wire, [] { return size_t{1}; })), "byte by byte");
  fuzz::cuts cut(seed);
  must(same(whole, scan(wire, [&] { return cut.next(); })), "cut anywhere");
  if (wire.find('\r') == std::string_view::npos) {
    for (const char *end : {"\r\n", "\r"}) {
      const std::string other = with_line_ends(wire, end);
      must(same(whole, scan(other, [&] { return cut.next(); })), "whichever line end");
    }
  }
  return 0;
}
