// What every fuzz target shares: an assertion that holds in every build, and a reader of structured input.
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace hive::fuzz {

// Aborts when a property does not hold; the fuzzer, or the replay, then shows the input.
inline void must(bool holds, const char *property) {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s\n", property);
  std::abort();
}

// A copy in memory of exactly its size, so that ASan sees a read past the end.
class exact_copy {
 public:
  explicit exact_copy(std::string_view text) : bytes_(new char[text.size()]), size_(text.size()) {
    if (!text.empty()) std::memcpy(bytes_.get(), text.data(), text.size());
  }
  char *data() { return bytes_.get(); }
  std::string_view text() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t size_;
};

// Reads control bytes off the front of an input; past its end everything is zero or empty.
class input {
 public:
  input(const uint8_t *data, size_t size) : rest_(reinterpret_cast<const char *>(data), size) {}
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  uint16_t word() {
    const uint8_t low = byte();
    return static_cast<uint16_t>(low | byte() << 8);
  }
  double number() {
    double value = 0;
    const std::string_view bytes = take(sizeof value);
    if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string_view take(size_t most) {
    const std::string_view out = rest_.substr(0, most);
    rest_.remove_prefix(out.size());
    return out;
  }
  std::string_view rest() { return take(rest_.size()); }
  bool empty() const { return rest_.empty(); }
  size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
};

// Sizes of the pieces in which a text arrives, the same for the same seed: 32 mostly small ones in a row, at the front or, of an odd
// seed, behind a first large one, and large ones behind them, so that a long text is no more work than that.
class cuts {
 public:
  explicit cuts(uint8_t seed) : state_(seed * 2654435761u + 1), first_(seed & 1) {}
  size_t next() {
    state_ = state_ * 1664525u + 1013904223u;
    const uint32_t pick = state_ >> 24, size = state_ >> 8;
    if (std::exchange(first_, 0u) != 0 || small_ == 0) return 1 + size % 1000;
    --small_;
    return pick < 96 ? 1 : pick < 192 ? 1 + size % 7 : 1 + size % 200;
  }

 private:
  uint32_t state_, first_, small_ = 32;
};

// So many pieces are sent to a server before what it answered is read.
inline constexpr size_t pieces_unheard = 16;

// serve(wire, how, next) puts the wire through what is tested in pieces of next() bytes; what comes of it is the same in large
// pieces and in those of a seed. The input is `how`, the seed, the wire.
template <class Serve>
void same_however_cut(const uint8_t *data, size_t size, Serve serve, const char *property) {
  input in(data, size);
  const uint8_t how = in.byte(), seed = in.byte();
  const std::string_view wire = in.rest();
  const auto whole = serve(wire, how, [] { return size_t{60'000}; });
  cuts cut(seed);
  const auto pieces = serve(wire, how, [&] { return cut.next(); });
  must(whole == pieces, property);
}

}  // namespace hive::fuzz
