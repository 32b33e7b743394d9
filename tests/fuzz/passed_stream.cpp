// A provider's stream in the client's own API: the same bytes and the same verdict however it is cut, and every byte as it came where there
// is no key to hide.
#include <string>

#include "fuzz.hpp"
#include "providers/passed_stream.hpp"

using namespace hive;
using fuzz::must;

namespace {

struct passed {
  std::string out;
  bool answered = false, ended = false;
  bool operator==(const passed &) const = default;
};

template <class Cut>
passed pass(std::string_view wire, providers::api spoken, std::string_view key, size_t most, Cut &&next_size) {
  providers::passed_stream s(spoken, key, most);
  passed p;
  while (!wire.empty()) {
    const fuzz::exact_copy piece(wire.substr(0, next_size()));
    s.feed(piece.text(), p.out);
    wire.remove_prefix(piece.text().size());
  }
  s.end(p.out);
  p.answered = s.answered();
  p.ended = s.ended();
  return p;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::input in(data, size);
  const uint8_t how = in.byte(), seed = in.byte();
  const auto spoken = static_cast<providers::api>(how & 3);
  const size_t most = (how & 4) != 0 ? 64 : 4096;
  const fuzz::exact_copy copy(in.rest());
  const std::string_view wire = copy.text(), key = "sk-1";
  const passed whole = pass(wire, spoken, key, most, [&] { return wire.size(); });
  must(whole == pass(wire, spoken, key, most, [] { return size_t{1}; }), "byte by byte");
  fuzz::cuts cut(seed);
  must(whole == pass(wire, spoken, key, most, [&] { return cut.next(); }), "cut anywhere");
  must(whole.out == wire || wire.find(key) != std::string_view::npos, "what has no key in it is not changed");
  const passed open = pass(wire, spoken, {}, most, [&] { return wire.size(); });
  must(open.out == wire, "without a key every byte passes");
  must(open.answered == whole.answered && open.ended == whole.ended, "the key has no say in what is an answer");
  return 0;
}
