// Framing of bodies in both directions: length, chunked, to the end. However the bytes are cut, the same payload comes out.
#include <algorithm>

#include "fuzz.hpp"
#include "http/decoder.hpp"

using namespace hive;
using fuzz::must;
using http::body_decoder;

namespace {

struct outcome {
  body_decoder::state state = body_decoder::state::more;
  std::string payload, what;
  size_t consumed = 0;
};

template <class Cut>
outcome run(body_decoder d, std::string_view wire, bool end, Cut &&next_size) {
  outcome out;
  while (!wire.empty() && d.now() == body_decoder::state::more) {
    fuzz::exact_copy piece(wire.substr(0, next_size()));
    const size_t n = piece.text().size();
    const auto step = d.decode({piece.data(), n});
    must(step.consumed <= n && step.payload.size() <= step.consumed, "no more comes out than went in");
    must(step.payload.empty() || (step.payload.data() >= piece.data() && step.payload.data() + step.payload.size() <= piece.data() + n),
         "the payload lies in the piece");
    must(step.consumed == n || d.now() != body_decoder::state::more, "a decoder that wants more has taken all");
    out.payload += step.payload;
    out.consumed += step.consumed;
    wire.remove_prefix(n);
  }
  if (end) d.end_of_input();
  out.state = d.now();
  out.what = d.what();
  must(d.failed() == !out.what.empty(), "a failure says why");
  char more[4] = {'0', '\r', '\n', 'x'};
  if (d.now() != body_decoder::state::more) must(d.decode({more, 4}).consumed == 0, "nothing is taken after the end");
  return out;
}

bool same(const outcome &a, const outcome &b) {
  const bool failed = a.state == body_decoder::state::malformed || a.state == body_decoder::state::too_large;
  return a.state == b.state && a.what == b.what && (failed || (a.payload == b.payload && a.consumed == b.consumed));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::input in(data, size);
  const uint8_t kind = in.byte(), seed = in.byte();
  const uint64_t limit = (kind & 4) != 0 ? UINT64_MAX : in.word();
  const std::string_view wire = in.rest();
  body_decoder start;
  if (kind % 3 == 0) start.start_chunked(limit);
  if (kind % 3 == 1) start.start_length(limit);
  if (kind % 3 == 2) start.start_until_close(limit);
  const bool end = (kind & 8) != 0;
  const outcome whole = run(start, wire, end, [&] { return wire.size(); });
  must(whole.payload.size() <= limit && whole.payload.size() <= wire.size(), "bounded payload");
  must(same(whole, run(start, wire, end, [] { return size_t{1}; })), "byte by byte");
  fuzz::cuts cut(seed);
  must(same(whole, run(start, wire, end, [&] { return cut.next(); })), "cut anywhere");

  // The payload framed again is taken off again.
  std::string framed;
  for (size_t at = 0; at < whole.payload.size();) {
    const size_t n = std::min(whole.payload.size() - at, cut.next());
    char digits[20];
    std::snprintf(digits, sizeof digits, "%zx\r\n", n);
    framed.append(digits).append(whole.payload, at, n).append("\r\n");
    at += n;
  }
  framed += "0\r\n\r\n";
  body_decoder chunked;
  chunked.start_chunked(UINT64_MAX);
  const outcome back = run(chunked, framed, false, [&] { return cut.next(); });
  must(back.state == body_decoder::state::done && back.payload == whole.payload && back.consumed == framed.size(), "framed again");
  return 0;
}
