// Asking an engine for usage: the question changes one field of a request, and its answer is taken out of the stream, the same
// bytes however they are cut and never any other.
#include <algorithm>
#include <vector>

#include "fuzz.hpp"
#include "gateway/usage_ask.hpp"

using namespace hive;
using fuzz::must;

namespace {

struct filtered {
  std::string seen;
  size_t kept_back = 0;
  bool operator==(const filtered &) const = default;
};

template <class Cut>
filtered filter(std::string_view wire, Cut &&next_size) {
  filtered out;
  gateway::usage_filter f;
  while (!wire.empty()) {
    const fuzz::exact_copy piece(wire.substr(0, next_size()));
    out.seen += f.pass(piece.text(), out.kept_back);
    wire.remove_prefix(piece.text().size());
  }
  out.seen += f.rest(out.kept_back);
  return out;
}

void stream(std::string_view wire, uint8_t seed) {
  const filtered whole = filter(wire, [&] { return wire.size(); });
  must(whole.seen.size() + whole.kept_back == wire.size(), "a byte is seen or kept back");
  must(whole.kept_back == 0 || wire.find("\"usage\"") != std::string_view::npos, "only usage is kept back");
  must(whole.kept_back != 0 || whole.seen == wire, "the rest passes as it came");
  must(whole == filter(wire, [] { return size_t{1}; }), "byte by byte");
  fuzz::cuts cut(seed);
  must(whole == filter(wire, [&] { return cut.next(); }), "cut anywhere");
}

void request(std::string_view text) {
  static gateway::request_scanner scanner;
  std::vector<char> padded(text.begin(), text.end());
  padded.resize(text.size() + http::body_padding);
  const std::string_view body(padded.data(), text.size());
  gateway::request_scan before, after;
  if (scanner.scan(body, before)) return;
  const http::body_ptr asked = gateway::with_usage_asked(body, before, nullptr);
  if (!asked) return;
  must(before.stream && !before.include_usage, "only a stream that does not ask itself");
  must(asked->size() > body.size() && asked->capacity() >= asked->size() + http::body_padding, "a body like any other");
  must(!scanner.scan(*asked, after), "the question leaves a sound request");
  must(after.include_usage && after.stream && after.model == before.model &&
           after.max_tokens == before.max_tokens && after.messages == before.messages && after.text_bytes == before.text_bytes,
       "it adds the question and changes nothing else");
  before.inserted(before.stream_options_given ? before.stream_options_at.offset : before.object_at, asked->size() - body.size());
  must(before.model_at.offset == after.model_at.offset, "the model is where it is said to be");
  for (size_t i = 0; i < before.prompt_at.size(); ++i)
    must(before.prompt_at[i].offset == after.prompt_at[i].offset && before.prompt_at[i].length == after.prompt_at[i].length,
         "and so is the prompt");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::input in(data, size);
  const uint8_t kind = in.byte();
  const fuzz::exact_copy copy(in.rest());
  if ((kind & 1) != 0) stream(copy.text(), kind);
  else request(copy.text());
  return 0;
}
