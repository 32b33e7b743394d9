#include "base/text.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "base/hex_digit.hpp"

namespace hive {

namespace {
constexpr char hex_digits[] = "0123456789abcdef";
constexpr char base58_digits[] = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
char fold(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
}  // namespace

std::string to_hex(std::span<const uint8_t> bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (uint8_t b : bytes) {
    out += hex_digits[b >> 4];
    out += hex_digits[b & 15];
  }
  return out;
}

std::optional<std::vector<uint8_t>> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::vector<uint8_t> out(text.size() / 2);
  for (size_t i = 0; i < out.size(); ++i) {
    const int high = hex_value(text[2 * i]);
    const int low = hex_value(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return out;
}

std::string to_base58(std::span<const uint8_t> bytes) {
  std::vector<uint8_t> digits;  // little endian, base 58
  for (uint8_t byte : bytes) {
    unsigned carry = byte;
    for (uint8_t &digit : digits) {
      carry += static_cast<unsigned>(digit) << 8;
      digit = static_cast<uint8_t>(carry % 58);
      carry /= 58;
    }
    for (; carry > 0; carry /= 58) digits.push_back(static_cast<uint8_t>(carry % 58));
  }
  std::string out;
  for (size_t i = 0; i < bytes.size() && bytes[i] == 0; ++i) out += '1';
  for (auto it = digits.rbegin(); it != digits.rend(); ++it) out += base58_digits[*it];
  return out;
}

std::string make_uuid() {
  // One call of the system's source fills 256 ids: it would be a system call each request otherwise.
  struct pool {
    std::array<uint8_t, 4096> bytes;
    size_t used = sizeof bytes;
  };
  thread_local pool random;
  if (random.used == random.bytes.size()) {
    randombytes_buf(random.bytes.data(), random.bytes.size());
    random.used = 0;
  }
  uint8_t *const raw = random.bytes.data() + random.used;
  random.used += 16;
  raw[6] = static_cast<uint8_t>((raw[6] & 0x0f) | 0x40);
  raw[8] = static_cast<uint8_t>((raw[8] & 0x3f) | 0x80);
  std::string out(36, '-');
  for (size_t i = 0, at = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) ++at;
    out[at++] = hex_digits[raw[i] >> 4];
    out[at++] = hex_digits[raw[i] & 15];
  }
  return out;
}

bool is_uuid(std::string_view text) {
  if (text.size() != 36 && text.size() != 32) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = text.size() == 36 && (i == 8 || i == 13 || i == 18 || i == 23);
    if (dash ? text[i] != '-' : hex_value(text[i]) < 0) return false;
  }
  return true;
}

std::string rfc3339_ms(uint64_t ms) {
  const time_t seconds = static_cast<time_t>(ms / 1000);
  tm parts;
  gmtime_r(&seconds, &parts);
  char out[80];
  const int n = std::snprintf(out, sizeof out, "%04d-%02d-%02dT%02d:%02d:%02d.%03uZ", parts.tm_year + 1900,
                              parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                              static_cast<unsigned>(ms % 1000));
  return std::string(out, static_cast<size_t>(n));
}

std::optional<uint64_t> parse_duration_ns(std::string_view text) {
  if (text == "0") return 0;
  if (text.empty()) return std::nullopt;
  long double total = 0;
  while (!text.empty()) {
    double value = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    if (error != std::errc() || text.front() == '-' || text.front() == '+') return std::nullopt;
    text.remove_prefix(static_cast<size_t>(rest - text.data()));
    static constexpr std::pair<std::string_view, double> units[] = {{"ns", 1},   {"us", 1e3},  {"ms", 1e6},
                                                                    {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
    const auto unit = std::find_if(std::begin(units), std::end(units), [&](const auto &u) {
      return text.substr(0, u.first.size()) == u.first && (u.first != "m" || text.substr(0, 2) != "ms");
    });
    if (unit == std::end(units)) return std::nullopt;
    text.remove_prefix(unit->first.size());
    total += static_cast<long double>(value) * unit->second;
  }
  if (!(total < 9.2e18L)) return std::nullopt;
  return static_cast<uint64_t>(total + 0.5L);
}

std::string format_duration(uint64_t ns) {
  if (ns == 0) return "0s";
  std::string out;
  const auto put = [&](uint64_t unit, const char *name) {
    if (ns >= unit) {
      out += std::to_string(ns / unit) + name;
      ns %= unit;
    }
  };
  put(3'600'000'000'000, "h");
  put(60'000'000'000, "m");
  put(1'000'000'000, "s");
  put(1'000'000, "ms");
  put(1'000, "us");
  put(1, "ns");
  return out;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string> split_trimmed(std::string_view text, char separator) {
  std::vector<std::string> out;
  while (true) {
    const size_t at = text.find(separator);
    const std::string_view part = trim(text.substr(0, at));
    if (!part.empty()) out.emplace_back(part);
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at + 1);
  }
}

bool iequals(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  // Eight bytes at once: they may differ in the bit of the case, and only where both are letters.
  constexpr uint64_t ones = 0x0101010101010101, tops = 0x80 * ones, cases = 0x20 * ones;
  const char *p = a.data(), *q = b.data(), *const end = p + a.size();
  for (uint64_t x, y; end - p >= 8; p += 8, q += 8) {
    std::memcpy(&x, p, 8);
    std::memcpy(&y, q, 8);
    if (x == y) continue;
    const uint64_t small = (x | cases) & ~tops;
    const uint64_t letters = (small + (0x80 - 'a') * ones) & ~(small + (0x80 - 'z' - 1) * ones) & ~x & tops;
    if (((x ^ y) & ~(letters >> 2)) != 0) return false;
  }
  for (; p != end; ++p, ++q)
    if (fold(*p) != fold(*q)) return false;
  return true;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), fold);
  return out;
}

std::string nearest(std::string_view name, std::span<const std::string> names) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  std::vector<size_t> row;
  for (const std::string &candidate : names) {
    // A distance is at least the difference of the lengths, and at least the least of each row on the way.
    if (std::max(name.size(), candidate.size()) - std::min(name.size(), candidate.size()) >= best_distance) continue;
    row.resize(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    size_t least = 0;
    for (size_t i = 1; i <= name.size() && least < best_distance; ++i) {
      size_t diagonal = row[0];
      least = row[0] = i;
      for (size_t j = 1; j < row.size(); ++j) {
        const size_t substituted = diagonal + (fold(name[i - 1]) != fold(candidate[j - 1]));
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
        least = std::min(least, row[j]);
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace hive
